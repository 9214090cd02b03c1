import CloakroomCore
import GRDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The monotonic clock of the machine: all processes since its start read the same time from it, and nothing sets it.
///
/// Leases end by it. A process goes on with the wall clock as it was when that is set back (``SessionClock``); its
/// successor would begin with another time, and the two would not agree on when a lease ends.
enum MachineClock {
    /// Milliseconds since some moment at the start of the machine (CLOCK_MONOTONIC of clock_gettime(2)).
    static var now: Timestamp {
        var time = timespec()
        guard clock_gettime(CLOCK_MONOTONIC, &time) == 0 else { return Timestamp(milliseconds: 0) }
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}

extension Database.SessionRow {
    /// Whether the lease keeps others off.
    /// - Parameters:
    ///   - duration: How long leases are; the longest there may be, where that is not known.
    ///   - now: The caller's time; only leases of an earlier release end by it.
    ///   - time: The time by which leases end.
    func isLeased(for duration: Duration = .seconds(3_600), now: Timestamp, _ time: Timestamp) -> Bool {
        guard let leaseEnd else { return RefreshLease.isHeld(until: leasedUntil, for: duration, now: now) }
        return RefreshLease.isHeld(until: leaseEnd, for: duration, now: time)
    }
}
