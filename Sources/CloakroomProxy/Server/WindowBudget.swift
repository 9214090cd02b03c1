/// Limits events to a number per fixed window of 10 s.
struct FixedWindowLimiter {
    private let limit: Int
    private var count = 0
    private var windowEnd: UInt64 = 0

    /// Window length in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    /// - Parameter limit: Number of events allowed per window.
    init(limit: Int) {
        self.limit = limit
    }

    /// Counts an event.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: Whether the event is within the limit.
    mutating func tryAcquire(at now: UInt64) -> Bool {
        if now >= windowEnd {
            windowEnd = now &+ Self.window
            count = 0
        }
        count += 1
        return count <= limit
    }
}
