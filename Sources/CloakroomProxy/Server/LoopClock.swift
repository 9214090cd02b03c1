import CloakroomCore
import CloakroomTelemetry
import NIOCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The source of the times that event loops compare with deadlines, in nanoseconds of `NIODeadline`.
package enum LoopTime: Sendable {
    case system
    /// Advances only in steps, for tests.
    case stepped(SteppedTime)

    func now() -> UInt64 {
        switch self {
        case .system: NIODeadline.now().uptimeNanoseconds
        case .stepped(let time): time.now
        }
    }
}

/// A time that starts at the current one and advances only in steps, for tests.
package final class SteppedTime: Sendable {
    private let nanoseconds = Atomic<UInt64>(NIODeadline.now().uptimeNanoseconds)

    package init() {}

    package var now: UInt64 { nanoseconds.load(ordering: .acquiring) }

    package func advance(by step: Duration) {
        nanoseconds.wrappingAdd(step.wholeNanoseconds, ordering: .acquiringAndReleasing)
    }
}

/// Derives wall-clock time from the monotonic clock, so that a request reads one clock only.
struct LoopClock {
    private let sessionClock: SessionClock
    private var offset: Int64 = 0
    private var sessionOffset: Int64 = 0
    /// The rendered dates of an even and of an odd second. Callers may ask for two seconds in turn: with one, each would
    /// replace the other's.
    private var even = RenderedDate()
    private var odd = RenderedDate()

    private struct RenderedDate {
        var second = Int64.min
        var text: [UInt8] = []
    }

    init(_ sessionClock: SessionClock = SessionClock()) {
        self.sessionClock = sessionClock
        synchronize(at: NIODeadline.now().uptimeNanoseconds)
    }

    /// Updates the offset from the wall clock.
    /// - Parameter now: The current time of the system's monotonic clock.
    mutating func synchronize(at now: UInt64) {
        var time = timespec()
        guard clock_gettime(CLOCK_REALTIME, &time) == 0 else { return }
        let wall = Int64(wallSeconds: time.tv_sec, nanoseconds: time.tv_nsec)
        offset = wall &- Int64(truncatingIfNeeded: now)
        sessionOffset = sessionClock.monotonicOffset(offset)
    }

    /// Monotonic session time, in nanoseconds since the epoch.
    func sessionNanoseconds(at now: UInt64) -> Int64 {
        sessionOffset &+ Int64(truncatingIfNeeded: now)
    }

    func wallNanoseconds(at now: UInt64) -> Int64 {
        offset &+ Int64(truncatingIfNeeded: now)
    }

    /// Wall-clock time, for comparison with times from other systems, such as token expiry.
    func wallTime(at now: UInt64) -> WallTime {
        WallTime(milliseconds: wallNanoseconds(at: now) / 1_000_000)
    }

    /// `Date` value of the current second.
    mutating func date(at now: UInt64) -> [UInt8] {
        let second = wallNanoseconds(at: now) / 1_000_000_000
        if second == even.second { return even.text }
        if second == odd.second { return odd.text }
        let date = RenderedDate(second: second, text: HTTPDate.render(secondsSinceEpoch: second))
        if second & 1 == 0 { even = date } else { odd = date }
        return date.text
    }
}
