/// A bug that the simulation has to find. Mutants are not in the code under test: they are in the models of the servers,
/// and in ``World``, which then does not carry out a decision, withholds an event, or carries out something else.
enum InjectedBug: String, Sendable, CaseIterable {
    /// A write counts as durable before a replica has confirmed it.
    case noWait
    /// After a server was replaced, nothing is written again.
    case noReassertion
    /// A partition is trusted before the journal was written again.
    case reassertAfterTrust
    /// The journal is written again at a promoted replica only, not at a server that restarts.
    case reassertsOnlyAtPromoted
    /// Writing a record again overwrites a later version.
    case reassertOverwritesNewer
    /// Writing a record again overwrites the note that its session has ended.
    case reinsertWinsOverEnd
    /// The journal keeps records for longer than servers keep the notes of ended sessions.
    case journalOutlivesTombstones
    /// New records are not in the journal.
    case insertNotJournaled
    /// New tokens are in the journal only if the result of saving them is known.
    case unknownSaveNotJournaled
    /// Leases that are held are not in the journal.
    case leaseNotJournaled
    /// Replies of a server that may lack writes are not completed with the journal.
    case repliesNotCompleted
    /// Cached entries are used although their partition's link was lost in between.
    case trustsLostPartition
    /// A partition is trusted although no majority has confirmed its server recently.
    case trustsInDoubt
    /// Sessions are read from replicas.
    case readsReplica
    /// Cutoffs are not compared with the time at which a session was born.
    case cutoffIgnored
    /// Cutoffs and births are by the clocks of gateways.
    case cutoffByGatewayClock
    /// A cutoff keeps a session that an earlier one has ended.
    case cutoffKeepsEnded
    /// A command whose result is unknown is sent again.
    case retriesUnknownResult
    /// A redirected command is sent without `ASKING`.
    case asksWithoutAsking
    /// Marks are not in the journal.
    case markNotJournaled
    /// A mark counts as set if the result of setting it is unknown.
    case unknownMarkCounts
    /// An attempt is counted although the throttle delays it.
    case throttleIgnoresDelay
    /// An attempt is admitted if the throttle cannot be read or written.
    case throttleFailsOpen
    /// Refreshes begin immediately after a failover.
    case graceForgotten
    /// A record that is missing in the grace period means that the session has ended.
    case missingMeansEnded
}
