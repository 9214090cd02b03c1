import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// A failover is simulated by restoring the state that a replica without the last writes would have.
@Suite("Writes repeated after a failover", .serialized, .timeLimit(.minutes(3)))
struct WriteReassertionTests {
    static let start = SessionRecord.start
    private let id = SessionID(1)

    /// Repeats what a store has written, as after a failover.
    /// - Returns: The numbers of writes that the server did not have.
    @discardableResult
    func reassert(
        _ store: ValkeyRecordStore, on server: RedisServer, slots: [Range<Int>] = [HashSlot.all],
        log: RecordedLog = RecordedLog()
    ) async throws -> [ReassertedWrite: Int] {
        let counts = Recorded<(ReassertedWrite, Int)>()
        let connection = try await ValkeyConnection.connect(
            host: "127.0.0.1", port: server.port,
            options: ValkeyConnection.Options(timeout: .seconds(10), tls: nil, serverName: nil, disconnectCodes: []),
            on: MultiThreadedEventLoopGroup.singleton.any())
        defer { connection.close(.closed) }
        let events = SessionStoreCallbacks(onReassertedWrites: { counts.append(($0, $1)) })
        await WriteReassertion(journal: store.journal, keys: store.keys, log: DurabilityLog(log.logger, events))
            .serverReplaced(slots) { await connection.send($0) }
        return Dictionary(counts.all, uniquingKeysWith: +)
    }

    @Test("Rule 24: a session whose end was lost ends again, with its reason")
    func lostEnd() async throws {
        try await withValkeyStore { store, server in
            let key = store.keys.session(id)
            _ = try await store.insert(.sample())
            try await server.ask("COPY", .text(key), "backup")
            _ = try await store.remove(id, reason: .signedOut, condition: nil, now: Self.start)
            try await server.ask("DEL", .text(store.keys.ended(id)))
            try await server.ask("RENAME", "backup", .text(key))
            try await expect(store.read(id), equals: .record(.sample()))
            let log = RecordedLog()
            let counts = try await reassert(store, on: server, log: log)
            try await expect(store.read(id), equals: .ended(.signedOut))
            expect(counts[.end], equals: 1)
            expect(log.lines("end", "1").first?["message"], equals: "session store lost writes, which were repeated")
            // The server has them now.
            try await expect(reassert(store, on: server)[.end, default: 0], equals: 0)
        }
    }

    @Test("A saved record replaces an older version only")
    func lostUpdate() async throws {
        try await withValkeyStore { store, server in
            let key = store.keys.session(id)
            _ = try await store.insert(.sample())
            try await server.ask("COPY", .text(key), "backup")
            _ = try await store.lease(id, for: .seconds(30), now: Self.start)
            try await expect(store.replace(.sample(version: 2), fence: 1, now: Self.start), equals: .done)
            try await store.release(id, fence: 1)
            try await server.ask("RENAME", "backup", .text(key))
            try await expect(store.read(id), equals: .record(.sample()))
            let counts = try await reassert(store, on: server)
            try await expect(store.read(id), equals: .record(.sample(version: 2)))
            expect(counts[.update], equals: 1)
            try await expect(server.ask("HGET", .text(key), "f").text, equals: "1")
            try await expect(reassert(store, on: server)[.update, default: 0], equals: 0)
            // Another gateway has saved a later version meanwhile.
            try await server.ask("HSET", .text(key), "v", "3", "d", "later")
            try await expect(reassert(store, on: server)[.update, default: 0], equals: 0)
            try await expect(server.ask("HGET", .text(key), "d").text, equals: "later")
            // The record of another session is not touched.
            try await server.ask("HSET", .text(key), "v", "1", "k", "other")
            try await expect(reassert(store, on: server)[.update, default: 0], equals: 0)
        }
    }

