import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

/// A server that replaces another one does not accept the repeated writes at first.
@Suite("Writes that are repeated until a server accepts them", .serialized, .timeLimit(.minutes(3)))
struct LaterReassertionTests {
    private static let start = SessionRecord.start
    private static let slots = 5_461..<10_923
    private let journal = WriteJournal()

    @Test("Rule 24: what a server without its replicas rejects counts here, and is repeated as soon as it accepts it")
    func noReplicas() async throws {
        try await withReplica { gateway, server in
            let (store, changes) = (gateway.records, gateway.changes)
            let (ended, saved, index) = (SessionID(1), SessionID(2), RecordIndex.account(8))
            let (mark, time) = (MarkKey(.usedLogin, hash: 1), WallTime(milliseconds: 0))
            for id in [ended, saved] {
                _ = try await store.insert(.sample(id.value))
                try await server.ask("COPY", .text(store.keys.session(id)), .text("backup\(id.value)"))
            }
            _ = try await store.insert(.sample(3, account: 8))
            _ = try await store.remove(ended, reason: .signedOut, condition: nil, now: Self.start)
            try await expect(store.lease(saved, for: .seconds(30), now: Self.start).lease != nil)
            try await expect(store.replace(.sample(2, version: 2), fence: 1, now: Self.start), equals: .done)
            try await store.release(saved, fence: 1)
            try await store.setCutoff(index, keeping: nil, before: nil, lifetime: .seconds(600), now: Self.start)
            try await expect(store.setMark(mark, to: time, lifetime: .seconds(600), now: Self.start))
            // A replica without these writes is promoted, and other replicas are not connected to it yet.
            for key in [store.keys.ended(ended), store.keys.cutoff(index), store.keys.mark(mark)] {
                try await server.ask("DEL", .text(key))
            }
            for id in [ended, saved] {
                try await server.ask("RENAME", .text("backup\(id.value)"), .text(store.keys.session(id)))
            }
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            try await server.ask("CLIENT", "KILL", "TYPE", "normal")
            let since = try await changes.time(of: .up, count: 2)
            repeat {
                try await expect(store.read(ended), equals: .ended(.signedOut))
                try await Task.sleep(for: .milliseconds(100))
            } while ContinuousClock.now - since < .seconds(2)
            try await expect(server.ask("EXISTS", .text(store.keys.session(ended))), equals: .integer(1))
            try await expect(store.lease(ended, for: .seconds(30), now: Self.start), equals: .notFound)
            let record = try await require(store.read(SessionID(3)).record)
            let cutoff = try await require(store.cutoffs([index], now: Self.start).first ?? nil)
            expect(cutoff.ends(record, in: index))
            try await expect(store.latestMark([mark], now: Self.start), equals: time)
            try await expect(!store.setMark(mark, to: time, lifetime: .seconds(600), now: Self.start))
            try await eventually("the writes are rejected again") { changes.count(.lacksWrites) > 1 }
            expect(gateway.log.lines("reason", "noreplicas").map { $0["level"] }, equals: ["warning"])
            let before = changes.count(.changed(saved))
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
            try await eventually("everything is repeated") { store.journal.unrepeated.isEmpty }
            try await expect(server.ask("EXISTS", .text(store.keys.session(ended))), equals: .integer(0))
            try await expect(server.ask("EXISTS", .text(store.keys.ended(ended))), equals: .integer(1))
            try await expect(store.cutoffs([index], now: Self.start), equals: [cutoff])
            try await expect(server.ask("EXISTS", .text(store.keys.mark(mark))), equals: .integer(1))
            try await expect(store.read(saved), equals: .record(.sample(2, version: 2)))
            try await eventually("what was read before is forgotten") { changes.count(.changed(saved)) > before }
            let message = "no writes are left to repeat in the session store"
            try await eventually("the end is logged") { !gateway.log.lines("message", message).isEmpty }
            // All over the same connection.
            expect(changes.count(.up), equals: 2)
        }
    }

