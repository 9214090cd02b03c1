import NIOHTTP1
import Synchronization

/// A snapshot of the traffic that a mock has received.
public struct RecordedTraffic: Sendable, Equatable, Codable {
    /// The number of requests per `"METHOD path"` (no query). Paths beyond the first 1,000 distinct ones are counted
    /// only in `total`.
    public var counts: [String: Int] = [:]
    /// The number of requests.
    public var total = 0
    /// At most the last 1,000 requests, oldest first.
    public var recent: [RecordedRequest] = []
    /// The number of refresh tokens exchanged for a new pair.
    public var refreshes = 0
    /// The times of the last 1,000 exchanges, oldest first, in seconds since 1970.
    public var refreshTimes: [Double] = []
    /// The number of times a used refresh token was presented.
    public var reuseDetections = 0

    /// The number of requests with this method and path.
    public func count(_ method: String, _ path: String) -> Int {
        counts["\(method) \(path)", default: 0]
    }
}

/// Counts and records the requests that reach a mock, so tests can verify them. Thread-safe.
///
/// Requests to `/__mock/requests` are not recorded if that path is enabled, so reading does not change the result.
public final class RequestRecorder: Sendable {
    /// The path for tests to read the observations. Requests to it are not recorded, delayed or failed.
    static let path = "/__mock/requests"
    /// The maximum number of recorded requests and of separately counted paths.
    public static let limit = 1_000

    private struct State {
        var seen = RecordedTraffic()
        /// The index of the oldest request in `seen.recent`, where the next one is written once the ring is full.
        var oldest = 0
    }

    private let state = Mutex(State())

    /// The recorded traffic over HTTP, for tests in another process.
    var routes: RouteTable { ["GET \(Self.path)": { _ in try .noStore(self.snapshot()) }] }

    /// The traffic since the start.
    public func snapshot() -> RecordedTraffic {
        state.withLock { state in
            var snapshot = state.seen
            snapshot.recent = Array(state.seen.recent[state.oldest...] + state.seen.recent[..<state.oldest])
            return snapshot
        }
    }

    func record(_ request: RecordedRequest) {
        let key = "\(request.method) \(request.path)"
        state.withLock { state in
            state.seen.total += 1
            if state.seen.counts.count < Self.limit || state.seen.counts[key] != nil {
                state.seen.counts[key, default: 0] += 1
            }
            if state.seen.recent.count < Self.limit {
                state.seen.recent.append(request)
            } else {
                state.seen.recent[state.oldest] = request
                state.oldest = (state.oldest + 1) % Self.limit
            }
        }
    }

    func recordRefresh(at time: Double) {
        state.withLock { state in
            state.seen.refreshes += 1
            if state.seen.refreshTimes.count == Self.limit { state.seen.refreshTimes.removeFirst() }
            state.seen.refreshTimes.append(time)
        }
    }

    func recordReuse() {
        state.withLock { $0.seen.reuseDetections += 1 }
    }
}

/// A header field as received: the original spelling of the name, the value without surrounding white space.
public struct RecordedHeader: Sendable, Hashable, Codable, CustomStringConvertible, CustomReflectable {
    /// The name in its original spelling.
    public let name: String
    /// The value.
    public let value: String

    /// The field; values of names that carry credentials are printed as `<redacted>`.
    public var description: String {
        let folded = name.lowercased().replacing("_", with: "-")
        let isSecret = ["authorization", "proxy-authorization", "cookie", "x-api-token"].contains(folded)
        return "\(name): \(isSecret ? "<redacted>" : value)"
    }

    /// A mirror without children, because the value may be a secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A request as received, regardless of its response.
public struct RecordedRequest: Sendable, Hashable, Codable {
    /// The method, upper case as sent.
    public let method: String
    /// The path as sent, before the first `?`, nothing decoded.
    public let path: String
    /// The part after the first `?`, not decoded; `nil` without a `?`.
    public let query: String?
    /// All fields in the order received, including repeated ones, but the first `Host` at the front in this spelling.
    public let headers: [RecordedHeader]

    /// The values of all fields with this name, case-insensitive, in the order received.
    public func values(of name: String) -> [String] {
        let wanted = name.lowercased()
        return headers.filter { $0.name.lowercased() == wanted }.map(\.value)
    }
}

extension RecordedRequest {
    init(_ request: MockRequest) {
        var headers = request.fields.map { RecordedHeader(name: $0.name, value: $0.value) }
        if let host = headers.firstIndex(where: { $0.name.lowercased() == "host" }) {
            let value = headers.remove(at: host).value
            headers.insert(RecordedHeader(name: "Host", value: value), at: 0)
        }
        self.init(method: request.method.rawValue, path: request.path, query: request.query, headers: headers)
    }
}
