/// A bug that the simulation has to find. Mutants are not in the code under test. They are in the model of the store,
/// in the execution of actions, and in changed decisions of a refresh.
public enum InjectedBug: String, Sendable, CaseIterable {
    /// The store saves under a lease that is not the latest.
    case noFencing
    /// The cached session is used instead of a read under the lease.
    case noReadUnderLease
    /// The store saves over any version.
    case noCompareAndSet
    /// The store grants a lease although another process holds it.
    case noLease
    /// Leases never expire.
    case endlessLease
    /// A transient failure is treated as a definite rejection.
    case rejectsOnFailure
    /// Refreshes in progress at a replica are looked up without the session's name.
    case refreshesWithoutSessionKey = "flightsWithoutName"
    /// Notices about ended sessions are ignored.
    case ignoresInvalidations = "deafToNotices"
    /// While the store is unavailable, reads return that the session does not exist.
    case outageMeansGone
    /// A refresh uses a clock that may go back.
    case refreshesByWallClock = "flightsByWallClock"
    /// A refresh discards its new tokens if the first save gets no reply.
    case stopsSavingEarly = "givesUpSaving"
    /// A refresh of a session that has ended does not return its unused new tokens.
    case forgetsUnusedTokens
}
