import Synchronization

/// What a mock has seen so far, at one moment.
public struct RecordedTraffic: Sendable, Equatable, Codable {
    /// How many requests came for each `"METHOD path"` (no query). Of paths beyond the first 1,000 different ones only
    /// `total` knows.
    public var counts: [String: Int] = [:]
    /// How many requests came.
    public var total = 0
    /// The last 1,000 requests at most, oldest first.
    public var recent: [RecordedRequest] = []
    /// How many refresh tokens were exchanged for a new pair.
    public var refreshes = 0
    /// When the last 1,000 of them were, oldest first, in seconds since 1970.
    public var refreshTimes: [Double] = []
    /// How many times a spent refresh token was presented.
    public var reuseDetections = 0

    /// How many requests came with this method and path.
    public func count(_ method: String, _ path: String) -> Int {
        counts["\(method) \(path)", default: 0]
    }
}

/// Counts and remembers what reaches a mock, so that a test can prove what did and what did not. Safe to use from
/// everywhere at once.
///
/// Requests to `/__mock/requests` are neither counted nor remembered while that path is switched on: looking must not
/// change what is seen.
public final class RequestRecorder: Sendable {
    /// How many requests are remembered, and how many different paths are counted one by one.
    public static let limit = 1_000

    private struct State {
        var seen = RecordedTraffic()
        /// Where in `seen.recent` the oldest request stands, and the next one goes, once the ring is full.
        var oldest = 0
    }

    private let state = Mutex(State())

    init() {}

    /// What was seen since the start or the last reset.
    public func snapshot() -> RecordedTraffic {
        state.withLock { state in
            var snapshot = state.seen
            snapshot.recent = Array(state.seen.recent[state.oldest...] + state.seen.recent[..<state.oldest])
            return snapshot
        }
    }

    /// Forgets everything.
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