    /// Runs a test with a cluster in which a new server has replaced the second one, and rejects scripts.
    private func withPromotion(
        rejecting line: String,
        _ body: (WriteJournal, SessionID, ScriptedNode, ScriptedCluster, Task<Void, Never>) async throws -> Void
    ) async throws {
        let (journal, keys, log) = (WriteJournal(), ValkeyKeys(prefix: "p"), RecordedLog())
        let id = try keys.id(in: Self.slots)
        journal.ended(id, reason: .revoked)
        let reassertion = WriteReassertion(
            journal: journal, keys: keys, log: DurabilityLog(log.logger, SessionStoreCallbacks()))
        let cluster = try await ScriptedCluster(failover: reassertion)
        let repeating = Task {
            await reassertion.repeatUntilAccepted(over: cluster.client, RecordingChangeDelegate())
        }
        let new = try await ScriptedNode()
        try await stopping {
            repeating.cancel()
            // Ends what the repetition waits for.
            await cluster.stop()
            await repeating.value
            await new.stop()
        } after: {
            try await cluster.isUp()
            expect(journal.end(of: id), equals: nil)
            for _ in 0..<1_000 { new.reply(to: "EVALSHA", line) }
            let rows = [(0..<5_461, cluster.nodes[0]), (Self.slots, new), (10_923..<16_384, cluster.nodes[2])]
            for node in [cluster.nodes[0], cluster.nodes[2], new] { node.setSlots(rows) }
            await cluster.nodes[1].stop()
            try await eventually("the new server is used") { await cluster.port("c") == Int64(new.port) }
            try await cluster.isUp()
            try await body(journal, id, new, cluster, repeating)
        }
    }

    @Test(
        "Rule 24: an end that a promoted server of a cluster rejects counts here, and is repeated until it is accepted",
        arguments: [
            "-CLUSTERDOWN The cluster is down", "-NOREPLICAS x", "-TRYAGAIN x", "-ASK 5461 127.0.0.1:1",
            "-MISCONF x", "-BUSY x", "-NOPERM x", "-WRONGTYPE x", "-ERR x",
            "-ERR ACL failure in script: User gate has no permissions to run the 'set' command script: on @user_script:1.",
        ])
    func promotion(_ line: String) async throws {
        try await withPromotion(rejecting: line) { journal, id, new, cluster, _ in
            let connections = new.connectionCount
            try await Task.sleep(for: .seconds(1))
            expect(journal.end(of: id), equals: .revoked)
            try await eventually("it is repeated") { new.count(of: "EVALSHA") >= 3 }
            let count = new.count(of: "EVALSHA")
            #expect(count <= 40)
            new.dropReplies(to: "EVALSHA")
            try await eventually("the end is repeated") { journal.unrepeated.isEmpty }
            // The server has it now.
            expect(journal.end(of: id), equals: nil)
            #expect(new.count(of: "EVALSHA") > count)
            expect(new.connectionCount, equals: connections)
            expect(cluster.trust.areTrusted(HashSlot.all))
        }
    }

    @Test("A gateway that stops does not repeat its writes any more")
    func stop() async throws {
        try await withPromotion(rejecting: "-NOREPLICAS x") { journal, id, new, _, repeating in
            try await eventually("it is repeated") { new.count(of: "EVALSHA") > 2 }
            let start = ContinuousClock.now
            repeating.cancel()
            await repeating.value
            #expect(ContinuousClock.now - start < .seconds(20))
            let count = new.count(of: "EVALSHA")
            try await Task.sleep(for: .milliseconds(1_500))
            expect(new.count(of: "EVALSHA"), equals: count)
            expect(journal.end(of: id), equals: .revoked)
        }
    }

