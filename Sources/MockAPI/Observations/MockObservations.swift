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
    /// The maximum number of recorded requests and of separately counted paths.
    public static let limit = 1_000

    private struct State {
        var seen = RecordedTraffic()
        /// The index of the oldest request in `seen.recent`, where the next one is written once the ring is full.
        var oldest = 0
    }

    private let state = Mutex(State())

    init() {}

    /// The traffic since the start or the last reset.
    public func snapshot() -> RecordedTraffic {
        state.withLock { state in
            var snapshot = state.seen
            snapshot.recent = Array(state.seen.recent[state.oldest...] + state.seen.recent[..<state.oldest])
            return snapshot
        }
    }

    /// Clears all observations.
    public func reset() {
        state.withLock { $0 = State() }
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
