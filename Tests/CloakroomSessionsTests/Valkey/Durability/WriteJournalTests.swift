import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

extension WriteJournal {
    /// The journal of a store whose keys have the prefix `p`.
    convenience init() { self.init(keys: ValkeyKeys(prefix: "p")) }
}

extension JournaledWrite {
    var record: JournaledRecord? { if case .record(let record) = self { record } else { nil } }
    var cutoff: JournaledCutoff? { if case .cutoff(let cutoff) = self { cutoff } else { nil } }
}

extension ValkeyKeys {
    /// A session whose keys are in these slots.
    func id(in slots: Range<Int>) throws -> SessionID {
        try require(
            (UInt64(1)...10_000).map { SessionID($0) }.first { slots.contains(Int(HashSlot.slot(of: session($0)))) })
    }
}

@Suite("The journal of recent writes")
struct WriteJournalTests {
    private let start = ContinuousClock.now
    private let journal = WriteJournal()

    private func record(_ number: UInt64, version: UInt64 = 1, size: Int = 10, isNew: Bool = false) -> JournaledRecord {
        var record = SessionRecord.sample(number, version: version)
        record.contents = Array(repeating: 1, count: size)
        return JournaledRecord(
            record, fence: version, lifetime: .seconds(900),
            fields: RecordEncoding.parts(record) + (isNew ? ["b", "7"] : []),
            indexes: isNew ? ["index"] : [], indexLifetime: .seconds(1_000))
    }

    /// What a journal has, in its order: the kind and the id.
    private func contents(_ journal: WriteJournal, at now: ContinuousClock.Instant? = nil) -> [String] {
        contents(journal.entries(now: now ?? start))
    }

    private func contents(_ entries: [WriteJournal.Entry]) -> [String] {
        entries.map { entry in
            switch entry.write {
            case .end(let id, let reason): "end \(id.value) \(reason.rawValue)"
            case .record(let record): "record \(record.id.value) \(record.version)"
            case .lease(let id, let fence, _): "lease \(id.value) \(fence)"
            case .cutoff(let cutoff): "cutoff \(cutoff.key) \(cutoff.time) \(cutoff.kept)"
            case .cutoffRequest(let request): "request \(request.key) \(request.kept?.value ?? 0)"
            case .mark(let key, let time, _): "mark \(key.hash) \(time.milliseconds)"
            }
        }
    }

    @Test("The end of a session replaces its record and its lease, and no later record replaces it")
    func endsAreFinal() {
        journal.saved(record(1), now: start)
        journal.leased(SessionID(1), fence: 3, for: .seconds(9), now: start)
        journal.ended(SessionID(1), reason: .signedOut, now: start)
        journal.saved(record(1, version: 2), now: start)
        journal.leased(SessionID(1), fence: 4, for: .seconds(9), now: start)
        expect(contents(journal), equals: ["end 1 signed_out"])
    }

    @Test("A save that the server rejects is taken back, unless a newer write has replaced it; an unknown one stays")
    func rejectedSave() throws {
        let first = try require(journal.saved(record(1), now: start))
        let second = try require(journal.saved(record(1, version: 2), now: start))
        expect(contents(journal), equals: ["record 1 2"])
        journal.rejected(first)
        expect(contents(journal), equals: ["record 1 2"])
        journal.rejected(second)
        expect(contents(journal), equals: ["record 1 1"])
        expect(empty: contents(journal, at: start + WriteJournal.lifetime))
        let other = try require(journal.saved(record(2), now: start))
        journal.rejected(other)
        expect(contents(journal), equals: ["record 1 1"])
        // Not after its end.
        let third = try require(journal.saved(record(1, version: 2), now: start))
        journal.ended(SessionID(1), reason: .revoked, now: start)
        journal.rejected(third)
        expect(contents(journal), equals: ["end 1 revoked"])
    }

    @Test("A save that is tried again, or has succeeded, is kept for as long as a new one")
    func repeatedSave() throws {
        journal.saved(record(1, version: 2), now: start)
        let again = try require(journal.saved(record(1, version: 2), now: start + .seconds(100)))
        expect(contents(journal, at: start + .seconds(219)), equals: ["record 1 2"])
        // The result of the first one is still unknown.
        journal.rejected(again)
        expect(contents(journal, at: start + .seconds(119)), equals: ["record 1 2"])
        expect(empty: contents(journal, at: start + .seconds(120)))
        // Too old, but not removed yet.
        journal.saved(record(1, version: 2), now: start + .seconds(130))
        expect(contents(journal, at: start + .seconds(249)), equals: ["record 1 2"])
        expect(journal.saved(record(1), now: start + .seconds(130)) == nil)
    }