    @Test("Rule 24: ends for which the time limit leaves no time are repeated after it")
    func limit() async throws {
        try await withValkeyStore { store, server in
            for number in UInt64(1)...1_000 { store.journal.ended(SessionID(number), reason: .revoked) }
            let sent = Mutex(0)
            let reassertion = WriteReassertion(
                journal: store.journal, keys: store.keys,
                log: DurabilityLog(RecordedLog().logger, SessionStoreCallbacks()))
            // A slow server that has everything.
            await reassertion.serverReplaced([HashSlot.all]) { commands in
                sent.withLock { $0 += commands.count }
                try? await Task.sleep(for: .milliseconds(600))
                return commands.map { _ in .success(.integer(0)) }
            }
            let count = sent.withLock { $0 }
            #expect(count < 1_000)
            // The newest come first. The store repeats the others by itself.
            try await eventually("the others are repeated") { store.journal.unrepeated.isEmpty }
            for number in UInt64(1)...UInt64(1_000 - count) {
                try await expect(store.read(SessionID(number)), equals: .ended(.revoked))
            }
            try await expect(
                server.ask("EXISTS", .text(store.keys.ended(SessionID(1)))), equals: .integer(1))
        }
    }

    @Test("Rule 75: a session without a record ends only if the server keeps the reason, or is full")
    func reasonWithoutRecord() async throws {
        try await withValkeyStore { store, server in
            func remove() async throws -> RecordRemovalResult {
                try await store.remove(SessionID(1), reason: .revoked, condition: nil, now: Self.start)
            }
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            await #expect(throws: SessionStoreError(.unavailable)) { try await remove() }
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
            try await server.ask("CONFIG", "SET", "maxmemory", "1")
            try await expect(remove(), equals: .notFound)
            try await expect(store.read(SessionID(1)), equals: .none)
            try await server.ask("CONFIG", "SET", "maxmemory", "0")
            for _ in 0..<2 { try await expect(remove(), equals: .notFound) }
            try await expect(store.read(SessionID(1)), equals: .ended(.revoked))
        }
    }

