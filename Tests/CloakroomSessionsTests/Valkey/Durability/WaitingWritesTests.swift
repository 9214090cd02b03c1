import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// Writes whose server has not accepted their repetition yet, in a journal that is small.
@Suite("Writes that wait for their server", .timeLimit(.minutes(3)))
struct WaitingWritesTests {
    private let recorded = RecordedLog()

    private typealias Limits = JournalTable<JournalKey, JournaledWrite>.Limits

    private static let complete = "no writes are left to repeat in the session store"
    private static let incomplete = "session store may have lost writes, and not all were repeated"

    private let keys = ValkeyKeys(prefix: "p")
    private let start = ContinuousClock.now

    private func slot(_ number: UInt64) -> UInt16 { HashSlot.slot(of: keys.session(SessionID(number))) }

    /// A journal of three ends, and as many that wait.
    private func journal(
        records: Int = 3, onDisplaced: @escaping @Sendable (Int) -> Void = { _ in }
    ) -> WriteJournal {
        WriteJournal(
            keys: keys, ends: Limits(count: 3, size: 1_000_000, lifetime: .seconds(120)),
            records: Limits(count: records, size: 1_000_000, lifetime: .seconds(120)), onDisplaced: onDisplaced)
    }

    /// The server of each slot has been replaced, and lacks writes of some.
    private func fail(_ journal: WriteJournal, _ slots: Set<UInt16>) {
        journal.didRepeat([HashSlot.all], journal.serverReplaced([HashSlot.all]), unwritten: slots)
    }

