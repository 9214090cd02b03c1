public import CloakroomCore

/// The result of a run.
public struct Outcome: Sendable {
    /// How a request ended.
    public enum Ending: UInt8, Sendable {
        /// A response that is not a failure.
        case succeeded
        /// A response with status 503 of a target, or a reset connection.
        case failed
        /// No response head in time.
        case timedOut
        /// The gateway had no connection, place in the queue or target for it.
        case rejected
    }

    /// One request.
    public struct Record: Sendable {
        /// Nanoseconds from the start of the run.
        public let arrival: UInt64
        /// Nanoseconds until its response, or until it was given up.
        public let latency: UInt64
        /// Nanoseconds that a target that is well and idle needs for it.
        public let service: UInt64
        /// The target of the last attempt; -1 if there was none.
        public let target: Int
        /// How it ended.
        public let ending: Ending
    }

    /// All requests, by their ends.
    public internal(set) var records: [Record] = []
    /// When each attempt was sent, in nanoseconds from the start, and its target.
    public internal(set) var attempts: [(time: UInt64, target: Int)] = []
    /// What the supervisor reported, with its time in nanoseconds from the start.
    public internal(set) var changes: [(time: UInt64, change: UpstreamChange)] = []
    /// The FNV-1a hash of all events, in words of 64 bits.
    public internal(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// The number of events.
    public internal(set) var eventCount = 0
    /// Requests that had not ended when no event was left; 0 unless a request was lost.
    public internal(set) var unfinished = 0
    /// Connections that were established.
    public internal(set) var connects = 0
    /// The maximum number of connections at a time, those being established included.
    public internal(set) var mostConnections = 0
    /// Requests that targets still count when all have ended; 0 unless one was counted wrongly.
    public internal(set) var countedInFlight = 0

    mutating func note(_ change: UpstreamChange, at time: UInt64) {
        changes.append((time, change))
        for byte in "\(change)".utf8 { hash(UInt64(byte)) }
    }

    mutating func hash(_ word: UInt64) {
        digest = (digest ^ word) &* 0x0100_0000_01b3
        // The multiplication moves differences to higher bits only.
        digest ^= digest >> 32
    }

    /// The requests that arrived in a period, in seconds.
    public func records(in seconds: Range<Double>) -> [Record] {
        let range = Self.nanoseconds(seconds)
        return records.filter { range.contains($0.arrival) }
    }

    /// The number of requests of a period that ended in one of several ways.
    public func count(of endings: Set<Ending>, in seconds: Range<Double>) -> Int {
        let range = Self.nanoseconds(seconds)
        return records.reduce(0) { $0 + (range.contains($1.arrival) && endings.contains($1.ending) ? 1 : 0) }
    }

    /// The fraction of the attempts of a period that were sent to a target; 0 if there was none.
    public func share(of target: Int, in seconds: Range<Double>) -> Double {
        let range = Self.nanoseconds(seconds)
        var (all, own) = (0, 0)
        for attempt in attempts where range.contains(attempt.time) {
            all += 1
            if attempt.target == target { own += 1 }
        }
        return all == 0 ? 0 : Double(own) / Double(all)
    }

    /// A percentile of the latency of the requests of a period, in seconds.
    public func latency(_ percentile: Double, in seconds: Range<Double>) -> Double {
        Self.percentile(percentile, of: records(in: seconds).map(\.latency))
    }

    /// A percentile of the latency that the requests of a period have with targets that are well and idle, in seconds.
    public func bestLatency(_ percentile: Double, in seconds: Range<Double>) -> Double {
        Self.percentile(percentile, of: records(in: seconds).map(\.service))
    }

    private static func percentile(_ percentile: Double, of values: [UInt64]) -> Double {
        guard !values.isEmpty else { return 0 }
        let sorted = values.sorted()
        return Double(sorted[min(Int(Double(sorted.count) * percentile / 100), sorted.count - 1)]) / 1e9
    }

    private static func nanoseconds(_ seconds: Range<Double>) -> Range<UInt64> {
        UInt64(seconds.lowerBound * 1e9)..<UInt64(seconds.upperBound * 1e9)
    }
}
