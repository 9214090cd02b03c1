import CloakroomCore

extension RefreshLease {
    /// Whether a lease that was taken until `end` still excludes others, by the caller's clock.
    ///
    /// A lease that ends much later than one taken now was taken before the clock jumped back. The margin is 600 s:
    /// `now` may be from before a wait for the store, and another process may take longer leases.
    static func isHeld(until end: Timestamp, for duration: Duration, now: Timestamp) -> Bool {
        now < end && end - now <= duration + .seconds(600)
    }
}
