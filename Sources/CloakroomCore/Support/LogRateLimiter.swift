import Synchronization

/// Limits events to a number per fixed window.
public struct FixedWindowLimiter: Sendable {
    private let limit: Int
    /// Window length in nanoseconds.
    private let window: UInt64
    private var start: UInt64?
    private var count = 0

    /// - Parameters:
    ///   - limit: Number of events allowed per window.
    ///   - window: Length of the window.
    public init(limit: Int, window: Duration = .seconds(10)) {
        self.limit = limit
        self.window = window.wholeNanoseconds
    }

    /// Whether ``tryAcquire(at:)`` would allow an event, without counting one.
    public func allows(at now: UInt64) -> Bool {
        guard let start, Int64(bitPattern: now &- start).magnitude < window else { return true }
        return count < limit
    }

    /// Counts an event.
    /// - Parameter now: Nanoseconds of one clock, preferably a monotonic one. A clock that is set back by a window or
    ///   more begins a new window.
    /// - Returns: The number of events over the limit since the last event within it; `nil` if this one is over the
    ///   limit too.
    public mutating func tryAcquire(at now: UInt64) -> Int? {
        if let start, Int64(bitPattern: now &- start).magnitude < window {
            count += 1
            return count <= limit ? 0 : nil
        }
        defer { count = 1 }
        start = now
        return max(0, count - limit)
    }
}

/// Limits log lines about a repeated event to a number per interval, so that clients and failing servers cannot fill
/// the disk.
public final class LogRateLimiter: Sendable {
    private let lines: Mutex<FixedWindowLimiter>

    /// Allows the first line.
    /// - Parameters:
    ///   - limit: The number of lines per interval.
    ///   - interval: With the limit 1, the minimum time between two lines.
    public init(limit: Int = 1, interval: Duration = .seconds(10)) {
        lines = Mutex(FixedWindowLimiter(limit: limit, window: interval))
    }

    /// Checks whether a line may be written now.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: The number of lines suppressed since the last one; `nil` if this line is suppressed too.
    public func allow(at now: UInt64) -> Int? {
        lines.withLock { $0.tryAcquire(at: now) }
    }

    /// Checks whether a line may be written now, by a clock that may be set.
    public func allow(at now: Timestamp<some Any>) -> Int? {
        allow(at: UInt64(bitPattern: now.milliseconds) &* 1_000_000)
    }
}