    @Test("The end of a session that the server does not have is kept only if its record would be written again")
    func endWithoutRecord() {
        journal.endedWithoutRecord(SessionID(9), reason: .signedOut, now: start)
        expect(empty: contents(journal))
        journal.saved(record(1), now: start)
        journal.endedWithoutRecord(SessionID(1), reason: .signedOut, now: start)
        expect(contents(journal), equals: ["end 1 signed_out"])
    }

    @Test("The newest version of a record is kept, with the fields and indexes of its insertion")
    func newestVersion() throws {
        journal.saved(record(1, isNew: true), now: start)
        journal.saved(record(1, version: 3), now: start)
        journal.saved(record(1, version: 2), now: start)
        expect(contents(journal), equals: ["record 1 3"])
        let kept = try require(journal.entries(now: start).first?.write.record)
        expect(kept.fence, equals: 3)
        expect(kept.indexes, equals: ["index"])
        expect(kept.indexLifetime, equals: .seconds(1_000))
        expect("\(kept.insertedFields)", equals: "\(["b", "7"] as [ValkeyCommand.Part])")
        // Again: what only the insertion has written is not lost.
        journal.saved(record(1, version: 4), now: start)
        let later = try require(journal.entries(now: start).first?.write.record)
        expect("\(later.insertedFields)", equals: "\(kept.insertedFields)")
    }

    @Test("The writes of some slots are found without the others, and a record also in the slots of its indexes")
    func slots() {
        let keys = ValkeyKeys(prefix: "p")
        let index = keys.sessions(of: 7)
        let inserted = JournaledRecord(
            .sample(1), lifetime: .seconds(900), fields: [], indexes: [index], indexLifetime: .seconds(1_000))
        journal.saved(inserted, now: start)
        // A later version of it, and its lease.
        journal.saved(record(1, version: 2), now: start)
        journal.leased(SessionID(1), fence: 3, for: .seconds(9), now: start)
        journal.ended(SessionID(2), reason: .revoked, now: start)
        let mark = MarkKey(.usedLogin, hash: 9)
        journal.marked(mark, at: WallTime(milliseconds: 0), lifetime: .seconds(9), now: start)
        func found(_ names: String...) -> [String] {
            let slots = Set(names.map { Int(HashSlot.slot(of: $0)) }).sorted().map { $0..<($0 + 1) }
            return contents(journal.entries(in: slots, now: start))
        }
        expect(found(keys.session(SessionID(1))), equals: ["record 1 2", "lease 1 3"])
        expect(found(index), equals: ["record 1 2"])
        expect(found(index, keys.session(SessionID(1))), equals: ["record 1 2", "lease 1 3"])
        expect(found(keys.session(SessionID(2)), keys.mark(mark)), equals: ["mark 9 0", "end 2 revoked"])
        expect(empty: found(keys.session(SessionID(3))))
        expect(contents(journal).count, equals: 4)
        journal.ended(SessionID(1), reason: .revoked, now: start)
        expect(empty: found(index))
        expect(found(keys.session(SessionID(1))), equals: ["end 1 revoked"])
    }

    @Test("Ends come first and leases last, each with the newest first")
    func order() {
        journal.leased(SessionID(1), fence: 3, for: .seconds(9), now: start)
        journal.ended(SessionID(5), reason: .revoked, now: start)
        journal.saved(record(1), now: start)
        journal.saved(record(2), now: start)
        journal.ended(SessionID(4), reason: .revoked, now: start)
        journal.marked(MarkKey(.usedLogin, hash: 9), at: WallTime(milliseconds: 0), lifetime: .seconds(9), now: start)
        expect(
            contents(journal),
            equals: [
                "mark 9 0", "end 4 revoked", "end 5 revoked", "record 2 1", "record 1 1", "lease 1 3",
            ])
    }

    @Test("Rule 24: an end whose result is unknown is kept, unless its session only seems idle")
    func unknownEnd() async throws {
        try await withReplica(configure: { $0.timeout = .seconds(2) }) { replica, server async throws in
            let records = replica.records
            for number in UInt64(1)...2 {
                try await expect(records.insert(.sample(number)))
            }
            server.freeze()
            // Both are sent before the connection is given up.
            let ends: [(UInt64, SessionEndReason)] = [(1, .signedOut), (2, .expiredIdle)]
            let removals = ends.map { number, reason in
                Task {
                    try await records.remove(
                        SessionID(number), reason: reason, condition: nil, now: SessionRecord.start)
                }
            }
            var results: [Result<RecordRemovalResult, any Error>] = []
            for removal in removals { results.append(await removal.result) }
            server.thaw()
            for result in results { #expect(throws: SessionStoreError(.unavailable)) { try result.get() } }
            expect(contents(records.journal), equals: ["end 1 signed_out", "record 2 1"])
        }
    }

    /// An operation on the session 1 whose server may have been replaced before its reply arrives.
    struct UnknownWrite: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Whether the session has had a lease before, with the fence 1.
        var wasLeased = false
        let operation: @Sendable (ValkeyRecordStore) async throws -> Void
        /// What the journal has afterwards.
        let kept: [String]
        /// The fence of a lease that is acquired directly after that.
        var nextFence: UInt64?
    }

