import Synchronization

/// The faults of a mock. None at first; tests can change them while the mock runs.
///
/// Failures apply only to requests with the correct `X-API-TOKEN`; others get 403 and are not counted here.
///
/// Folder `Testing/`: faults, recorded traffic and routes that exist only for tests.
public final class MockFaults: Sendable {
    private struct State {
        var latency = Duration.zero
        var failures: [String: [Int]] = [:]
    }

    private let state = Mutex(State())

    /// Delays every further response by this duration.
    public func setLatency(_ latency: Duration) {
        state.withLock { $0.latency = latency }
    }

    /// Responds to the next requests with this method and path (no query) with these statuses (400...599), one each,
    /// instead of serving them. Appended to the already scheduled ones.
    public func failNext(_ method: String, _ path: String, statuses: [Int] = [500]) {
        state.withLock { $0.failures["\(method) \(path)", default: []] += statuses.map { min(max($0, 400), 599) } }
    }

    var latency: Duration {
        state.withLock { $0.latency }
    }

    /// The failure status for this request; `nil` if it is to succeed.
    func nextFailure(method: String, path: String) -> Int? {
        state.withLock { state in
            let key = "\(method) \(path)"
            guard let status = state.failures[key]?.first else { return nil }
            state.failures[key]?.removeFirst()
            return status
        }
    }
}
