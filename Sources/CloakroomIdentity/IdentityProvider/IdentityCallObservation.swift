import AsyncHTTPClient
public import CloakroomCore
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Synchronization

/// What one attempt of an identity call sent and received. Only for diagnosis by an operator: it contains the body of the
/// response, and thereby tokens.
///
/// `cloakroom doctor` binds ``ObservedCalls/current``. While it is unbound, as in a running gateway, calls record nothing.
public struct IdentityCallObservation: Sendable, Unprintable {
    /// A response, as far as it was read.
    public struct Response: Sendable, Unprintable {
        /// The status.
        public var status: Int
        /// The value of `Content-Type`, as sent; `nil` if absent.
        public var contentType: String?
        /// The value of `Content-Length`, if it is a number of bytes.
        public var announcedLength: Int?
        /// The first scheme of `WWW-Authenticate`, as sent; `nil` if absent.
        public var challenge: String?
        /// The body. Empty if it was not read; at most 65,536 bytes.
        public var body: [UInt8] = []
        /// Whether ``body`` is the whole body.
        public var isWhole = false
    }

    /// The method.
    public let method: String
    /// The URL, without user and password.
    public let url: String
    /// The names of the header fields that the call sets.
    public let fieldNames: [String]
    /// The media type of the body; `nil` if there is none.
    public let bodyType: String?
    /// The response; `nil` if no head was received.
    public internal(set) var response: Response?
    /// The failure; `nil` if the response was read as the call requires. `failed` is a response that is not valid HTTP, or
    /// too large.
    public internal(set) var failure: TokenClientError.Kind?
    /// The time from the begin of the attempt to its end, including connecting.
    public internal(set) var duration = Duration.zero
}

/// Collects the attempts of identity calls, the latest 32.
public final class ObservedCalls: Sendable {
    /// Where calls of this task are recorded; `nil` for nowhere. A class, because the optimizer of Swift 6.3 passes no
    /// metadata of a task-local function to the runtime, which crashes.
    @TaskLocal public static var current: ObservedCalls?

    private let calls = Mutex<[IdentityCallObservation]>([])

    package init() {}

    /// The attempts in order.
    public var all: [IdentityCallObservation] { calls.withLock { $0 } }

    fileprivate func append(_ call: IdentityCallObservation) {
        calls.withLock { calls in
            if calls.count == 32 { calls.removeFirst() }
            calls.append(call)
        }
    }
}

/// The observation of one attempt in progress.
final class ObservedAttempt: Sendable {
    private let calls: ObservedCalls
    private let startedAt = ContinuousClock.now
    private let observation: Mutex<IdentityCallObservation>

    /// - Returns: `nil` if calls are not recorded.
    init?(_ request: HTTPClient.Request) {
        guard let calls = ObservedCalls.current else { return nil }
        self.calls = calls
        observation = Mutex(
            IdentityCallObservation(
                method: request.method.rawValue, url: request.url.absoluteString,
                fieldNames: request.headers.map(\.name),
                bodyType: request.headers.first(name: "Content-Type")))
    }

    func received(_ head: HTTPResponseHead) {
        observation.withLock {
            $0.response = .init(
                status: Int(head.status.code), contentType: head.headers.first(name: "Content-Type"),
                announcedLength: head.headers.first(name: "Content-Length").flatMap { Int($0) },
                challenge: head.headers.first(name: "WWW-Authenticate").map { String($0.prefix { $0 != " " }) })
        }
    }

    func end(_ response: IdentityTransport.Response) {
        observation.withLock {
            $0.response?.body = response.body
            // An error body that was not read is empty, and so is one of 204.
            $0.response?.isWhole = response.isWhole && (!response.body.isEmpty || response.isSuccess)
        }
        report()
    }

    func end(_ failure: TokenClientError.Kind) {
        observation.withLock { $0.failure = failure }
        report()
    }

    private func report() {
        let duration = ContinuousClock.now - startedAt
        calls.append(
            observation.withLock { observation in
                observation.duration = duration
                return observation
            })
    }
}
