/// A bug that the simulation has to find. None of them is in the code that is simulated: they are in the model of the
/// store, in what carries a flight's actions out, and in what is made of a flight's decisions.
public enum InjectedBug: String, Sendable, CaseIterable {
    /// The store saves under a lease that is not the latest.
    case noFencing
    /// The session that is at hand is taken for what would be read under the lease.
    case noReadUnderLease
    /// The store saves over any version.
    case noCompareAndSet
    /// The store gives a lease to whoever asks.
    case noLease
    /// Leases never end by themselves.
    case endlessLease
    /// A failure that would pass is taken for a definite rejection.
    case rejectsOnFailure
    /// What is under way at a replica is looked up without the session's name.
    case refreshesWithoutSessionKey = "flightsWithoutName"
    /// What is told of sessions that have ended is not heard.
    case ignoresInvalidations = "deafToNotices"
    /// A session is read as gone while the store is not there.
    case outageMeansGone
    /// A flight goes by a clock that may go back.
    case refreshesByWallClock = "flightsByWallClock"
    /// A flight gives its new tokens up when the store does not answer the first time.
    case stopsSavingEarly = "givesUpSaving"
    /// A flight does not tell of new tokens that a session which has ended needs no more.
    case forgetsUnusedTokens
}
