import CloakroomCore

/// A session as it is stored outside the process: the data that is needed without the cookie in the clear, all else
/// sealed.
///
/// Stores interpret only the times, the counters and the account's hash.
struct SessionRecord: Sendable {
    /// SHA-256 of the ticket. Stores index the record by the first eight bytes, ``SessionKey/id``, and keep the
    /// remaining bytes with it.
    var key: SessionKey
    /// A keyed hash of the account, for listing and ending its sessions.
    var account: UInt64
    /// A keyed hash of the name that was typed at sign-in, equal to the account's if that is the account.
    var name: UInt64?
    /// A keyed hash of the session at the provider, for ending its sessions; `nil` if there is none.
    var provider: UInt64?
    var createdAt: SessionTime
    var expiresAt: SessionTime
    /// Written at most once in an eighth of the idle timeout; see ``SessionRecordStore/touch(_:granularity:)``.
    var lastUsedAt: SessionTime
    /// Counts the changes of the sealed data, from 1.
    var version: UInt64
    /// The version of the layout, the id of the gateway secret, and the data that only the ticket opens: tokens and
    /// user.
    var contents: [UInt8]
    /// The client of the sign-in, sealed under the gateway's secret alone: the user's other sessions may read it.
    var client: [UInt8]
    /// When the record was entered into its indexes. The store sets it; for a changed record, `nil` keeps what it has.
    var birth = RecordBirth()
}

extension SessionRecord {
    /// The hashes that index the record: the account's, and the name's if it differs.
    var indexHashes: [UInt64] {
        guard let name, name != account else { return [account] }
        return [account, name]
    }
}

/// The result of reading an id.
enum RecordLookup: Sendable, Equatable {
    case record(SessionRecord)
    /// The session has ended, with the reason. Available for ``SessionRecordStore/tombstoneLifetime``.
    case ended(SessionEndReason)
    case none
    /// The stored value is not a valid record: no proof that the session has ended.
    case unreadable
}

/// Stores records: the part that differs between stores outside the process. ``SealedSessionStore`` implements
/// everything else.
///
/// Each method throws ``SessionStoreError`` of kind `unavailable` if its result is unknown. All are atomic among
/// threads, processes and machines. The caller checks for expiry; stores may delete a record after the `keepUntil` that
/// was passed with it last.
protocol SessionRecordStore: ThrottleStore, MarkStore {
    /// Inserts a new record.
    /// - Parameter limit: The number of sessions that its account, and the typed name, may have.
    func insert(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult
    /// Reads the record with an id. From then on ``RecordChangeDelegate`` reports changes to it.
    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup
    /// Saves a changed record, except ``SessionRecord/lastUsedAt``: the later one is kept.
    /// - Parameters:
    ///   - record: Its version is the replaced version plus 1.
    ///   - keepUntil: The record may be deleted after this, and not before an earlier `keepUntil`.
    ///   - fence: The number of the lease under which the record is saved, which has to be the latest. `nil` saves
    ///     without a lease, and fails if there is one.
    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult
    /// Removes a record, and keeps the reason for ``tombstoneLifetime``.
    ///
    /// A store that may lose records, which another process then inserts again, keeps the reason also if there is no
    /// record and no earlier reason, unless there is a condition. So callers must know that the session existed.
    /// - Parameter condition: The required version and latest fence; `nil` removes the record in any case.
    /// - Returns: The record, if there was one.
    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult
    /// Records uses. A removed record is not restored; an earlier time than the stored one changes nothing. Other
    /// replicas need not be notified.
    /// - Parameter granularity: A use that is less than this after the recorded one is not written: it was recorded by
    ///   another replica, which this one did not know yet. At least 1 ms.
    /// - Returns: Those that were not written; `nil` if all were.
    /// - Throws: If a part of the store has failed, and no use was processed.
    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches?
    /// Acquires the lease on a record; the fence counts the leases, from 1.
    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    /// Releases a lease if it is still the latest.
    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError)
    /// All records of an index, in any order, including expired ones that are not deleted yet. Their
    /// ``SessionRecord/contents`` are not read, and empty.
    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord]
    /// Chooses the oldest records whose account or name has this hash, if there are more than the rule allows, without
    /// reading all of them.
    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus
    /// Whether operations fail although the store is connected: the log's last line about them is a failure.
    var isFailing: Bool { get }
    /// The number of records, as far as it is known.
    var count: Int { get }
    /// The number of partitions: the parts of the store whose connections fail independently, from 1 to
    /// ``SessionTrust/maxPartitions``.
    var partitionCount: Int { get }
    func partition(of id: SessionID) -> Int
    /// The partition with an index and its cutoff.
    func partition(ofIndex index: RecordIndex) -> Int
    /// Reads the cutoffs of indexes. From then on ``RecordChangeDelegate`` reports changes to them.
    ///
    /// A store whose indexes are changed in one transaction with the records needs no cutoffs, and has none.
    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?]
    /// Ends all sessions of an index that the store has entered into it so far.
    /// - Parameters:
    ///   - kept: A session that is not ended, unless the cutoff so far has ended it.
    ///   - before: If not `nil`, those that were created before this are ended instead.
    ///   - lifetime: At least the remaining time of the longest session; the cutoff may be deleted after it.
    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError)
    /// Stays connected, reports changes, and deletes expired records (calling
    /// ``RecordChangeDelegate/expired(idle:absolute:)``), until its task is cancelled.
    func run(_ changes: any RecordChangeDelegate) async
}

