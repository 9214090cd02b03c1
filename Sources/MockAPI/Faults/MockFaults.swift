import Synchronization

/// The faults of a mock. Initialized from the settings; tests can change them while the mock runs.
///
/// Failures apply only to requests with the correct `X-API-TOKEN`; others get 403 and are not counted here.
public final class MockFaults: Sendable {
    private struct State {
        var latency: Duration
        var schedule: ErrorSchedule
        var configured: [String: [Int]] = [:]
    }

    private let state: Mutex<State>

    init(latency: Duration, errorRate: Double, errorSeed: Int) {
        state = Mutex(State(latency: latency, schedule: ErrorSchedule(rate: errorRate, seed: errorSeed)))
    }

    /// Delays every further response by this duration.
    public func setLatency(_ latency: Duration) {
        state.withLock { $0.latency = latency }
    }

    /// Responds with 500 to this fraction (0...1) of further requests, evenly distributed.
    public func setErrorRate(_ rate: Double) {
        state.withLock { $0.schedule.rate = rate }
    }

    /// Responds to the next requests with this method and path (no query) with these statuses (400...599), one each,
    /// instead of serving them. Appended to the already scheduled ones.
    public func failNext(_ method: String, _ path: String, statuses: [Int] = [500]) {
        state.withLock { $0.configured["\(method) \(path)", default: []] += statuses.map { min(max($0, 400), 599) } }
    }

    var latency: Duration {
        state.withLock { $0.latency }
    }

    /// The failure status for this request; `nil` if it is to succeed.
    func nextFailure(method: String, path: String) -> Int? {
        state.withLock { state in
            let key = "\(method) \(path)"
            if var configured = state.configured[key], !configured.isEmpty {
                let status = configured.removeFirst()
                state.configured[key] = configured.isEmpty ? nil : configured
                return status
            }
            return state.schedule.nextFails() ? 500 : nil
        }
    }
}
