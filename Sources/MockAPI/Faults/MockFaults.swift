import Synchronization

/// How a mock misbehaves. Starts as the settings say; a test may change it while the mock runs.
///
/// Failures are for requests with the right `X-API-TOKEN`; without it the answer is 403 and nothing is counted here.
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

    /// Holds every answer back this long from now on.
    public func setLatency(_ latency: Duration) {
        state.withLock { $0.latency = latency }
    }

    /// Answers 500 to this share (0...1) of the requests from now on, evenly spread.
    public func setErrorRate(_ rate: Double) {
        state.withLock { $0.schedule.rate = rate }
    }

    /// Answers the next requests with this method and path (no query) with these statuses (400...599), one each, instead
    /// of serving them. Comes after what is planned already.
    public func failNext(_ method: String, _ path: String, statuses: [Int] = [500]) {
        state.withLock { $0.configured["\(method) \(path)", default: []] += statuses.map { min(max($0, 400), 599) } }
    }

    var latency: Duration {
        state.withLock { $0.latency }
    }

    /// The status to fail this request with, if it is to fail.
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
