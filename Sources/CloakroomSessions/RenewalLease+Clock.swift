import CloakroomCore

extension RefreshLease {
    /// Whether a lease that somebody took until `end` still keeps others off, where the caller's clock is the judge.
    ///
    /// One that ends later than any that is begun now, by far, was taken before the clock jumped back. By far: `now` may be
    /// from before a wait for the store, and another process may take longer leases.
    static func isHeld(until end: Timestamp, for duration: Duration, now: Timestamp) -> Bool {
        now < end && end - now <= duration + .seconds(600)
    }
}
