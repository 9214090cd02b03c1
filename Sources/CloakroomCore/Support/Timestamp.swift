/// A point in time of one clock, in milliseconds. The types of different clocks cannot be compared or subtracted, so that
/// the compiler rejects a mix-up. The clock has no representation at run time.
///
/// Decisions take the time as an argument; nothing in this module reads a clock.
@frozen
public struct Timestamp<Clock>: Sendable, Hashable, Comparable {
    /// Milliseconds since the epoch of the clock.
    public var milliseconds: Int64

    /// Creates a timestamp from milliseconds since the epoch.
    @inlinable
    public init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// Creates a timestamp from seconds since the epoch. Saturates instead of overflowing.
    @inlinable
    public init(seconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        self.milliseconds = overflow ? (seconds < 0 ? .min : .max) : product
    }

    /// Whether both are the same time.
    @inlinable
    public static func == (left: Self, right: Self) -> Bool {
        left.milliseconds == right.milliseconds
    }

    /// Orders earlier times before later ones.
    @inlinable
    public static func < (left: Self, right: Self) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// Adds a duration. Saturates instead of overflowing.
    @inlinable
    public static func + (time: Self, duration: Duration) -> Self {
        let (sum, overflow) = time.milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return Self(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    /// Subtracts a duration. Saturates instead of overflowing.
    @inlinable
    public static func - (time: Self, duration: Duration) -> Self {
        let (difference, overflow) = time.milliseconds.subtractingReportingOverflow(duration.wholeMilliseconds)
        return Self(milliseconds: overflow ? (duration < .zero ? .max : .min) : difference)
    }

    /// Returns the duration between two timestamps. Saturates instead of overflowing.
    @inlinable
    public static func - (later: Self, earlier: Self) -> Duration {
        let (difference, overflow) = later.milliseconds.subtractingReportingOverflow(earlier.milliseconds)
        return .milliseconds(overflow ? (later < earlier ? .min : .max) : difference)
    }
}

/// A time of the system's wall clock, since 1970-01-01T00:00:00Z, for what other systems state or people read: tokens,
/// certificates, logs. The clock may be set back.
public typealias WallTime = Timestamp<SystemClock>
/// A time of ``SessionClock``, since 1970-01-01T00:00:00Z: sessions, the sign-in throttle, and when stored data expires.
public typealias SessionTime = Timestamp<SessionClock>
/// A time of a clock that never goes back, since an unspecified moment: leases.
public typealias MonotonicTime = Timestamp<MonotonicClock>

/// The wall clock of the system.
public enum SystemClock {}

/// A clock that never goes back, of the machine or of a part of the process.
public enum MonotonicClock {}

extension WallTime {
    /// The session time with the same date. If the wall clock was set back, the session clock shows it earlier.
    public var sessionTime: SessionTime { SessionTime(milliseconds: milliseconds) }
}

extension SessionTime {
    /// The wall clock time with the same date. If the wall clock was set back, the wall clock shows it later.
    public var wallTime: WallTime { WallTime(milliseconds: milliseconds) }
}

extension Duration {
    /// The duration in whole milliseconds, rounded towards zero, saturating at the limits of `Int64`.
    public var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, sumOverflow) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return sumOverflow ? (seconds < 0 ? .min : .max) : sum
    }

    /// The duration in whole nanoseconds, never negative, saturating at the limit of `UInt64`.
    public var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return .max }
        let (sum, sumOverflow) = product.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000))
        return sumOverflow ? .max : sum
    }
}

extension Int64 {
    /// A reading of the wall clock in nanoseconds since the epoch, at most that of the year 2255, 7 years before the greatest
    /// value: times that are derived from it do not overflow while the process runs.
    package init(wallSeconds seconds: Int, nanoseconds: Int) {
        let clamped = Swift.min(Swift.max(seconds, -9_000_000_000), 9_000_000_000)
        self = Int64(clamped) * 1_000_000_000 + Int64(nanoseconds)
    }
}

extension UInt64 {
    /// The sum, at most the greatest value. For times: `.max` means never.
    @inlinable
    package func addingClamped(_ other: UInt64) -> UInt64 {
        let (sum, isOverflow) = addingReportingOverflow(other)
        return isOverflow ? .max : sum
    }
}
