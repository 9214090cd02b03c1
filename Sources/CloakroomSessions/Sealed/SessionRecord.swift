import CloakroomCore

/// A session as it is kept outside the process: what must be acted on without its cookie in the open, all else sealed.
///
/// Stores keep it and understand nothing of it but the times, the counters and the account's hash.
struct SessionRecord: Sendable, Equatable {
    /// SHA-256 of the ticket. Stores name the record by the first eight bytes, ``SessionKey/id``, and keep the rest with it.
    var key: SessionKey
    /// A keyed hash of the account, for listing its sessions and ending them.
    var account: UInt64
    /// A keyed hash of the name that was typed at sign-in, the account's again where that is the account; `nil` in
    /// records of format 1.
    var name: UInt64?
    var createdAt: Timestamp
    var expiresAt: Timestamp
    /// Written at most once a minute; see ``SessionRecordStore/touch(_:)``.
    var lastUsedAt: Timestamp
    /// Counts the changes of what is sealed, from 1.
    var version: UInt64
    /// The version of the layout, which gateway secret it is sealed under, and everything that only the ticket opens:
    /// tokens and user.
    var contents: [UInt8]
    /// Where it was signed in from, sealed under the gateway's secret alone: its user's other sessions may see it.
    var client: [UInt8]
}

extension SessionRecord {
    /// The hashes that the record is found by: the account's, and the name's where that is another.
    var indexHashes: [UInt64] {
        guard let name, name != account else { return [account] }
        return [account, name]
    }
}

/// What a store knows of a name.
enum RecordLookup: Sendable, Equatable {
    case record(SessionRecord)
    /// There was one, and why it ended. Told for ``SessionRecordStore/tombstoneLifetime``.
    case ended(SessionEndReason)
    case none
    /// There is something that is no record of ours.
    case unreadable
}

/// Keeps records: the part that differs between stores which leave the process. Everything else is
/// ``SealedSessionStore``'s.
///
/// Each method throws ``SessionStoreError`` of kind `unavailable` if it is not known whether it was done. All are atomic,
/// among threads, processes and machines. Expiry is the caller's to judge; stores may forget a record once the time
/// `keepUntil` is over that came with it last.
protocol SessionRecordStore: ThrottleStore {
    /// Keeps a new record.
    /// - Returns: `false` if there is one of the same name already.
    func insert(_ record: SessionRecord, keepUntil: Timestamp, now: Timestamp) async throws(SessionStoreError) -> Bool
    /// Reads what is kept under a name. From then on ``RecordChangeDelegate`` tells of changes to it.
    func read(_ id: SessionID, now: Timestamp) async throws(SessionStoreError) -> RecordLookup
    /// Keeps a changed record, ``SessionRecord/lastUsedAt`` excepted: the later one stays.
    /// - Parameters:
    ///   - record: Its version is the next one: the version that it replaces plus 1.
    ///   - fence: The number of the lease under which it is saved, which has to be the latest; `nil` saves without one,
    ///     and then nobody may hold a lease.
    func replace(_ record: SessionRecord, fence: UInt64?, now: Timestamp) async throws(SessionStoreError)
        -> RecordUpdateResult
    /// Takes a record out, and remembers the reason for a while.
    /// - Parameter condition: The version and the latest fence that it has to have; `nil` takes it out in any case.
    /// - Returns: The record, if there was one.
    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: Timestamp
    ) async throws(SessionStoreError) -> RecordRemovalResult
    /// Notes uses. A record that is gone stays gone; an earlier time than the one that is there changes nothing. Other
    /// replicas need not be told.
    func touch(_ touches: [RecordTouch]) async throws(SessionStoreError)
    /// Takes the lease on a record; the fence counts them, from 1.
    func lease(_ id: SessionID, for duration: Duration, now: Timestamp) async throws(SessionStoreError) -> LeaseResult
    /// Gives a lease back if it is still the latest.
    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError)
    /// All records whose account or name has this hash, in any order, expired ones that were not forgotten yet included.
    func records(of account: UInt64, now: Timestamp) async throws(SessionStoreError) -> [SessionRecord]
    /// How many records there are, as far as is known.
    var count: Int { get }
    /// Stays connected, tells of changes, clears away what has expired (calling
    /// ``RecordChangeDelegate/expired(_:)``); until its task is cancelled.
    /// - Parameter idleTimeout: A record expires that long after its last use, if that is before its end.
    func run(_ changes: any RecordChangeDelegate, idleTimeout: Duration) async
}

extension SessionRecordStore {
    /// How long the reason is kept for which a session ended.
    static var tombstoneLifetime: Duration { .seconds(300) }
}

/// What came of changing a record.
enum RecordUpdateResult: Sendable, Equatable {
    case done
    /// It has another version than the one that is to be replaced.
    case changed
    /// There is a later lease; or, for who has none, any lease at all.
    case fenced
    case notFound
}

/// What came of taking a record out.
enum RecordRemovalResult: Sendable, Equatable {
    case removed(SessionRecord)
    /// The condition does not hold.
    case changed
    case notFound
}

/// A use of a session.
struct RecordTouch: Sendable, Equatable {
    var id: SessionID
    var lastUsedAt: Timestamp
    /// The record may be forgotten after this.
    var keepUntil: Timestamp
}

/// Is told what others do to records that were read here. Called from any thread; never waits.
protocol RecordChangeDelegate: Sendable {
    /// The link over which changes are told stands, or does not. While it does not, nothing that was read earlier may be
    /// trusted; when it stands again, all of it is stale.
    func connectionChanged(isUp: Bool)
    /// A record was changed or ended by somebody else.
    func recordChanged(_ id: SessionID)
    /// Which ones is not known.
    func allRecordsChanged()
    /// Records were cleared away because they had expired; told for counting.
    func expired(idle: Int, absolute: Int)
}
