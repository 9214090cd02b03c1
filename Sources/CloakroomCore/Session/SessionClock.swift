import Synchronization

/// The time by which sessions live and end: the wall clock's, except that it never goes back while the process lives.
///
/// A wall clock that is set back would give every session the time by which it was. It asks no clock itself: whoever does
/// tells how far the wall clock is ahead of the monotonic one, and is told by how much to take it for ahead. One for a
/// process, so that all event loops and stores agree.
public final class SessionClock: Sendable {
    private let highest = Atomic<Int64>(.min)

    /// Makes a clock that knows of no reading yet.
    public init() {}

    /// Takes a reading.
    /// - Parameter offset: The wall clock's time less the monotonic clock's, in nanoseconds.
    /// - Returns: The largest of all readings so far, to be added to the monotonic clock's time.
    public func steadied(_ offset: Int64) -> Int64 {
        highest.max(offset, ordering: .relaxed).newValue
    }
}
