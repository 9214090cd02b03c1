import CloakroomCore

/// What a ``WriteJournal`` keeps, and which slots' servers may lack some of it.
struct JournalState: Sendable {
    /// The numbers of a slot.
    struct Slot: Sendable {
        /// Of the last repetition of its writes, or of the end of the last one that has succeeded.
        var repetition: UInt32 = 0
        /// Of the last repetition at a server that has replaced another one.
        var replacement: UInt32 = 0
    }

    /// Ends of sessions, cutoffs and marks.
    var ends: JournalTable<JournalKey, JournaledWrite>
    var records: JournalTable<JournalKey, JournaledWrite>
    var leases: JournalTable<JournalKey, JournaledWrite>
    /// The slots with writes that their server may lack, because it has not accepted a repetition.
    var unrepeated: Set<UInt16> = []
    /// Empty before the first repetition.
    var slots: [Slot] = []
    private(set) var lastNumber: UInt32 = 0
    /// Notified when slots are added.
    var shortfalls: AsyncStream<Void>.Continuation?

    func slot(_ slot: Int) -> Slot { slots.isEmpty ? Slot() : slots[slot] }

    /// A number that no slot has.
    mutating func takeNumber() -> UInt32 {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: HashSlot.count) }
        lastNumber &+= 1
        return lastNumber
    }

    /// Whether the server of a slot may lack writes, or has lacked some since a read began.
    func mayLack(_ slot: UInt16, since repetition: UInt32?) -> Bool {
        if unrepeated.contains(slot) { return true }
        return repetition.map { $0 != self.slot(Int(slot)).repetition } ?? false
    }

    /// Keeps an end, a cutoff or a mark.
    mutating func keep(
        _ key: JournalKey, _ write: JournaledWrite, slot: UInt16, size: Int = 64, now: ContinuousClock.Instant
    ) {
        ends.set(key, write, slot: slot, size: size, now: now, waiting: unrepeated)
    }

    /// Keeps the end of a session in place of its other writes.
    mutating func end(_ id: SessionID, _ reason: SessionEndReason, slot: UInt16, now: ContinuousClock.Instant) {
        records.remove(.session(id))
        leases.remove(.lease(id))
        keep(.session(id), .end(id, reason), slot: slot, now: now)
    }

    mutating func takeDisplaced() -> Int {
        ends.takeDisplaced() + records.takeDisplaced() + leases.takeDisplaced()
    }
}
