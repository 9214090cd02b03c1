import CloakroomCore
import NIOCore
import Synchronization

/// The recent writes of this process, to repeat those that a failover has lost: ``WriteReassertion``.
///
/// Bounded in number, size and age. Of each session, cutoff and mark only the newest write is kept, and the end of a
/// session is its last write: it replaces its record, and no record replaces it. Records, which are large, have limits of
/// their own, so that sign-ins do not displace the ends of sessions. Ends, cutoffs and marks have no age limit while a
/// server has not accepted their repetition.
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
        /// The number of the last repetition of each slot's writes; empty before the first one.
        var repetitions: [UInt32] = []
        var lastRepetition: UInt32 = 0
        /// The slots with writes that their server may lack, because it has not accepted a repetition.
        var unrepeated: Set<UInt16> = [] {
            didSet { ends.keepsOld = !unrepeated.isEmpty }
        }
        /// Notified when slots are added.
        var shortfalls: AsyncStream<Void>.Continuation?

        func repetition(of slot: Int) -> UInt32 { repetitions.isEmpty ? 0 : repetitions[slot] }

        /// Whether the server of a slot may lack writes, or has lacked some since a read began.
        func mayLack(_ slot: UInt16, since start: ReadStart?) -> Bool {
            if unrepeated.contains(slot) { return true }
            return start.map { $0.mayLack || $0.repetition != repetition(of: Int(slot)) } ?? false
        }
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
        let slot: UInt16
        /// Further slots with a part of the write.
        let otherSlots: [UInt16]
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
            Entry(
                write: found.value, age: now - found.writtenAt, slot: found.slot, otherSlots: found.otherSlots)
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

/// Repetitions. Each has a number, so that one that ends late does not change what a later one has found.
extension WriteJournal {
    /// The writes of slots are about to be read with ``entries(in:now:)``, and repeated.
    /// - Returns: The number of the repetition, for ``didRepeat(_:_:unwritten:)``.
    @discardableResult
    func willRepeat(_ slots: [Range<Int>]) -> UInt32 {
        state.withLock { state in
            if state.repetitions.isEmpty { state.repetitions = Array(repeating: 0, count: HashSlot.count) }
            state.lastRepetition &+= 1
            for slot in slots.joined() { state.repetitions[slot] = state.lastRepetition }
            return state.lastRepetition
        }
    }

    /// A repetition has ended.
    /// - Parameters:
    ///   - slots: The slots that were repeated.
    ///   - unwritten: The slots with writes that the server may lack, and may accept later.
    func didRepeat(_ slots: [Range<Int>], _ number: UInt32, unwritten: Set<UInt16>) {
        state.withLock { state in
            if !state.unrepeated.isEmpty {
                for slot in slots.joined() where state.repetitions[slot] == number {
                    state.unrepeated.remove(UInt16(slot))
                }
            }
            guard !unwritten.isEmpty else { return }
            state.unrepeated.formUnion(unwritten)
            state.shortfalls?.yield()
        }
    }

    /// The slots with writes that their server may lack, in ascending order.
    var unrepeated: [Range<Int>] {
        var slots = SlotRanges()
        for slot in state.withLock({ $0.unrepeated }).sorted() { slots.append(Int(slot)) }
        return slots.ranges
    }

    /// Whether there are records in slots that can still be repeated.
    func hasRecords(in slots: [Range<Int>], now: ContinuousClock.Instant = .now) -> Bool {
        slots.joined().contains { slot in state.withLock { !$0.records.entries(in: slot, now: now).isEmpty } }
    }

    /// Yields whenever ``unrepeated`` has more slots, and at first if there are any. For one consumer.
    func shortfalls() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        state.withLock { state in
            state.shortfalls = continuation
            if !state.unrepeated.isEmpty { continuation.yield() }
        }
        return stream
    }

    /// The number of the last repetition of a slot's writes; 0 if there was none. A write that was sent before a
    /// repetition and is kept only after it may be lost: the server that executed it was replaced, and the new one did not
    /// get it.
    func repetition(of slot: Int) -> UInt32 {
        state.withLock { $0.repetition(of: slot) }
    }

    /// What the server of a slot had when a read began.
    struct ReadStart: Sendable {
        fileprivate let repetition: UInt32
        /// Whether it may have lacked writes. They may have been accepted after it was read, and before its reply is used.
        fileprivate let mayLack: Bool
    }

    /// A server is about to be asked for a value in a slot.
    func reading(in slot: Int) -> ReadStart {
        state.withLock { state in
            ReadStart(
                repetition: state.repetition(of: slot), mayLack: state.unrepeated.contains(UInt16(clamping: slot)))
        }
    }

    /// Whether a write, or a later one in its place, is still journaled. The server does not execute one that is out of date.
    func contains(_ write: JournaledWrite) -> Bool {
        state.withLock { state in
            switch write {
            case .end(let id, _): state.ends[.session(id)] != nil
            case .record(let record): state.records[.session(record.id)] != nil
            case .lease(let id, _, _): state.leases[.lease(id)] != nil
            case .cutoff(let cutoff): state.ends[.cutoff(cutoff.key)] != nil
            case .cutoffRequest(let request): state.ends[.cutoffRequest(request.key)] != nil
            case .mark(let key, _, _): state.ends[.mark(key)] != nil
            }
        }
    }
}

/// What this process has written and the server may lack: then the server's replies are completed with it.
extension WriteJournal {
    /// Why a session has ended, if this process has ended it and the server may not have that.
    /// - Parameter start: ``reading(in:)`` for the session's slot before the server was asked; `nil` for now.
    func end(of id: SessionID, since start: ReadStart? = nil) -> SessionEndReason? {
        let slot = slot(of: id)
        return state.withLock { state in
            guard state.mayLack(slot, since: start), case .end(_, let reason)? = state.ends[.session(id)] else {
                return nil
            }
            return reason
        }
    }

    /// A cutoff that was set, or that may have been set, if the server may not have it.
    /// - Parameter start: ``reading(in:)`` for the key's slot before the server was asked.
    func cutoff(_ key: String, since start: ReadStart) -> (set: JournaledCutoff?, isRequested: Bool) {
        let slot = HashSlot.slot(of: key)
        return state.withLock { state in
            guard state.mayLack(slot, since: start) else { return (nil, false) }
            var set: JournaledCutoff?
            if case .cutoff(let cutoff)? = state.ends[.cutoff(key)] { set = cutoff }
            return (set, state.ends[.cutoffRequest(key)] != nil)
        }
    }

    /// The time of a mark that was set, if the server may not have it.
    /// - Parameter start: ``reading(in:)`` for the mark's slot before the server was asked; `nil` for now.
    func mark(
        _ key: MarkKey, since start: ReadStart? = nil, now: ContinuousClock.Instant = .now
    ) -> Timestamp? {
        let slot = HashSlot.slot(of: keys.mark(key))
        return state.withLock { state in
            guard state.mayLack(slot, since: start), let entry = state.ends.entry(.mark(key)),
                case .mark(_, let time, let lifetime) = entry.value, now - entry.writtenAt < lifetime
            else { return nil }
            return time
        }
    }
}
