import Synchronization

/// The clock for session times: the wall clock, except that it never moves backwards during the lifetime of the
/// process.
///
/// A wall clock that is set back would extend every session by the same amount. This type reads no clock: the caller
/// passes the offset between wall clock and monotonic clock, and receives the offset to use. A process has one
/// instance, so that all event loops and stores agree.
///
/// If replicas on several machines share their sessions, the plain wall clock is used: a process whose clock had once
/// been ahead would otherwise keep expiring the sessions of all others. The clocks of those machines have to be
/// synchronized; setting one back extends sessions by the same amount.
public final class SessionClock: Sendable {
    private let highest = Atomic<Int64>(.min)
    private let isMonotonic: Bool

    /// Creates a clock without a reading.
    /// - Parameter isSteady: Whether the clock never moves backwards.
    public init(isMonotonic: Bool = true) {
        self.isMonotonic = isMonotonic
    }

    /// Adds a reading.
    /// - Parameter offset: The wall clock's time minus the monotonic clock's, in nanoseconds.
    /// - Returns: The largest of all readings so far, to be added to the monotonic clock's time.
    public func monotonicOffset(_ offset: Int64) -> Int64 {
        guard isMonotonic else { return offset }
        return highest.max(offset, ordering: .relaxed).newValue
    }
}
