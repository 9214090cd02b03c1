import CloakroomCore
import NIOCore
import Synchronization

/// The recent writes of this process, to repeat those that a failover has lost: ``WriteReassertion``.
///
/// Bounded in number, size and age. Of each session, cutoff and mark only the newest write is kept, and the end of a
/// session is its last write: it replaces its record, and no record replaces it. Records, which are large, have limits of
/// their own, so that sign-ins do not displace the ends of sessions.
final class WriteJournal: Sendable {
    /// How long a write is kept: longer than it takes, with usual settings, until a server is given up and its replica is
    /// promoted.
    ///
    /// It is well below ``SessionRecordStore/tombstoneLifetime``, for which the server keeps the reason for the end of a
    /// session: as long as a lost record may be inserted again, the server knows of an end by another gateway.
    static let lifetime: Duration = .seconds(120)

    /// The maximum number of records, and of other writes.
    static let maximumCount = 100_000
    /// The maximum size of the records in bytes, and of the other writes.
    static let maximumSize = 16 << 20

    private static let limits = JournalTable<JournalKey, JournaledWrite>.Limits(
        count: maximumCount, size: maximumSize, lifetime: lifetime)

    private struct State: Sendable {
        /// Ends of sessions, cutoffs and marks.
        var ends: JournalTable<JournalKey, JournaledWrite>
        var records: JournalTable<JournalKey, JournaledWrite>
        var leases: JournalTable<JournalKey, JournaledWrite>
        /// How often the writes of each slot were repeated; empty before the first time.
        var repetitions: [UInt32] = []
    }

    private let keys: ValkeyKeys
    private let state: Mutex<State>

    /// - Parameter keys: Determines the hash slots of the writes.
    init(
        keys: ValkeyKeys, ends: JournalTable<JournalKey, JournaledWrite>.Limits = WriteJournal.limits,
        records: JournalTable<JournalKey, JournaledWrite>.Limits = WriteJournal.limits
    ) {
        self.keys = keys
        state = Mutex(State(ends: JournalTable(ends), records: JournalTable(records), leases: JournalTable(ends)))
    }

    /// A write and its age.
    struct Entry: Sendable {
        let write: JournaledWrite
        let age: Duration
    }

    /// The writes of hash slots, each once, in the order in which they are repeated: first what ends sessions, then
    /// records, then leases, which need the record; of each the newest first.
    ///
    /// The cost is linear in these writes, apart from sorting them: slots that are moved one after the other cost no more
    /// than all at once.
    func entries(
        in slots: [Range<Int>] = [HashSlot.all], now: ContinuousClock.Instant = .now
    ) -> [Entry] {
        var (ends, records, leases): ([Found], [Found], [Found]) = ([], [], [])
        for slot in slots.joined() {
            // One slot at a time, so that no write waits for long.
            state.withLock { state in
                ends += state.ends.entries(in: slot, now: now)
                records += state.records.entries(in: slot, now: now)
                leases += state.leases.entries(in: slot, now: now)
            }
        }
        return [ends, records, leases].flatMap(Self.newestFirst).map { found in
            Entry(write: found.value, age: now - found.writtenAt)
        }
    }

    private typealias Found = JournalTable<JournalKey, JournaledWrite>.Entry

    /// Sorts entries. One that is in several slots may be there several times, and is kept once.
    private static func newestFirst(_ found: [Found]) -> [Found] {
        var kept: [Found] = []
        kept.reserveCapacity(found.count)
        for entry in found.sorted(by: { $0.number > $1.number }) where entry.number != kept.last?.number {
            kept.append(entry)
        }
        return kept
    }

    private func slot(of id: SessionID) -> UInt16 { HashSlot.slot(of: keys.session(id)) }

    /// The writes of slots are about to be read with ``entries(in:now:)``, and repeated.
    func willRepeat(_ slots: [Range<Int>]) {
        state.withLock { state in
            if state.repetitions.isEmpty { state.repetitions = Array(repeating: 0, count: HashSlot.count) }
            for slot in slots.joined() { state.repetitions[slot] &+= 1 }
        }
    }

    /// How often the writes of a slot were repeated. A write that was sent before a repetition and is kept only after it
    /// may be lost: the server that executed it was replaced, and the new one did not get it.
    func repetitions(of slot: Int) -> UInt32 {
        state.withLock { $0.repetitions.isEmpty ? 0 : $0.repetitions[slot] }
    }

    /// A session has ended.
    func ended(_ id: SessionID, reason: SessionEndReason, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        state.withLock { state in
            state.records.remove(.session(id))
            state.leases.remove(.lease(id))
            state.ends.set(.session(id), .end(id, reason), slot: slot, size: 64, now: now)
        }
    }