    private static let unknownWrites = [
        UnknownWrite(
            testDescription: "an end is kept",
            operation: {
                _ = try await $0.remove(SessionID(1), reason: .revoked, condition: nil, now: SessionRecord.start)
            }, kept: ["end 1 revoked"]),
        UnknownWrite(
            testDescription: "a save without a lease is kept",
            operation: { _ = try await $0.replace(.sample(version: 2), fence: nil, now: SessionRecord.start) },
            kept: ["record 1 2"]),
        UnknownWrite(
            testDescription: "a save with a lease is kept", wasLeased: true,
            operation: { _ = try await $0.replace(.sample(version: 2), fence: 1, now: SessionRecord.start) },
            kept: ["record 1 2"]),
        UnknownWrite(
            testDescription: "a lease is released, and was not acquired",
            operation: { _ = try await $0.lease(SessionID(1), for: .seconds(30), now: SessionRecord.start) },
            kept: ["record 1 1"], nextFence: 2),
    ]

    @Test(
        "A write whose server may have been replaced before its reply arrives has an unknown result",
        arguments: unknownWrites)
    func replacedMeanwhile(_ write: UnknownWrite) async throws {
        try await withValkeyStore { records, server in
            let (id, now) = (SessionID(1), SessionRecord.start)
            try await expect(records.insert(.sample()))
            if write.wasLeased {
                try await expect(records.lease(id, for: .seconds(30), now: now).lease != nil)
                try await records.release(id, fence: 1)
            }
            server.freeze()
            let attempt = Task { try await write.operation(records) }
            try await Task.sleep(for: .milliseconds(500))
            // As when another server takes over.
            records.journal.serverReplaced([HashSlot.all])
            let repeated = records.journal.entries().count
            server.thaw()
            let result = await attempt.result
            expect(repeated, equals: 1)
            #expect(throws: SessionStoreError(.unavailable)) { try result.get() }
            expect(contents(records.journal), equals: write.kept)
            guard let fence = write.nextFence else { return }
            // Without waiting until the first one expires.
            try await expect(
                records.lease(id, for: .seconds(30), now: now), equals: .acquired(RefreshLease(fence: fence)))
        }
    }

    @Test("A lease is forgotten when it is released, and not by the release of an earlier one")
    func leases() {
        journal.leased(SessionID(1), fence: 3, for: .seconds(9), now: start)
        journal.released(SessionID(1), fence: 2)
        expect(contents(journal), equals: ["lease 1 3"])
        journal.released(SessionID(1), fence: 3)
        expect(empty: contents(journal))
    }

    @Test("Cutoffs and marks only grow")
    func growing() throws {
        for stored in ["20 00ff 5", "10 - 7", "20 - -"] {
            journal.cutoffSet(
                try require(JournaledCutoff(key: "c", stored: stored, lifetime: .seconds(9))), now: start)
        }
        for time in [5, 9, 7] {
            journal.marked(
                MarkKey(.endedAtProvider, hash: 1), at: WallTime(milliseconds: Int64(time)), lifetime: .seconds(9),
                now: start)
        }
        expect(contents(journal).first, equals: "mark 1 9")
        let cutoff = try require(journal.entries(now: start).last?.write.cutoff)
        expect(cutoff.time, equals: 20)
        expect(cutoff.createdBefore, equals: 7)
        expect(JournaledCutoff(key: "c", stored: "x - -", lifetime: .seconds(9)), equals: nil)
        expect(JournaledCutoff(key: "c", stored: "1", lifetime: .seconds(9)), equals: nil)
    }

