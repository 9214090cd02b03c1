/// How much of what a well-meaning client seldom does is put up with on one connection: tiny pieces, tiny windows, errors.
struct GlitchBudget {
    private var count = 0
    private var windowEnd: UInt64 = 0

    /// So many in one window.
    private static let limit = 2_000
    /// The length of a window, in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    /// Counts one more.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    /// - Returns: Whether there is some left.
    mutating func spend(at now: UInt64) -> Bool {
        if now >= windowEnd {
            windowEnd = now &+ Self.window
            count = 0
        }
        count += 1
        return count <= Self.limit
    }
}