    /// A session has ended whose record the server does not have. Clients can name any number of such sessions, so the
    /// end is kept only if this process would otherwise write the record again.
    func endedWithoutRecord(_ id: SessionID, reason: SessionEndReason, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        state.withLock { state in
            guard state.records[.session(id)] != nil || state.leases[.lease(id)] != nil else { return }
            state.records.remove(.session(id))
            state.leases.remove(.lease(id))
            state.ends.set(.session(id), .end(id, reason), slot: slot, size: 64, now: now)
        }
    }

    /// A record that is about to be saved, and what was kept before.
    struct PendingSave: Sendable {
        fileprivate let id: SessionID
        fileprivate let number: UInt64
        fileprivate let previous: JournalTable<JournalKey, JournaledWrite>.Entry?
    }

    /// A record was inserted or replaced, or is about to be replaced.
    ///
    /// A save is kept before it is sent: if its result is unknown, the server may have it, and a failover may lose it
    /// then, with tokens that cannot be obtained again.
    /// - Returns: For ``rejected(_:)``; `nil` if there is the same or a newer version, or the session has ended.
    @discardableResult
    func saved(_ record: JournaledRecord, now: ContinuousClock.Instant = .now) -> PendingSave? {
        let slot = slot(of: record.id)
        return state.withLock { state in
            guard state.ends[.session(record.id)] == nil else { return nil }
            let previous = state.records.entry(.session(record.id))
            var record = record
            if case .record(let older)? = previous?.value {
                guard older.version < record.version else { return nil }
                record.keepFields(of: older)
            }
            let number = state.records.set(
                .session(record.id), .record(record), slot: slot, otherSlots: record.indexes.map(HashSlot.slot(of:)),
                size: record.size, now: now)
            return PendingSave(id: record.id, number: number, previous: previous)
        }
    }

    /// The server has rejected a save: what was kept before is kept again.
    func rejected(_ save: PendingSave) {
        state.withLock { state in
            guard state.records.entry(.session(save.id))?.number == save.number else { return }
            state.records.remove(.session(save.id))
            guard let previous = save.previous else { return }
            state.records.set(
                .session(save.id), previous.value, slot: previous.slot, otherSlots: previous.otherSlots,
                size: previous.size, now: previous.writtenAt)
        }
    }

    /// The lease on a session was acquired.
    func leased(_ id: SessionID, fence: UInt64, for duration: Duration, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        state.withLock { state in
            guard state.ends[.session(id)] == nil else { return }
            state.leases.set(.lease(id), .lease(id, fence: fence, duration), slot: slot, size: 64, now: now)
        }
    }

    /// The lease on a session was released.
    func released(_ id: SessionID, fence: UInt64) {
        state.withLock { state in
            guard case .lease(_, fence: fence, _)? = state.leases[.lease(id)] else { return }
            state.leases.remove(.lease(id))
        }
    }

    /// A cutoff was set.
    func cutoffSet(_ cutoff: JournaledCutoff, now: ContinuousClock.Instant = .now) {
        let slot = HashSlot.slot(of: cutoff.key)
        state.withLock { state in
            var cutoff = cutoff
            if case .cutoff(let older)? = state.ends[.cutoff(cutoff.key)] { cutoff.merge(older) }
            state.ends.set(
                .cutoff(cutoff.key), .cutoff(cutoff), slot: slot, size: 128 + cutoff.key.utf8.count, now: now)
        }
    }

    /// It is unknown whether a cutoff was set that ends all sessions so far. Its time is then also unknown.
    func cutoffRequested(_ request: CutoffRequest, sentAt: ContinuousClock.Instant) {
        let slot = HashSlot.slot(of: request.key)
        state.withLock { state in
            let key = JournalKey.cutoffRequest(request.key)
            if let kept = state.ends.entry(key), kept.writtenAt > sentAt { return }
            state.ends.set(
                key, .cutoffRequest(request), slot: slot, size: 128 + request.key.utf8.count, now: sentAt)
        }
    }

    /// A cutoff was set that ends all sessions so far, and thus those that an earlier request would end.
    func cutoffConfirmed(_ key: String, sentAt: ContinuousClock.Instant) {
        state.withLock { state in
            guard let request = state.ends.entry(.cutoffRequest(key)), request.writtenAt <= sentAt else { return }
            state.ends.remove(.cutoffRequest(key))
        }
    }

    /// A mark was set.
    func marked(_ key: MarkKey, at time: Timestamp, lifetime: Duration, now: ContinuousClock.Instant = .now) {
        let slot = HashSlot.slot(of: keys.mark(key))
        state.withLock { state in
            if case .mark(_, let older, _)? = state.ends[.mark(key)], older > time { return }
            state.ends.set(.mark(key), .mark(key, time, lifetime: lifetime), slot: slot, size: 64, now: now)
        }
    }
}

/// What a journaled write is about.
enum JournalKey: Hashable, Sendable {
    case session(SessionID)
    case lease(SessionID)
    case cutoff(String)
    case cutoffRequest(String)
    case mark(MarkKey)
}

