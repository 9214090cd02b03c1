import Synchronization

/// The time by which sessions live and end: the wall clock's, except that it never goes back while the process lives.
///
/// A wall clock that is set back would give every session the time by which it was. It asks no clock itself: whoever does
/// tells how far the wall clock is ahead of the monotonic one, and is told by how much to take it for ahead. One for a
/// process, so that all event loops and stores agree.
///
/// Where replicas on several machines share their sessions it is the wall clock's and nothing else: a process that had
/// once been ahead would go on ending the sessions of all others. Those machines have to keep their clocks together, and
/// a clock that is set back there lengthens sessions by as much.
public final class SessionClock: Sendable {
    private let highest = Atomic<Int64>(.min)
    private let isMonotonic: Bool

    /// Makes a clock that knows of no reading yet.
    /// - Parameter isSteady: Whether it never goes back.
    public init(isMonotonic: Bool = true) {
        self.isMonotonic = isMonotonic
    }

    /// Takes a reading.
    /// - Parameter offset: The wall clock's time less the monotonic clock's, in nanoseconds.
    /// - Returns: The largest of all readings so far, to be added to the monotonic clock's time.
    public func monotonicOffset(_ offset: Int64) -> Int64 {
        guard isMonotonic else { return offset }
        return highest.max(offset, ordering: .relaxed).newValue
    }
}
