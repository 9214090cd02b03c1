import Synchronization

/// Limits events to a number per fixed window of 10 s.
public struct FixedWindowLimiter: Sendable {
    /// Window length in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    private let limit: Int
    private var start: UInt64?
    private var count = 0

    /// - Parameter limit: Number of events allowed per window.
    public init(limit: Int) {
        self.limit = limit
    }

    /// Counts an event.
    /// - Parameter now: Nanoseconds of one clock, preferably a monotonic one. A clock that is set back by a window or
    ///   more begins a new window.
    /// - Returns: The number of events over the limit since the last event within it; `nil` if this one is over the
    ///   limit too.
    public mutating func tryAcquire(at now: UInt64) -> Int? {
        if let start, Int64(bitPattern: now &- start).magnitude < Self.window {
            count += 1
            return count <= limit ? 0 : nil
        }
        defer { count = 1 }
        start = now
        return max(0, count - limit)
    }
}

/// Limits log lines about a repeated event to one per 10 s, so that clients and failing servers cannot fill the disk.
public final class LogRateLimiter: Sendable {
    private let lines = Mutex(FixedWindowLimiter(limit: 1))

    /// Allows the first line.
    public init() {}

    /// Checks whether a line may be written now.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: The number of lines suppressed since the last one; `nil` if this line is suppressed too.
    public func allow(at now: UInt64) -> Int? {
        lines.withLock { $0.tryAcquire(at: now) }
    }

    /// Checks whether a line may be written now, by the wall clock.
    public func allow(at now: Timestamp) -> Int? {
        allow(at: UInt64(bitPattern: now.milliseconds) &* 1_000_000)
    }
}
