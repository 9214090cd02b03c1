import CloakroomCore
import GRDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The monotonic clock of the machine. All processes read the same time from it, and it cannot be set.
///
/// Leases end by this clock. If the wall clock is set back, a running process continues with its earlier time
/// (``SessionClock``), but a newly started process uses the new time. The two would not agree on when a lease ends.
enum MachineClock {
    /// Milliseconds since an unspecified moment at system start (CLOCK_MONOTONIC of clock_gettime(2)).
    static var now: Timestamp {
        var time = timespec()
        guard clock_gettime(CLOCK_MONOTONIC, &time) == 0 else { return Timestamp(milliseconds: 0) }
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}

extension Database.SessionRow {
    /// Whether the lease excludes others.
    /// - Parameters:
    ///   - duration: The duration of leases; the maximum if it is unknown.
    ///   - now: The caller's time; only leases of an earlier release end by it.
    ///   - time: The time by which leases end.
    func isLeased(for duration: Duration = .seconds(3_600), now: Timestamp, _ time: Timestamp) -> Bool {
        guard let leaseEnd else { return RefreshLease.isHeld(until: leasedUntil, for: duration, now: now) }
        return RefreshLease.isHeld(until: leaseEnd, for: duration, now: time)
    }
}
