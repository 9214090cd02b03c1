package import CloakroomCore
import Synchronization

/// The last requests that the gateway rejected or that failed, for `cloakroom why`: their lines of the access log in JSON, with
/// what only an explanation needs. In memory only.
///
/// One list for all event loops, with a lock that is taken only for such requests and by `why`: a request that is forwarded
/// without a failure costs nothing. A flood of rejected requests displaces older ones.
public final class RejectedRequests: Sendable {
    /// The maximum number of requests.
    static let limit = 1_000
    /// The maximum size of one, in bytes. Paths and hosts are shortened, so that only very long configured names exceed it;
    /// such a request is not kept. All take at most 4 MiB, usually about 0.6 MiB.
    static let entryLimit = 4_096
    /// The maximum length of a path, and of a host, in bytes as received.
    static let textLimit = 128

    private struct State {
        var entries: [(id: ID128, time: Int64, document: [UInt8])] = []
        /// The position of the oldest one.
        var oldest = 0
    }

    private let state = Mutex(State())

    /// Creates an empty list.
    public init() {}

    /// Adds a request, in place of the oldest one if there are too many.
    func add(_ id: ID128, time: Int64, _ document: [UInt8]) {
        guard document.count <= Self.entryLimit else { return }
        var entry = (id: id, time: time, document: document)
        // The displaced one is released after the lock.
        state.withLock { state in
            guard state.entries.count == Self.limit else { return state.entries.append(entry) }
            swap(&state.entries[state.oldest], &entry)
            state.oldest = (state.oldest + 1) % Self.limit
        }
    }

    /// A JSON object: `held`, the number of requests; `since`, the time of the oldest one; and `found`, the request with this
    /// id, if it is among them.
    public func document(of id: ID128) -> [UInt8] {
        state.withLock { state in
            var line = LineBuffer()
            var renderer = RFC3339Renderer()
            line.append("{\"held\":")
            line.append(decimal: Int64(state.entries.count))
            if !state.entries.isEmpty {
                line.append(",\"since\":\"")
                renderer.append(state.entries[state.oldest].time, to: &line)
                line.append("\"")
            }
            if let found = state.entries.first(where: { $0.id == id }) {
                line.append(",\"found\":")
                line.append(found.document)
            }
            line.append("}\n")
            return line.take()
        }
    }
}

/// What the record of a rejected or failed request does not have. Other requests have none.
public final class RejectionDetails {
    /// The maximum number of attempts that are kept; `retries` counts all.
    private static let attemptLimit = 4

    /// The problem in the response.
    package var code: ProblemCode?
    /// See ``AccountResponse/loginFailure``.
    package var loginFailure: String?
    /// The claim that the session lacks.
    package var claim: String?
    /// The failed attempts: the target by index, and the status or the failure.
    private(set) var attempts: [(target: Int, outcome: String)] = []

    package init() {}

    package func failed(target: Int, outcome: String) {
        if attempts.count < Self.attemptLimit { attempts.append((target, outcome)) }
    }
}
