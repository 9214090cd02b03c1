import CloakroomCore
import NIOCore
import Synchronization

/// The recent writes of this process, to repeat those that a failover has lost: ``WriteReassertion``.
///
/// Bounded in number, size and age. Of each session, cutoff and mark only the newest write is kept, and the end of a
/// session is its last write: it replaces its record, and no record replaces it. Records, which are large, have limits of
/// their own, so that sign-ins do not displace the ends of sessions. Ends, cutoffs and marks of a slot have no age limit
/// while its server has not accepted their repetition, and writes of other slots do not displace them.
final class WriteJournal: Sendable {
    /// How long a write is kept: longer than it takes, with usual settings, until a server is given up and its replica is
    /// promoted.
    ///
    /// It is well below ``SessionRecordStore/tombstoneLifetime``, for which the server keeps the reason for the end of a
    /// session: as long as a lost record may be inserted again, the server knows of an end by another gateway.
    static let lifetime: Duration = .seconds(120)

    /// The maximum number of records, of leases, of other writes, and of those that only wait for their server.
    static let maximumCount = 100_000
    /// The maximum size in bytes of each of these.
    static let maximumSize = 16 << 20

    private static let limits = JournalTable<JournalKey, JournaledWrite>.Limits(
        count: maximumCount, size: maximumSize, lifetime: lifetime)

    private let keys: ValkeyKeys
    private let onDisplaced: @Sendable (Int) -> Void
    private let state: Mutex<JournalState>

    /// - Parameters:
    ///   - keys: Determines the hash slots of the writes.
    ///   - onDisplaced: Called with the number of writes that were displaced although their server may lack them.
    init(
        keys: ValkeyKeys, ends: JournalTable<JournalKey, JournaledWrite>.Limits = WriteJournal.limits,
        records: JournalTable<JournalKey, JournaledWrite>.Limits = WriteJournal.limits,
        onDisplaced: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.keys = keys
        self.onDisplaced = onDisplaced
        state = Mutex(
            JournalState(
                ends: JournalTable(ends, keepsWaiting: true), records: JournalTable(records),
                leases: JournalTable(ends)))
    }