/// A write that the server has executed, or may have executed.
enum JournaledWrite: Sendable {
    case end(SessionID, SessionEndReason)
    case record(JournaledRecord)
    case lease(SessionID, fence: UInt64, Duration)
    case cutoff(JournaledCutoff)
    case cutoffRequest(CutoffRequest)
    case mark(MarkKey, Timestamp, lifetime: Duration)
}

/// A record as it was written.
struct JournaledRecord: Sendable {
    let id: SessionID
    let key: [UInt8]
    let version: UInt64
    /// The fence of the lease under which it was saved; 0 for none.
    let fence: UInt64
    let lastUsedAt: Timestamp
    /// How long the server keeps the record.
    let lifetime: Duration
    /// Fields and values in turn, except the time of use and the fence.
    let fields: [ValkeyCommand.Part]
    /// Fields that only the insertion has written.
    private(set) var insertedFields: [ValkeyCommand.Part] = []
    /// The keys of the indexes that list the session, and how long; empty unless it was inserted by this process.
    private(set) var indexes: [String]
    private(set) var indexLifetime: Duration

    init(
        _ record: SessionRecord, fence: UInt64? = nil, lifetime: Duration, fields: [ValkeyCommand.Part],
        indexes: [String] = [], indexLifetime: Duration = .zero
    ) {
        id = record.key.id
        key = record.key.bytes
        version = record.version
        self.fence = fence ?? 0
        lastUsedAt = record.lastUsedAt
        self.lifetime = lifetime
        self.fields = fields
        self.indexes = indexes
        self.indexLifetime = indexLifetime
    }

    /// The approximate size in memory, in bytes.
    var size: Int {
        (fields + insertedFields).reduce(256 + indexes.reduce(0) { $0 + $1.utf8.count }) { sum, part in
            switch part {
            case .text(let text): sum + 16 + text.utf8.count
            case .bytes(let bytes): sum + 48 + bytes.count
            case .integer: sum + 16
            }
        }
    }

    /// Takes over from an older version what this one does not contain.
    mutating func keepFields(of older: JournaledRecord) {
        var names: Set<String> = []
        for index in stride(from: 0, to: fields.count, by: 2) {
            if case .text(let name) = fields[index] { names.insert(name) }
        }
        let others = older.fields + older.insertedFields
        for index in stride(from: 0, to: others.count - 1, by: 2) {
            guard case .text(let name) = others[index], names.insert(name).inserted else { continue }
            insertedFields += others[index...(index + 1)]
        }
        if indexes.isEmpty { (indexes, indexLifetime) = (older.indexes, older.indexLifetime) }
    }
}

/// A cutoff as it was written: the time before which all sessions of an index have ended.
struct JournaledCutoff: Sendable, Equatable {
    let key: String
    /// Microseconds by the server's clock; 0 for none.
    private(set) var time: Int64
    /// The id of the session that is kept; `-` for none.
    private(set) var kept: String
    /// When the kept session was entered into the index, in microseconds; `nil` if it is not known.
    private(set) var keptBirth: Int64?
    /// Sessions created before this have ended, in milliseconds; `nil` for none.
    private(set) var createdBefore: Int64?
    /// How long the server keeps it.
    private(set) var lifetime: Duration

    /// Parses the value in the server: microseconds, the id or `-`, milliseconds or `-`, and the birth of the kept session
    /// if it is known.
    init?(key: String, stored: String, lifetime: Duration) {
        let fields = stored.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count >= 3, let time = Int64(fields[0]) else { return nil }
        self.key = key
        self.time = time
        kept = String(fields[1])
        keptBirth = fields.count > 3 ? Int64(fields[3]) : nil
        createdBefore = Int64(fields[2])
        self.lifetime = lifetime
    }

    /// A cutoff that ends the sessions that were created before a time.
    init(key: String, createdBefore: Timestamp, lifetime: Duration) {
        self.key = key
        time = 0
        kept = "-"
        self.createdBefore = createdBefore.milliseconds
        self.lifetime = lifetime
    }

    /// Takes over what is later in another one: replies to concurrent writes may be processed in any order. A session is
    /// not kept if the earlier one has ended it.
    mutating func merge(_ other: JournaledCutoff) {
        let earlier = other.time > time ? self : other
        if other.time > time { (time, kept, keptBirth) = (other.time, other.kept, other.keptBirth) }
        if earlier.time > 0, earlier.time < time, kept != earlier.kept, let birth = keptBirth, birth <= earlier.time {
            (kept, keptBirth) = ("-", nil)
        }
        if let before = other.createdBefore, before > createdBefore ?? .min { createdBefore = before }
        lifetime = max(lifetime, other.lifetime)
    }
}

/// The end of all sessions of an index so far, of which it is unknown whether and when the server has set it.
struct CutoffRequest: Sendable, Equatable {
    let key: String
    let kept: SessionID?
    let lifetime: Duration
}
