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
    /// A refresh drops what the provider stated when the user signed in.
    case forgetsProvenance
    /// A callback continues although its login has been used.
    case repeatsLogins
    /// A callback checks whether the provider has ended its session before it creates one, and not afterwards.
    case checksLogoutBeforeCreating
    /// A logout leaves no mark for callbacks that it overtakes.
    case noLogoutMark
    /// A logout is marked after sessions were ended, and not before.
    case marksLogoutAfterEnding
    /// A logout token is marked as processed before sessions were ended.
    case marksTokenBeforeEnding
    /// Each replica has marks of its own.
    case separateMarks
    /// A logout is acknowledged although the store is unavailable.
    case acknowledgesWithoutStore
}