    /// Changes what is kept, and reports what was displaced.
    private func change<Value: Sendable>(_ body: (inout JournalState) -> Value) -> Value {
        let (value, displaced) = state.withLock { state in
            let value = body(&state)
            return (value, state.takeDisplaced())
        }
        if displaced > 0 { onDisplaced(displaced) }
        return value
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
                let isWaiting = state.unrepeated.contains(UInt16(slot))
                ends += state.ends.entries(in: slot, now: now, isWaiting: isWaiting)
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

    func ended(_ id: SessionID, reason: SessionEndReason, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        change { $0.end(id, reason, slot: slot, now: now) }
    }

    /// A session has ended whose record the server does not have. Clients can name any number of such sessions, so the
    /// end is kept only if this process would otherwise write the record again.
    func endedWithoutRecord(_ id: SessionID, reason: SessionEndReason, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        change { state in
            guard state.records[.session(id)] != nil || state.leases[.lease(id)] != nil else { return }
            state.end(id, reason, slot: slot, now: now)
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
    /// then, with tokens that cannot be obtained again. The same save again, because it is tried again or has succeeded, is
    /// as old as its last one: during a long outage, it may succeed when its first attempt is too old to be kept.
    /// - Returns: For ``rejected(_:)``; `nil` if there is a newer version, or the session has ended.
    @discardableResult
    func saved(_ record: JournaledRecord, now: ContinuousClock.Instant = .now) -> PendingSave? {
        let slot = slot(of: record.id)
        return change { state in
            guard state.ends[.session(record.id)] == nil else { return nil }
            let previous = state.records.entry(.session(record.id))
            var record = record
            if case .record(let older)? = previous?.value {
                guard older.version <= record.version else { return nil }
                record.keepFields(of: older)
            }
            let number = state.records.set(
                .session(record.id), .record(record), slot: slot, otherSlots: record.indexes.map(HashSlot.slot(of:)),
                size: record.size, now: now, waiting: state.unrepeated)
            return PendingSave(id: record.id, number: number, previous: previous)
        }
    }

    /// The server has rejected a save: what was kept before is kept again.
    func rejected(_ save: PendingSave) {
        change { state in
            guard state.records.entry(.session(save.id))?.number == save.number else { return }
            state.records.remove(.session(save.id))
            guard let previous = save.previous else { return }
            state.records.set(
                .session(save.id), previous.value, slot: previous.slot, otherSlots: previous.otherSlots,
                size: previous.size, now: previous.writtenAt, waiting: state.unrepeated)
        }
    }

    /// The lease on a session was acquired.
    func leased(_ id: SessionID, fence: UInt64, for duration: Duration, now: ContinuousClock.Instant = .now) {
        let slot = slot(of: id)
        change { state in
            guard state.ends[.session(id)] == nil else { return }
            state.leases.set(
                .lease(id), .lease(id, fence: fence, duration), slot: slot, size: 64, now: now,
                waiting: state.unrepeated)
        }
    }

    /// The lease on a session was released.
    func released(_ id: SessionID, fence: UInt64) {
        state.withLock { state in
            guard case .lease(_, fence: fence, _)? = state.leases[.lease(id)] else { return }
            state.leases.remove(.lease(id))
        }
    }

    func cutoffSet(_ cutoff: JournaledCutoff, now: ContinuousClock.Instant = .now) {
        let slot = HashSlot.slot(of: cutoff.key)
        change { state in
            var cutoff = cutoff
            if case .cutoff(let older)? = state.ends[.cutoff(cutoff.key)] { cutoff.merge(older) }
            state.keep(.cutoff(cutoff.key), .cutoff(cutoff), slot: slot, size: 128 + cutoff.key.utf8.count, now: now)
        }
    }

    /// It is unknown whether a cutoff was set that ends all sessions so far. Its time is then also unknown.
    func cutoffRequested(_ request: CutoffRequest, sentAt: ContinuousClock.Instant) {
        let slot = HashSlot.slot(of: request.key)
        change { state in
            let key = JournalKey.cutoffRequest(request.key)
            if let kept = state.ends.entry(key), kept.writtenAt > sentAt { return }
            state.keep(key, .cutoffRequest(request), slot: slot, size: 128 + request.key.utf8.count, now: sentAt)
        }
    }

    /// A cutoff was set that ends all sessions so far, and thus those that an earlier request would end.
    func cutoffConfirmed(_ key: String, sentAt: ContinuousClock.Instant) {
        state.withLock { state in
            guard let request = state.ends.entry(.cutoffRequest(key)), request.writtenAt <= sentAt else { return }
            state.ends.remove(.cutoffRequest(key))
        }
    }

    func marked(_ key: MarkKey, at time: WallTime, lifetime: Duration, now: ContinuousClock.Instant = .now) {
        let slot = HashSlot.slot(of: keys.mark(key))
        change { state in
            if case .mark(_, let older, _)? = state.ends[.mark(key)], older > time { return }
            state.keep(.mark(key), .mark(key, time, lifetime: lifetime), slot: slot, now: now)
        }
    }
}

/// Repetitions. Each has a number, so that one that ends late does not change what a later one has found.
extension WriteJournal {
    /// The writes of slots are about to be read with ``entries(in:now:)``, and repeated.
    /// - Returns: The number of the repetition, for ``didRepeat(_:_:unwritten:now:)``.
    @discardableResult
    func willRepeat(_ slots: [Range<Int>]) -> UInt32 {
        state.withLock { state in
            let number = state.takeNumber()
            for slot in slots.joined() { state.slots[slot].repetition = number }
            return number
        }
    }

    /// Slots have another server, or the same one again, and their writes are about to be read with
    /// ``entries(in:now:)``, and repeated.
    /// - Returns: The number of the repetition, for ``didRepeat(_:_:unwritten:now:)``.
    @discardableResult
    func serverReplaced(_ slots: [Range<Int>]) -> UInt32 {
        state.withLock { state in
            let number = state.takeNumber()
            for slot in slots.joined() { state.slots[slot] = .init(repetition: number, replacement: number) }
            return number
        }
    }

    /// A repetition has ended.
    /// - Parameters:
    ///   - slots: The slots that were repeated.
    ///   - unwritten: The slots with writes that the server may lack, and may accept later.
    func didRepeat(
        _ slots: [Range<Int>], _ number: UInt32, unwritten: Set<UInt16>, now: ContinuousClock.Instant = .now
    ) {
        if state.withLock({ !$0.unrepeated.isEmpty }) {
            for slot in slots.joined() where !unwritten.contains(UInt16(slot)) {
                // One slot at a time, so that no write waits for long.
                state.withLock { state in
                    guard state.slots[slot].repetition == number, state.unrepeated.remove(UInt16(slot)) != nil else {
                        return
                    }
                    state.ends.release(UInt16(slot), now: now)
                    // The reply to a read may be from before the repetition, although that began earlier.
                    state.slots[slot].repetition = state.takeNumber()
                }
            }
        }
        guard !unwritten.isEmpty else { return }
        state.withLock { state in
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
        slots.joined().contains { slot in state.withLock { $0.records.hasEntries(in: slot, now: now) } }
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

    /// A number that changes with each repetition of a slot's writes, when it begins and when it has succeeded. A reply to
    /// a read that was sent before may lack writes: it is completed with the journal.
    func repetition(of slot: Int) -> UInt32 {
        state.withLock { $0.slot(slot).repetition }
    }

    /// A number that changes whenever a slot has another server. A write that was sent before and is kept only after it may
    /// be lost: the server that executed it was replaced, and the new one did not get it. A repetition alone, at the
    /// server that the slot has, loses nothing.
    func replacement(of slot: Int) -> UInt32 {
        state.withLock { $0.slot(slot).replacement }
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
    /// - Parameter repetition: ``repetition(of:)`` for the session's slot before the server was asked; `nil` for now.
    func end(of id: SessionID, since repetition: UInt32? = nil) -> SessionEndReason? {
        let slot = slot(of: id)
        return state.withLock { state in
            guard state.mayLack(slot, since: repetition), case .end(_, let reason)? = state.ends[.session(id)] else {
                return nil
            }
            return reason
        }
    }

    /// A cutoff that was set, or that may have been set, if the server may not have it.
    /// - Parameter repetition: ``repetition(of:)`` for the key's slot before the server was asked.
    func cutoff(_ key: String, since repetition: UInt32) -> (set: JournaledCutoff?, isRequested: Bool) {
        let slot = HashSlot.slot(of: key)
        return state.withLock { state in
            guard state.mayLack(slot, since: repetition) else { return (nil, false) }
            var set: JournaledCutoff?
            if case .cutoff(let cutoff)? = state.ends[.cutoff(key)] { set = cutoff }
            return (set, state.ends[.cutoffRequest(key)] != nil)
        }
    }

    /// The time of a mark that was set, if the server may not have it.
    /// - Parameter repetition: ``repetition(of:)`` for the mark's slot before the server was asked; `nil` for now.
    func mark(
        _ key: MarkKey, since repetition: UInt32? = nil, now: ContinuousClock.Instant = .now
    ) -> WallTime? {
        let slot = HashSlot.slot(of: keys.mark(key))
        return state.withLock { state in
            guard state.mayLack(slot, since: repetition), let entry = state.ends.entry(.mark(key)),
                case .mark(_, let time, let lifetime) = entry.value, now - entry.writtenAt < lifetime
            else { return nil }
            return time
        }
    }
}
