/// So much of something in a window of ten seconds, and no more.
struct FixedWindowLimiter {
    private let limit: Int
    private var count = 0
    private var windowEnd: UInt64 = 0

    /// The length of a window, in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    /// - Parameter limit: How much there is in one window.
    init(limit: Int) {
        self.limit = limit
    }

    /// Counts one more.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    /// - Returns: Whether there was some left.
    mutating func tryAcquire(at now: UInt64) -> Bool {
        if now >= windowEnd {
            windowEnd = now &+ Self.window
            count = 0
        }
        count += 1
        return count <= limit
    }
}