    @Test("A cutoff whose time is unknown is neither in effect nor absent until the server has it")
    func requestedCutoff() async throws {
        try await withReplica { gateway, server in
            let store = gateway.records
            let key = store.keys.cutoff(.account(7))
            store.journal.cutoffRequested(
                CutoffRequest(key: key, kept: nil, lifetime: .seconds(600)), sentAt: .now - .seconds(1))
            try await expect(store.cutoffs([.account(7)], now: Self.start), equals: [nil])
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            try await server.ask("CLIENT", "KILL", "TYPE", "normal")
            try await gateway.changes.time(of: .up, count: 2)
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.cutoffs([.account(7)], now: Self.start)
            }
            try await expect(store.cutoffs([.account(6)], now: Self.start), equals: [nil])
            try await server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
            try await eventually("it is repeated") { store.journal.unrepeated.isEmpty }
            let cutoff = try await store.cutoffs([.account(7)], now: Self.start).first ?? nil
            expect(cutoff?.request != nil)
        }
    }

    @Test("Ends stay in the journal beyond their age while a server may lack them, and records do not")
    func age() {
        let (start, later) = (ContinuousClock.now, ContinuousClock.now + WriteJournal.lifetime * 2)
        let slot = HashSlot.slot(of: "p:{\(SessionID(1))}:session")
        let record = JournaledRecord(.sample(2), lifetime: .seconds(900), fields: [])
        journal.saved(record, now: start)
        journal.ended(SessionID(1), reason: .revoked, now: start)
        expect(empty: journal.entries(now: later))
        journal.didRepeat([HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: [slot])
        journal.ended(SessionID(3), reason: .revoked, now: later)
        expect(journal.entries(now: later).count, equals: 2)
        expect(journal.end(of: SessionID(1)), equals: .revoked)
        // In another slot.
        expect(journal.end(of: SessionID(3)), equals: nil)
        expect(!journal.hasRecords(in: [HashSlot.all], now: later))
        journal.didRepeat([HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: [])
        expect(journal.entries(now: later).count, equals: 1)
        expect(journal.end(of: SessionID(1)), equals: nil)
    }

    @Test("A repetition that ends late does not hide that a later one has failed")
    func overtaken() {
        let slot = HashSlot.slot(of: "p:{\(SessionID(1))}:session")
        let first = journal.willRepeat([HashSlot.all])
        journal.didRepeat([HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: [slot])
        journal.didRepeat([HashSlot.all], first, unwritten: [])
        expect(journal.unrepeated, equals: [Int(slot)..<(Int(slot) + 1)])
    }

    @Test("Rule 24: a reply that was requested before a repetition is completed with the journal after it")
    func repeatedMeanwhile() {
        let slot = HashSlot.slot(of: "p:{\(SessionID(1))}:session")
        let before = journal.repetition(of: Int(slot))
        journal.ended(SessionID(1), reason: .revoked)
        expect(journal.end(of: SessionID(1), since: before), equals: nil)
        journal.didRepeat([HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: [])
        expect(journal.end(of: SessionID(1), since: before), equals: .revoked)
        expect(journal.end(of: SessionID(1), since: journal.repetition(of: Int(slot))), equals: nil)
    }

    @Test("Rule 24: a reply that was requested during the repetition that is accepted is completed with the journal")
    func repeatedJustNow() throws {
        let (journal, keys) = (WriteJournal(), ValkeyKeys(prefix: "p"))
        let (id, key, mark) = (SessionID(1), keys.cutoff(.account(7)), MarkKey(.usedLogin, hash: 1))
        let slots = [keys.session(id), key, keys.mark(mark)].map(HashSlot.slot(of:))
        let cutoff = try require(JournaledCutoff(key: key, stored: "70 - -", lifetime: .seconds(600)))
        let time = WallTime(milliseconds: 5)
        journal.ended(id, reason: .revoked)
        journal.cutoffSet(cutoff)
        journal.marked(mark, at: time, lifetime: .seconds(600))
        journal.didRepeat([HashSlot.all], journal.willRepeat([HashSlot.all]), unwritten: Set(slots))
        let number = journal.willRepeat([HashSlot.all])
        // The server replies without these writes, then accepts them. The reply is used after that.
        let starts = slots.map { journal.repetition(of: Int($0)) }
        journal.didRepeat([HashSlot.all], number, unwritten: [])
        expect(journal.end(of: id, since: starts[0]), equals: .revoked)
        expect(journal.cutoff(key, since: starts[1]).set, equals: cutoff)
        expect(journal.mark(mark, since: starts[2]), equals: time)
        let later = slots.map { journal.repetition(of: Int($0)) }
        expect(journal.end(of: id, since: later[0]), equals: nil)
        expect(journal.cutoff(key, since: later[1]).set, equals: nil)
        expect(journal.mark(mark, since: later[2]), equals: nil)
    }

    @Test("A cutoff that the server lacks completes the one that it has")
    func cutoffs() throws {
        let key = "p:{a1}:cutoff"
        let id = SessionID(5)
        let own = try require(JournaledCutoff(key: key, stored: "70 \(id) 9 60", lifetime: .seconds(9)))
        for (stored, expected) in [
            (nil, SessionCutoff(time: 70, kept: id, createdBefore: SessionTime(milliseconds: 9))),
            ("x", SessionCutoff(time: 70, kept: id, createdBefore: SessionTime(milliseconds: 9))),
            ("60 - 5", SessionCutoff(time: 70, createdBefore: SessionTime(milliseconds: 9))),
            ("80 - 10", SessionCutoff(time: 80, createdBefore: SessionTime(milliseconds: 10))),
            (
                "80 - - r90:-",
                SessionCutoff(
                    time: 80, createdBefore: SessionTime(milliseconds: 9),
                    request: SessionCutoff.Request(time: 90, kept: nil))
            ),
        ] {
            expect(own.completing(stored), equals: expected, "\(stored ?? "none")")
        }
    }

    @Test("A released lease and a save that has failed are not repeated later")
    func taken() async throws {
        let (journal, keys) = (WriteJournal(), ValkeyKeys(prefix: "p"))
        let save = try require(journal.saved(JournaledRecord(.sample(), lifetime: .seconds(900), fields: [])))
        journal.leased(SessionID(2), fence: 1, for: .seconds(30))
        let entries = journal.entries()
        func count() -> Int {
            var calls = ReassertionCalls(entries, keys: keys, slots: [HashSlot.all], journal: journal)
            return calls.next(10).count
        }
        expect(count(), equals: 2)
        journal.released(SessionID(2), fence: 1)
        expect(count(), equals: 1)
        journal.rejected(save)
        expect(count(), equals: 0)
    }
}