extension SessionRecordStore {
    /// How long the reason for the end of a session is kept.
    static var tombstoneLifetime: Duration { .seconds(300) }
    var isFailing: Bool { false }
}

enum RecordInsertResult: Sendable, Equatable {
    /// The record is new.
    /// - Parameter mayExceed: Whether an index of its account or name has more ids than the limit.
    case done(mayExceed: Bool)
    /// There is a record with the same id.
    case taken
}

enum RecordUpdateResult: Sendable, Equatable {
    case done
    /// The record has another version than the one to be replaced.
    case changed
    /// There is a later lease; or, for a write without a lease, any lease.
    case fenced
    case notFound
}

enum RecordRemovalResult: Sendable, Equatable {
    case removed(SessionRecord)
    /// The condition does not hold.
    case changed
    case notFound
}

struct RecordTouch: Sendable, Equatable {
    var id: SessionID
    var lastUsedAt: SessionTime
    /// The record may be deleted after this.
    var keepUntil: SessionTime
    /// ``SessionTimeouts/touchGranularity`` of the session.
    var granularity = Duration.milliseconds(1)
}

/// The uses that were not written.
struct UnwrittenTouches: Sendable {
    /// The sessions whose use could not be written, because a part of the store has failed.
    var ids: Set<SessionID> = []
    /// The latest failure.
    var error: SessionStoreError?
    /// The sessions of which another use is recorded, less than the granularity earlier, or later. Some may have no record.
    var superseded: Set<SessionID> = []

    var isEmpty: Bool { ids.isEmpty && superseded.isEmpty }
}

/// Receives changes of other processes to records that were read here. Called from any thread; never waits.
protocol RecordChangeDelegate: Sendable {
    /// The connection that reports the changes of some partitions was established or lost. While it is lost, no data
    /// that was read from them may be trusted. When it is established again, all earlier data is stale.
    /// - Parameter afterOutage: Whether the partitions were available before, and then not.
    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool, afterOutage: Bool)
    /// The store may lack records of some partitions that this process has written and that it writes again. Called at
    /// least every few seconds until they are written.
    func partitionsLackWrites(_ partitions: [Range<Int>])
    /// Another process changed or ended a record, or a record that was lost was written again.
    func recordChanged(_ id: SessionID)
    /// Another process has set the cutoff of an index.
    func cutoffChanged(_ index: RecordIndex)
    /// Any number of records changed; their ids are unknown.
    func allRecordsChanged()
    /// Expired records were deleted; reported for counting.
    func expired(idle: Int, absolute: Int)
}

extension RefreshLease {
    /// Whether a lease that was taken until `end` still excludes others, by the caller's clock.
    ///
    /// A lease that ends much later than one taken now was taken before the clock jumped back. The margin is 600 s:
    /// `now` may be from before a wait for the store, and another process may take longer leases.
    static func isHeld<Clock>(until end: Timestamp<Clock>, for duration: Duration, now: Timestamp<Clock>) -> Bool {
        now < end && end - now <= duration + .seconds(600)
    }
}
