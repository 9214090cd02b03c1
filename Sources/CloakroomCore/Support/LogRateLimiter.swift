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

    /// Counts events that are over the limit without ``tryAcquire(at:)``.
    fileprivate mutating func add(suppressed events: Int) { count += events }

    /// The time before which ``tryAcquire(at:)`` suppresses all events; `nil` if it would allow one.
    fileprivate var fullUntil: UInt64? { count < limit ? nil : start.map { $0 &+ window } }
}

/// Limits log lines about a repeated event to a number per interval, so that clients and failing servers cannot fill
/// the disk.
///
/// While an interval has no lines left, an event costs no lock: clients cause them on all event loops at once.
public final class LogRateLimiter: Sendable {
    private let lines: Mutex<FixedWindowLimiter>
    /// The interval of ``lines`` in nanoseconds.
    private let interval: UInt64
    /// The end of an interval that has no lines left; 0 for none.
    private let fullUntil = Atomic<UInt64>(0)
    /// The suppressed lines that ``lines`` has not counted.
    private let uncounted = Atomic<Int>(0)

    /// Allows the first line.
    /// - Parameters:
    ///   - limit: The number of lines per interval.
    ///   - interval: With the limit 1, the minimum time between two lines.
    public init(limit: Int = 1, interval: Duration = .seconds(10)) {
        lines = Mutex(FixedWindowLimiter(limit: limit, window: interval))
        self.interval = interval.wholeNanoseconds
    }

    /// Checks whether a line may be written now.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: The number of lines suppressed since the last one; `nil` if this line is suppressed too.
    public func allow(at now: UInt64) -> Int? {
        let end = fullUntil.load(ordering: .relaxed)
        // A clock that was set back by an interval or more is before the interval, and begins a new one.
        if end > 0, end &- now &- 1 < interval {
            uncounted.add(1, ordering: .relaxed)
            return nil
        }
        return lines.withLock { lines in
            lines.add(suppressed: uncounted.exchange(0, ordering: .relaxed))
            let suppressed = lines.tryAcquire(at: now)
            fullUntil.store(lines.fullUntil ?? 0, ordering: .relaxed)
            return suppressed
        }
    }

    /// Checks whether a line may be written now, by a clock that may be set.
    public func allow(at now: Timestamp<some Any>) -> Int? {
        allow(at: UInt64(bitPattern: now.milliseconds) &* 1_000_000)
    }
}
