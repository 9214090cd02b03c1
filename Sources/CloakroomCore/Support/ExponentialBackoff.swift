/// Delays between attempts that double with each failure up to a maximum, with jitter, so that processes which lost a
/// server at the same time do not retry at the same time.
public struct ExponentialBackoff: Sendable {
    private let initial: UInt64
    private let maximum: UInt64
    private let jitter: Double

    /// - Parameters:
    ///   - initial: The delay after the first failure.
    ///   - maximum: The maximum delay.
    ///   - jitter: The part of a delay that randomness may subtract, 0...1.
    public init(initial: Duration, maximum: Duration, jitter: Double) {
        self.initial = initial.wholeNanoseconds
        self.maximum = maximum.wholeNanoseconds
        self.jitter = min(max(jitter, 0), 1)
    }

    /// The delay before the next attempt.
    /// - Parameters:
    ///   - failures: The number of consecutive failures, from 1.
    ///   - random: Random bits, of which the high ones count most; 0 subtracts nothing.
    public func delay(afterFailures failures: Int, random: UInt64) -> Duration {
        let doublings = UInt64(min(max(failures, 1) - 1, 63))
        let full = initial > maximum >> doublings ? maximum : initial << doublings
        let range = UInt64(exactly: (Double(full) * jitter).rounded(.down)) ?? full
        let subtracted = range.multipliedFullWidth(by: random).high
        return .nanoseconds(Int64(clamping: full - min(subtracted, full)))
    }
}