    @Test("A save without a result is repeated, a rejected one is not, and neither is an insertion without a result")
    func uncertainSave() async throws {
        try await withValkeyStore { store, server in
            for number in UInt64(1)...2 {
                _ = try await store.insert(.sample(number))
                _ = try await store.lease(SessionID(number), for: .seconds(30), now: Self.start)
            }
            // A later lease makes this save invalid.
            try await server.ask("HSET", .text(store.keys.session(SessionID(2))), "f", "2")
            try await expect(store.replace(.sample(2, version: 2), fence: 1, now: Self.start), equals: .fenced)
            // The scripts of both fail, after the records were entered into their indexes.
            for command in ["-hmget", "-hexists"] { try await server.ask("ACL", "SETUSER", "default", .text(command)) }
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.replace(.sample(version: 2), fence: 1, now: Self.start)
            }
            await #expect(throws: SessionStoreError(.unavailable)) { try await store.insert(.sample(3)) }
            for command in ["+hmget", "+hexists"] { try await server.ask("ACL", "SETUSER", "default", .text(command)) }
            let versions = store.journal.entries().compactMap { entry -> String? in
                if case .record(let record) = entry.write { "\(record.id.value) \(record.version)" } else { nil }
            }
            expect(Set(versions), equals: ["1 2", "2 1"])
            let counts = try await reassert(store, on: server)
            expect(counts[.update], equals: 1)
            try await expect(store.read(id), equals: .record(.sample(version: 2)))
        }
    }

    @Test("A session whose record was lost is there again, and is listed")
    func lostInsertion() async throws {
        try await withValkeyStore { store, server in
            var record = SessionRecord.sample()
            record.provider = 5
            _ = try await store.insert(record)
            try await server.ask("FLUSHALL")
            let counts = try await reassert(store, on: server)
            try await expect(store.read(id), equals: .record(record))
            try await expect(store.records(in: .account(7), now: Self.start), equals: [record.listed])
            try await expect(store.records(in: .providerSession(5), now: Self.start), equals: [record.listed])
            expect(counts[.insert], equals: 1)
            expect(counts[.index], equals: 2)
            expect(counts[.update, default: 0], equals: 0)
            expect((1_100_000...1_200_000).contains(try await server.lifetime(of: store.keys.session(id))))
        }
    }

    @Test("A full server gets back what it has lost")
    func fullServer() async throws {
        try await withValkeyStore { store, server in
            let mark = MarkKey(.endedAtProvider, hash: 1)
            _ = try await store.insert(.sample())
            try await server.ask("COPY", .text(store.keys.session(id)), "backup")
            _ = try await store.insert(.sample(2))
            try await expect(store.setMark(mark, to: Self.start.wallTime, lifetime: .seconds(600), now: Self.start))
            try await store.setCutoff(
                .account(8), keeping: KeptSession(id: SessionID(9), birth: 1), before: nil, lifetime: .seconds(600),
                now: Self.start)
            let cutoffs = try await store.cutoffs([.account(8)], now: Self.start)
            try await expect(store.lease(id, for: .seconds(30), now: Self.start).lease != nil)
            try await expect(store.replace(.sample(version: 2), fence: 1, now: Self.start), equals: .done)
            try await server.ask("RENAME", "backup", .text(store.keys.session(id)))
            for key in [
                store.keys.session(SessionID(2)), store.keys.sessions(of: 7), store.keys.lease(id),
                store.keys.mark(mark), store.keys.cutoff(.account(8)),
            ] { try await server.ask("DEL", .text(key)) }
            try await server.ask("CONFIG", "SET", "maxmemory", "1")
            let counts = try await reassert(store, on: server)
            let kinds: [ReassertedWrite] = [.update, .insert, .lease, .mark, .cutoff]
            for kind in kinds { expect(counts[kind], equals: 1, "\(kind)") }
            expect(counts[.index], equals: 2)
            try await expect(store.read(id), equals: .record(.sample(version: 2)))
            try await expect(store.read(SessionID(2)), equals: .record(.sample(2)))
            #expect(cutoffs.first??.time ?? 0 > 0)
            try await expect(store.cutoffs([.account(8)], now: Self.start), equals: cutoffs)
        }
    }

    @Test("Rule 24: the end of a session wins over its insertion by another gateway, in any order")
    func endWins() async throws {
        try await withReplicas { a, b, server in
            _ = try await a.records.insert(.sample())
            _ = try await b.records.remove(id, reason: .revoked, condition: nil, now: Self.start)
            for order in [[a, b], [b, a]] {
                try await server.ask("FLUSHALL")
                for gateway in order { try await reassert(gateway.records, on: server) }
                try await expect(a.records.read(id), equals: .ended(.revoked))
                try await expect(server.ask("EXISTS", .text(a.records.keys.session(id))), equals: .integer(0))
            }
        }
    }

    @Test("The holder of a lease that was lost has it again, and can save")
    func lostLease() async throws {
        try await withReplicas { a, b, server in
            _ = try await a.records.insert(.sample())
            let lease = try await a.records.lease(id, for: .seconds(30), now: Self.start)
            expect(lease, equals: .acquired(RefreshLease(fence: 1)))
            try await server.ask("FLUSHALL")
            let counts = try await reassert(a.records, on: server)
            expect(counts[.lease], equals: 1)
            try await expect(b.records.lease(id, for: .seconds(30), now: Self.start), equals: .heldByOther)
            try await expect(a.records.replace(.sample(version: 2), fence: 1, now: Self.start), equals: .done)
            try await expect(reassert(a.records, on: server)[.lease, default: 0], equals: 0)
            // A later lease of another gateway stays.
            try await server.ask("DEL", .text(a.records.keys.lease(id)))
            try await expect(
                b.records.lease(id, for: .seconds(30), now: Self.start),
                equals: .acquired(RefreshLease(fence: 2)))
            try await expect(reassert(a.records, on: server)[.lease, default: 0], equals: 0)
            try await expect(server.ask("GET", .text(a.records.keys.lease(id))).text, equals: "2")
        }
    }

    @Test("Lost marks and cutoffs are set again, and later ones stay")
    func lostMarksAndCutoffs() async throws {
        try await withValkeyStore { store, server in
            let mark = MarkKey(.endedAtProvider, hash: 1)
            let time = WallTime(milliseconds: 1_000)
            try await expect(store.setMark(mark, to: time, lifetime: .seconds(600), now: Self.start))
            let cutoff = try require(
                JournaledCutoff(key: "cloakroom:{a1}:cutoff", stored: "70 00ff -", lifetime: .seconds(600)))
            store.journal.cutoffSet(cutoff)
            let counts = try await reassert(store, on: server)
            expect(counts[.mark, default: 0], equals: 0)
            expect(counts[.cutoff], equals: 1)
            try await expect(server.ask("GET", .text(cutoff.key)).text, equals: "70 00ff -")
            try await server.ask("DEL", .text(store.keys.mark(mark)))
            try await server.ask("SET", .text(cutoff.key), "80 - 5")
            let again = try await reassert(store, on: server)
            expect(again[.mark], equals: 1)
            expect(again[.cutoff, default: 0], equals: 0)
            try await expect(store.latestMark([mark], now: Self.start), equals: time)
            try await expect(server.ask("GET", .text(cutoff.key)).text, equals: "80 - 5")
            try await server.ask("SET", .text(store.keys.mark(mark)), "2000")
            try await expect(reassert(store, on: server)[.mark, default: 0], equals: 0)
        }
    }

    @Test("Only the writes of the given slots are repeated")
    func slots() async throws {
        try await withValkeyStore { store, server in
            for number in UInt64(1)...3 { _ = try await store.insert(.sample(number)) }
            try await server.ask("FLUSHALL")
            let slot = Int(HashSlot.slot(of: store.keys.session(SessionID(2))))
            let counts = try await reassert(store, on: server, slots: [0..<1, slot..<(slot + 1)])
            expect(counts[.insert], equals: 1)
            try await expect(store.read(SessionID(2)), equals: .record(.sample(2)))
            try await expect(store.read(SessionID(1)), equals: .none)
        }
    }

    @Test("More writes than fit into a batch are repeated, also those with scripts that the server does not know")
    func batches() async throws {
        try await withValkeyStore { store, server in
            for number in UInt64(1)...700 {
                store.journal.ended(SessionID(number), reason: .revoked)
            }
            try await server.ask("SCRIPT", "FLUSH")
            let counts = try await reassert(store, on: server)
            expect(counts[.end], equals: 700)
            try await expect(store.read(SessionID(1)), equals: .ended(.revoked))
            try await expect(store.read(SessionID(700)), equals: .ended(.revoked))
        }
    }

    @Test("Slots that are repeated one after the other cost no more than all at once")
    func slotBySlot() async {
        let (keys, count) = (ValkeyKeys(prefix: "p"), UInt64(20_000))
        let journal = WriteJournal()
        for number in 1...count {
            if number % 10 > 0 {
                journal.ended(SessionID(number), reason: .revoked)
            } else {
                let record = SessionRecord.sample(number, account: number)
                journal.saved(
                    JournaledRecord(
                        record, lifetime: .seconds(900), fields: RecordEncoding.parts(record),
                        indexes: keys.indexes(of: record), indexLifetime: .seconds(900)))
            }
        }
        let reassertion = WriteReassertion(
            journal: journal, keys: keys, log: DurabilityLog(RecordedLog().logger, SessionStoreCallbacks()))
        let sent = Mutex(0)
        let start = ContinuousClock.now
        for slot in HashSlot.all {
            await reassertion.serverReplaced([slot..<(slot + 1)]) { commands in
                sent.withLock { $0 += commands.count }
                return commands.map { _ in .success(.integer(0)) }
            }
        }
        // Each end once, and each record with its index. If each slot visited all writes, there would be 300 million.
        expect(sent.withLock { $0 }, equals: Int(count) + Int(count) / 10)
        #expect(ContinuousClock.now - start < .seconds(60))
    }

    @Test("A server that is lost again ends the repetition, and the log has the number of missing writes")
    func lostAgain() async {
        let journal = WriteJournal()
        for number in UInt64(1)...700 { journal.ended(SessionID(number), reason: .revoked) }
        let log = RecordedLog()
        let calls = Mutex(0)
        let reassertion = WriteReassertion(
            journal: journal, keys: ValkeyKeys(prefix: "p"), log: DurabilityLog(log.logger, SessionStoreCallbacks()))
        await reassertion.serverReplaced([HashSlot.all]) { commands in
            calls.withLock { $0 += 1 }
            return commands.map { _ in .failure(.disconnected) }
        }
        expect(calls.withLock { $0 }, equals: 1)
        expect(log.lines("unwritten", "700").first?["level"], equals: "warning")
        expect(journal.entries().count, equals: 700)
    }

    @Test("A gateway repeats its writes by itself when the server restarts without its data")
    func restart() async throws {
        try await withReplica { gateway, server in
            for number in UInt64(1)...3 { _ = try await gateway.records.insert(.sample(number)) }
            _ = try await gateway.records.remove(id, reason: .signedOut, condition: nil, now: Self.start)
            await server.kill()
            try await gateway.isDown()
            try await server.start()
            try await gateway.isUp()
            try await expect(gateway.records.read(id), equals: .ended(.signedOut))
            try await expect(gateway.records.read(SessionID(2)), equals: .record(.sample(2)))
            try await expect(gateway.records.records(in: .account(7), now: Self.start).count, equals: 2)
            let line = gateway.log.lines("message", "session store lost writes, which were repeated").first
            expect(line?["insert"], equals: "2")
        }
    }

    @Test("Rule 24: a session that was revoked before its replica had it stays ended after the failover")
    func failover() async throws {
        try await withRedis { primary in
            let options = RedisServer.Options(configuration: ["replicaof 127.0.0.1 \(primary.port)"])
            try await withRedis(options) { replica in
                var configuration = ValkeyConfiguration(addresses: [primary.address], timeout: .seconds(10))
                configuration.replicas = 0
                let gateway = try await Replica.up(configuration)
                for number in UInt64(1)...2 { _ = try await gateway.records.insert(.sample(number)) }
                try await eventually("the replica has the sessions") {
                    try await replica.ask("EXISTS", .text(gateway.records.keys.session(SessionID(2)))) == .integer(1)
                }
                // From now on the replica gets no more writes.
                try await replica.ask("REPLICAOF", "NO", "ONE")
                _ = try await gateway.records.remove(id, reason: .revoked, condition: nil, now: Self.start)
                try await expect(
                    gateway.records.replace(.sample(2, version: 2), fence: nil, now: Self.start), equals: .done)
                _ = try await gateway.records.insert(.sample(3))
                await primary.kill()
                let promoted = try await Replica.up(replica)
                try await expect(promoted.records.read(id), equals: .record(.sample()))
                let counts = try await reassert(gateway.records, on: replica)
                expect(counts[.end], equals: 1)
                expect(counts[.update], equals: 1)
                expect(counts[.insert], equals: 1)
                try await expect(promoted.records.read(id), equals: .ended(.revoked))
                try await expect(promoted.records.read(SessionID(2)), equals: .record(.sample(2, version: 2)))
                try await expect(promoted.records.read(SessionID(3)), equals: .record(.sample(3)))
                await gateway.stop()
                await promoted.stop()
            }
        }
    }
}