    @Test("A cutoff does not keep a session that an earlier one has ended, in any order")
    func keptSession() throws {
        func kept(_ first: String, _ second: String) throws -> [String] {
            try [[first, second], [second, first]].map { order in
                let journal = WriteJournal()
                for stored in order {
                    journal.cutoffSet(
                        try require(JournaledCutoff(key: "c", stored: stored, lifetime: .seconds(9))), now: start)
                }
                return contents(journal).first ?? ""
            }
        }
        try expect(kept("20 00ff - 10", "10 - -"), equals: ["cutoff c 20 -", "cutoff c 20 -"])
        try expect(kept("20 00ff - 11", "10 - -"), equals: ["cutoff c 20 00ff", "cutoff c 20 00ff"])
        try expect(kept("20 00ff - 9", "10 00ff - 9"), equals: ["cutoff c 20 00ff", "cutoff c 20 00ff"])
        try expect(kept("20 00ff - 9", "10 00fe -"), equals: ["cutoff c 20 -", "cutoff c 20 -"])
        // Without a birth, and without an earlier time.
        try expect(kept("20 00ff -", "10 - -"), equals: ["cutoff c 20 00ff", "cutoff c 20 00ff"])
        try expect(kept("20 00ff - 9", "0 - 7"), equals: ["cutoff c 20 00ff", "cutoff c 20 00ff"])
    }

    @Test("Of the cutoffs without a result the latest is kept, until one that was sent later is confirmed")
    func cutoffRequests() {
        func request(_ id: UInt64, at seconds: Int64) {
            journal.cutoffRequested(
                CutoffRequest(key: "c", kept: SessionID(id), lifetime: .seconds(600)),
                sentAt: start + .seconds(seconds))
        }
        request(1, at: 5)
        expect(contents(journal), equals: ["request c 1"])
        request(2, at: 6)
        request(3, at: 4)
        expect(contents(journal), equals: ["request c 2"])
        expect(journal.entries(now: start + .seconds(9)).map(\.age), equals: [.seconds(3)])
        journal.cutoffConfirmed("d", sentAt: start + .seconds(9))
        journal.cutoffConfirmed("c", sentAt: start + .seconds(5))
        expect(contents(journal), equals: ["request c 2"])
        journal.cutoffConfirmed("c", sentAt: start + .seconds(7))
        expect(empty: contents(journal))
    }

    @Test("Writes are forgotten after 120 s, long before the server forgets the reasons of ends")
    func age() {
        expect(WriteJournal.lifetime, equals: .seconds(120))
        #expect(WriteJournal.lifetime * 2 < ValkeyRecordStore.tombstoneLifetime)
        journal.ended(SessionID(1), reason: .revoked, now: start)
        journal.saved(record(2), now: start)
        journal.leased(SessionID(2), fence: 1, for: .seconds(9), now: start)
        expect(contents(journal, at: start + .seconds(119)).count, equals: 3)
        expect(empty: contents(journal, at: start + .seconds(120)))
    }

    @Test("Records do not displace ends, and the oldest writes are displaced first")
    func bounds() {
        let limits = JournalTable<JournalKey, JournaledWrite>.Limits(
            count: 3, size: 100_000, lifetime: .seconds(60))
        let journal = WriteJournal(keys: ValkeyKeys(prefix: "p"), ends: limits, records: limits)
        for number in UInt64(1)...5 { journal.ended(SessionID(number), reason: .revoked, now: start) }
        for number in UInt64(11)...15 { journal.saved(record(number), now: start) }
        expect(
            contents(journal),
            equals: [
                "end 5 revoked", "end 4 revoked", "end 3 revoked", "record 15 1", "record 14 1", "record 13 1",
            ])
        journal.saved(record(16, size: 99_000), now: start)
        expect(contents(journal).last, equals: "record 16 1")
        expect(contents(journal).count, equals: 4)
        // A record above the limit is not kept, and removes the others.
        journal.saved(record(17, size: 200_000), now: start)
        expect(contents(journal).count, equals: 3)
    }

    @Test("A table keeps its size when values are replaced and removed again and again")
    func table() {
        var table = JournalTable<Int, Int>(.init(count: 10, size: 1_000, lifetime: .seconds(60)))
        for round in 0..<10_000 {
            table.set(round % 7, round, slot: UInt16(round % 5), otherSlots: [6, 7], size: 3, now: start)
            if round % 3 == 0 { table.remove(round % 7) }
        }
        #expect(table.count <= 7)
        expect(table.size, equals: 3 * table.count)
        #expect(table.placeCount <= 2 * 7 + 65)
        let values = (0..<5).flatMap { table.entries(in: $0, now: start) }.map(\.value)
        expect(values.count, equals: table.count)
        for slot in 6...7 { expect(Set(table.entries(in: slot, now: start).map(\.value)), equals: Set(values)) }
        for slot in 0..<5 {
            let isInPlace = table.entries(in: slot, now: start).allSatisfy { $0.value % 5 == slot }
            expect(isInPlace)
        }
        table.set(100, 1, slot: 9, size: 1, now: start + .seconds(60))
        expect(table.count, equals: 1)
        for slot in 0..<8 { expect(empty: table.entries(in: slot, now: start)) }
    }
}
