/// A bug that the simulation has to find. None of them is in the code that is simulated: they are in the model of the
/// store, and in what carries a flight's actions out.
public enum Mutant: String, Sendable, CaseIterable {
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
    case flightsWithoutName
    /// What is told of sessions that have ended is not heard.
    case deafToNotices
    /// A session is read as gone while the store is not there.
    case outageMeansGone
}