    private func succeed(_ journal: WriteJournal, now: ContinuousClock.Instant? = nil) {
        journal.didRepeat(
            [HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: [], now: now ?? start)
    }

    /// The sessions that have ended, in ascending order.
    private func ended(_ journal: WriteJournal, at now: ContinuousClock.Instant? = nil) -> [UInt64] {
        journal.entries(now: now ?? start).compactMap { entry in
            if case .end(let id, _) = entry.write { id.value } else { nil }
        }.sorted()
    }

    @Test("Rule 24: writes of other slots do not displace an end that waits for its server, however many and old")
    func otherSlots() {
        let displaced = Recorded<Int>()
        let journal = journal { displaced.append($0) }
        let later = start + WriteJournal.lifetime * 3
        journal.ended(SessionID(1), reason: .revoked, now: start)
        fail(journal, [slot(1)])
        for number in UInt64(2)...300 where slot(number) != slot(1) {
            journal.ended(SessionID(number), reason: .signedOut, now: later)
            let mark = MarkKey(.usedLogin, hash: number)
            guard HashSlot.slot(of: keys.mark(mark)) != slot(1) else { continue }
            journal.marked(mark, at: WallTime(milliseconds: 0), lifetime: .seconds(9), now: later)
            expect(journal.end(of: SessionID(1)), equals: .revoked)
        }
        expect(journal.entries(in: [Int(slot(1))..<(Int(slot(1)) + 1)], now: later).count, equals: 1)
        expect(journal.entries(now: later).count, equals: 4)
        expect(displaced.sum, equals: 0)
        // Those of other slots are not kept beyond their age.
        expect(ended(journal, at: later + WriteJournal.lifetime), equals: [1])
    }

    @Test("An end that is displaced while it waits is counted, the oldest first, and memory stays bounded")
    func bounds() {
        let displaced = Recorded<Int>()
        let journal = journal { displaced.append($0) }
        fail(journal, Set(0..<UInt16(HashSlot.count)))
        for number in UInt64(1)...6 { journal.ended(SessionID(number), reason: .revoked, now: start) }
        expect(ended(journal), equals: [1, 2, 3, 4, 5, 6])
        expect(displaced.sum, equals: 0)
        for number in UInt64(7)...100 {
            journal.ended(SessionID(number), reason: .revoked, now: start)
            expect(ended(journal), equals: Array((number - 5)...number))
            expect(displaced.sum, equals: Int(number) - 6)
        }
        expect(journal.end(of: SessionID(94)), equals: nil)
        expect(journal.end(of: SessionID(95)), equals: .revoked)
    }

    @Test("Ends that do not wait, or are replaced, or are too old, are not counted as displaced")
    func notDisplaced() {
        let displaced = Recorded<Int>()
        let journal = journal { displaced.append($0) }
        for number in UInt64(1)...20 { journal.ended(SessionID(number), reason: .revoked, now: start) }
        expect(ended(journal), equals: [18, 19, 20])
        fail(journal, [slot(20)])
        for _ in 0..<20 { journal.ended(SessionID(20), reason: .signedOut, now: start) }
        expect(ended(journal), equals: [18, 19, 20])
        journal.saved(JournaledRecord(.sample(30), lifetime: .seconds(900), fields: []), now: start)
        fail(journal, [slot(30)])
        journal.saved(
            JournaledRecord(.sample(31), lifetime: .seconds(900), fields: []), now: start + WriteJournal.lifetime)
        expect(displaced.sum, equals: 0)
    }

    @Test("A record that is displaced before its time while its slot, or that of its index, waits is counted")
    func records() {
        let displaced = Recorded<Int>()
        let journal = journal { displaced.append($0) }
        func save(_ number: UInt64) {
            journal.saved(
                JournaledRecord(.sample(number), lifetime: .seconds(900), fields: [], indexes: ["i\(number)"]),
                now: start)
        }
        for number in UInt64(1)...3 { save(number) }
        fail(journal, [slot(1), HashSlot.slot(of: "i2")])
        for number in UInt64(4)...6 { save(number) }
        expect(displaced.sum, equals: 2)
        // Records are never kept for longer: another gateway's end may be forgotten by then.
        fail(journal, Set(0..<UInt16(HashSlot.count)))
        expect(empty: journal.entries(now: start + WriteJournal.lifetime))
    }

    @Test("Ends that have waited are the first to be displaced when their server has them, and leave nothing behind")
    func released() {
        let displaced = Recorded<Int>()
        let journal = journal { displaced.append($0) }
        fail(journal, Set(0..<UInt16(HashSlot.count)))
        for number in UInt64(1)...6 { journal.ended(SessionID(number), reason: .revoked, now: start) }
        succeed(journal)
        // Not at once.
        expect(ended(journal), equals: [1, 2, 3, 4, 5, 6])
        journal.ended(SessionID(7), reason: .revoked, now: start)
        expect(ended(journal), equals: [5, 6, 7])
        // Again: their number is still right.
        for round in UInt64(1)...50 {
            fail(journal, Set(0..<UInt16(HashSlot.count)))
            for number in 0..<UInt64(6) {
                journal.ended(SessionID(round * 10 + number), reason: .revoked, now: start)
            }
            expect(ended(journal).count, equals: 6)
            succeed(journal)
            journal.ended(SessionID(round * 10 + 9), reason: .revoked, now: start)
            expect(ended(journal).count, equals: 3)
        }
        // Only what waited and was displaced then.
        expect(displaced.sum, equals: 50 * 3)
    }

    @Test("A table drops the places of values that have waited")
    func places() {
        var table = JournalTable<Int, Int>(.init(count: 10, size: 1_000, lifetime: .seconds(60)), keepsWaiting: true)
        let slots: Set<UInt16> = [1, 2]
        for round in 0..<10_000 {
            table.set(round % 40, round, slot: UInt16(round % 4), size: 3, now: start, waiting: slots)
            if round % 3 == 0 { table.remove(round % 40) }
            if round % 7 == 0 { for slot in slots { table.release(slot, now: start) } }
        }
        #expect(table.count <= 20)
        expect(table.size, equals: 3 * table.count)
        #expect(table.placeCount <= 2 * 20 + 130)
        expect((0..<4).map { table.entries(in: $0, now: start).count }.reduce(0, +), equals: table.count)
    }

    @Test("Rule 24: a read that was sent during a repetition is completed with the journal after it")
    func readMeanwhile() {
        let journal = journal()
        let later = start + WriteJournal.lifetime * 2
        journal.ended(SessionID(1), reason: .revoked, now: start)
        fail(journal, [slot(1)])
        // Longer than ends are kept otherwise.
        journal.ended(SessionID(2), reason: .revoked, now: later)
        let number = journal.willRepeat([HashSlot.all])
        // Sent before the server gets the repeated end, and its reply is processed after that.
        let repetition = journal.repetition(of: Int(slot(1)))
        journal.didRepeat([HashSlot.all], number, unwritten: [], now: later)
        journal.ended(SessionID(3), reason: .revoked, now: later)
        expect(journal.end(of: SessionID(1), since: repetition), equals: .revoked)
        expect(journal.end(of: SessionID(1), since: journal.repetition(of: Int(slot(1)))), equals: nil)
    }

    @Test("Slots whose writes are accepted one after the other cost no more than all at once")
    func slotBySlot() {
        let (journal, count) = (WriteJournal(keys: keys), UInt64(20_000))
        fail(journal, Set(0..<UInt16(HashSlot.count)))
        for number in 1...count { journal.ended(SessionID(number), reason: .revoked, now: start) }
        // All are older than ends are kept otherwise, so they wait from now on.
        let later = start + WriteJournal.lifetime * 2
        journal.ended(SessionID(count + 1), reason: .revoked, now: later)
        expect(ended(journal, at: later).count, equals: Int(count) + 1)
        let clock = ContinuousClock.now
        for slot in HashSlot.all {
            journal.didRepeat(
                [slot..<(slot + 1)], journal.willRepeat([slot..<(slot + 1)]), unwritten: [], now: later)
        }
        // If each slot visited all ends, there would be 300 million.
        #expect(ContinuousClock.now - clock < .seconds(30))
        expect(empty: journal.unrepeated)
        expect(ended(journal, at: later).count, equals: Int(count) + 1)
        expect(empty: ended(journal, at: later + WriteJournal.lifetime))
    }

    @Test("Rule 24: what a server has got late is repeated if the server is replaced soon after that")
    func replacedAgain() {
        let journal = WriteJournal(keys: keys)
        let later = start + WriteJournal.lifetime * 3
        for number in UInt64(1)...3 { journal.ended(SessionID(number), reason: .revoked, now: start) }
        fail(journal, [slot(1), slot(2)])
        // The first two wait, and the third is too old.
        journal.ended(SessionID(4), reason: .revoked, now: later)
        expect(ended(journal, at: later), equals: [1, 2, 4])
        succeed(journal, now: later)
        let soon = later + .seconds(1)
        journal.ended(SessionID(5), reason: .revoked, now: soon)
        journal.serverReplaced([HashSlot.all])
        expect(ended(journal, at: soon), equals: [1, 2, 4, 5])
        expect(journal.entries(now: soon).map(\.age).max(), equals: soon - start)
        // Then they are kept no longer than others.
        expect(ended(journal, at: later + WriteJournal.lifetime), equals: [5])
        journal.ended(SessionID(6), reason: .revoked, now: later + WriteJournal.lifetime)
        expect(journal.contains(.end(SessionID(5), .revoked)))
        expect(!journal.contains(.end(SessionID(1), .revoked)))
    }

    @Test("Rule 24: the same holds if nothing was written while they waited")
    func replacedAgainWithoutWrites() {
        let journal = WriteJournal(keys: keys)
        let later = start + WriteJournal.lifetime * 3
        journal.ended(SessionID(1), reason: .revoked, now: start)
        fail(journal, [slot(1)])
        succeed(journal, now: later)
        journal.serverReplaced([HashSlot.all])
        expect(ended(journal, at: later + .seconds(1)), equals: [1])
    }

    @Test("A log that has reported displaced writes does not report that a repetition is complete, but the next one")
    func log() {
        let log = DurabilityLog(recorded.logger, SessionStoreCallbacks())
        log.displaced(2)
        log.displaced(3)
        expect(recorded.lines("reason", "displaced").map { $0["unwritten"] }, equals: ["2"])
        log.reasserted([.end: 1], unwritten: 0)
        expect(recorded.lines("end", "1").map { $0["message"] }, equals: [Self.incomplete])
        expect(recorded.lines("end", "1").map { $0["unwritten"] }, equals: ["5"])
        log.reasserted([:], unwritten: 0)
        log.completed()
        expect(recorded.lines("reason", "displaced").map { $0["unwritten"] }, equals: ["2", "5"])
        expect(empty: recorded.lines("message", Self.complete))
        expect(recorded.all.map { $0["level"] }, equals: ["warning", "warning", "warning"])
        log.completed()
        expect(recorded.lines("message", Self.complete).map { $0["level"] }, equals: ["notice"])
    }

    @Test("Rule 24: a repetition is not reported as complete if a write that waited for it was displaced")
    func notComplete() async throws {
        let log = DurabilityLog(recorded.logger, SessionStoreCallbacks())
        let journal = journal { log.displaced($0) }
        let reassertion = WriteReassertion(journal: journal, keys: keys, log: log)
        let cluster = try await ScriptedCluster(failover: reassertion)
        let repeating = Task {
            await reassertion.repeatUntilAccepted(over: cluster.client, RecordingChangeDelegate())
        }
        /// Sets cutoffs of one slot, most of them while its server rejects them.
        func setCutoffs(_ tag: String, _ count: Int) async throws {
            for node in cluster.nodes { for _ in 0..<1_000 { node.reply(to: "EVALSHA", "-NOREPLICAS x") } }
            for number in 0..<count {
                journal.cutoffSet(
                    JournaledCutoff(
                        key: "{\(tag)}\(number)", createdBefore: SessionTime(milliseconds: 1), lifetime: .seconds(600)))
                if number == 0 { fail(journal, [HashSlot.slot(of: tag)]) }
            }
            let calls = cluster.nodes.map { $0.count(of: "EVALSHA") }.reduce(0, +)
            try await eventually("they are repeated") {
                cluster.nodes.map { $0.count(of: "EVALSHA") }.reduce(0, +) > calls
            }
            for node in cluster.nodes { node.dropReplies(to: "EVALSHA") }
            try await eventually("they are accepted") { journal.unrepeated.isEmpty }
        }
        try await stopping {
            repeating.cancel()
            await repeating.value
            await cluster.stop()
        } after: {
            try await cluster.isUp()
            try await setCutoffs("c", 16)
            try await eventually("it ends with a warning") {
                recorded.lines("reason", "displaced").last?["unwritten"] == "10"
                    && recorded.lines("reason", "displaced").count > 1
            }
            expect(empty: recorded.lines("message", Self.complete))
            try await setCutoffs("d", 1)
            try await eventually("the next one is complete") {
                !recorded.lines("message", Self.complete).isEmpty
            }
            expect(recorded.lines("reason", "displaced").count, equals: 2)
        }
    }

    @Test("A store logs what its journal displaces")
    func store() throws {
        let store = try ValkeyRecordStore(
            ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: 1)]), tls: nil,
            group: MultiThreadedEventLoopGroup.singleton, logger: recorded.logger)
        fail(store.journal, [HashSlot.slot(of: "{c}")])
        // Their size is that of their keys.
        let padding = String(repeating: "x", count: WriteJournal.maximumSize / 4)
        for number in 1...7 {
            let key = "{c}\(number)\(padding)"
            store.journal.cutoffSet(
                JournaledCutoff(key: key, createdBefore: SessionTime(milliseconds: 1), lifetime: .seconds(600)))
            expect(recorded.lines("reason", "displaced").count, equals: (number > 6 ? 1 : 0))
        }
        expect(recorded.lines("message", Self.incomplete).map { $0["level"] }, equals: ["warning"])
    }

    @Test("A repetition at the same server does not fail the writes that are in flight")
    func inFlight() async throws {
        try await withValkeyStore { records, server in
            let now = SessionRecord.start
            for number in UInt64(1)...3 {
                try await expect(records.insert(.sample(number)))
            }
            server.freeze()
            async let removal = records.remove(SessionID(1), reason: .revoked, condition: nil, now: now)
            async let lease = records.lease(SessionID(2), for: .seconds(30), now: now)
            async let save = records.replace(.sample(3, version: 2), fence: nil, now: now)
            async let cutoff: Void = records.setCutoff(
                .account(8), keeping: nil, before: nil, lifetime: .seconds(600), now: now)
            async let mark = records.setMark(
                MarkKey(.usedLogin, hash: 1), to: WallTime(milliseconds: 0), lifetime: .seconds(600), now: now)
            try await Task.sleep(for: .milliseconds(100))
            let number = records.journal.willRepeat([HashSlot.all])
            records.journal.didRepeat([HashSlot.all], number, unwritten: [])
            server.thaw()
            let result = try await (removal, lease, save, cutoff, mark)
            guard case .removed = result.0 else {
                Issue.record("it is not removed: \(result.0)")
                return
            }
            expect(result.1, equals: .acquired(RefreshLease(fence: 1)))
            expect(result.2, equals: .done)
            expect(result.4)
            expect(records.journal.entries().count, equals: 6)
        }
    }

    @Test("Records that can still be repeated are found, and no others")
    func hasRecords() {
        let journal = journal()
        let range = Int(slot(1))..<(Int(slot(1)) + 1)
        journal.ended(SessionID(9), reason: .revoked, now: start)
        expect(!journal.hasRecords(in: [HashSlot.all], now: start))
        journal.saved(JournaledRecord(.sample(1), lifetime: .seconds(900), fields: []), now: start)
        expect(journal.hasRecords(in: [range], now: start))
        expect(!journal.hasRecords(in: [0..<range.lowerBound, range.upperBound..<HashSlot.count], now: start))
        expect(!journal.hasRecords(in: [range], now: start + WriteJournal.lifetime))
        fail(journal, [slot(1)])
        expect(!journal.hasRecords(in: [range], now: start + WriteJournal.lifetime))
    }
}
