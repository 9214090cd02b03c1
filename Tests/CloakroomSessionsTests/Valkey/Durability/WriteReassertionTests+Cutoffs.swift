import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// Cutoffs that are set again.
extension WriteReassertionTests {
    @Test("Rule 24: a cutoff that was lost also ends a session that a later one has kept meanwhile")
    func lostEarlierCutoff() async throws {
        try await withValkeyStore { store, server in
            let key = "cloakroom:{a1}:cutoff"
            store.journal.cutoffSet(
                try require(JournaledCutoff(key: key, stored: "70 00ff - 60", lifetime: .seconds(600))))
            let values = [
                ("80 00fe 5 70", "80 - 5"), ("80 00fe - 71", "80 00fe - 71"), ("80 00ff - 60", "80 00ff - 60"),
                ("80 00fe -", "80 00fe -"), ("80 - -", "80 - -"), ("70 00fe - 9", "70 00fe - 9"),
                // The later one is the one that was lost.
                ("60 - 5", "70 - 5"), ("59 00fe -", "70 00ff - 60"), ("60 00ff - 60", "70 00ff - 60"),
                ("0 - 5", "70 00ff 5 60"), ("x", "70 00ff - 60"),
                // A request counts only while it is later, and takes no session from a later cutoff.
                ("0 - 5 r65:-", "70 00ff 5 60"), ("60 - 5 r75:00fe", "70 - 5 r75:00fe"),
                ("80 00fe 5 70 r90:-", "80 - 5 r90:-"),
            ]
            for (stored, expected) in values {
                try await server.ask("SET", .text(key), .text(stored))
                try await reassert(store, on: server)
                try await expect(server.ask("GET", .text(key)).text, equals: expected, "\(stored)")
                try await expect(reassert(store, on: server)[.cutoff, default: 0], equals: 0, "\(stored)")
            }
        }
    }

    @Test("Rule 24: cutoffs that are set again in any order end exactly the sessions that one of them has ended")
    func anyOrder() async throws {
        try await withValkeyStore { store, server in
            let key = "cloakroom:{a1}:cutoff"
            for seed in 0..<80 as Range<UInt64> {
                var random = SeededGenerator(seed: seed)
                let births = ["00fe", "00ff"].map {
                    (id: $0, birth: [5, 15, 25, 35].randomElement(using: &random) ?? 5)
                }
                let cutoffs = [10, 20, 30].map { time in
                    (time: time, kept: Bool.random(using: &random) ? births.randomElement(using: &random) : nil)
                }
                let values = cutoffs.shuffled(using: &random).map { cutoff in
                    "\(cutoff.time) " + (cutoff.kept.map { "\($0.id) - \($0.birth)" } ?? "- -")
                }
                let request = "\([12, 22, 28].randomElement(using: &random) ?? 12)"
                let place = Int.random(in: 0..<3, using: &random)
                try await server.ask("DEL", .text(key))
                let merged = WriteJournal()
                for (number, stored) in values.enumerated() {
                    let one = try require(JournaledCutoff(key: key, stored: stored, lifetime: .seconds(600)))
                    merged.cutoffSet(one)
                    if number == place {
                        _ = try await store.run(
                            ReassertionScripts.cutoffRequest, [key], [.text(request), "-", "600000"])
                    }
                    _ = try await store.run(
                        ReassertionScripts.cutoff, [key],
                        [
                            .text(String(one.time)), .text(one.kept), "-", "600000",
                            .text(one.keptBirth.map(String.init) ?? ""),
                        ])
                }
                let result = try await require(server.ask("GET", .text(key)).text)
                let fields = result.split(separator: " ")
                expect(fields.count < 5 && fields.first == "30", "\(seed): \(result)")
                for (id, birth) in births {
                    let isEnded = cutoffs.contains { birth <= $0.time && $0.kept?.id != id }
                    expect(birth <= 30 && fields[1] != id, equals: isEnded, "\(seed): \(values) make \(result)")
                }
                let journaled = try require(merged.entries().first?.write.cutoff)
                expect(journaled.time == 30 && journaled.kept == String(fields[1]), "\(seed)")
            }
        }
    }

    /// The cutoff of account 7 by the server's time.
    private func cutoff(_ store: ValkeyRecordStore) async throws -> SessionCutoff? {
        try await store.cutoffs([.account(7)], now: Self.start).first ?? nil
    }

    @Test("A cutoff without a result is set by the time at which it was sent, and ends no session that began later")
    func unknownCutoff() async throws {
        try await withValkeyStore { store, server in
            let index = RecordIndex.account(7)
            let key = store.keys.cutoff(index)
            for number in UInt64(1)...3 { _ = try await store.insert(.sample(number)) }
            var births: [Int64] = []
            for (number, age) in [(UInt64(1), Int64(10)), (2, 3), (3, 10)] {
                let field = ValkeyCommand.Part.text(store.keys.session(SessionID(number)))
                let born = try await require(server.ask("HGET", field, "b").text.flatMap { Int64($0) })
                births.append(born - age * 1_000_000)
                try await server.ask("HSET", field, "b", .integer(births[births.count - 1]))
            }
            let request = CutoffRequest(key: key, kept: SessionID(3), lifetime: .seconds(600))
            store.journal.cutoffRequested(request, sentAt: .now - .seconds(5))
            try await expect(reassert(store, on: server)[.cutoff], equals: 1)
            for _ in 0..<2 {
                let set = try await require(cutoff(store))
                let time = try require(set.request?.time)
                // About 6 s ago.
                expect((births[0] + 1...births[1] - 1).contains(time))
                expect(set.time, equals: 0)
                for (number, isEnded) in [(UInt64(1), true), (2, false), (3, false)] {
                    let record = try await require(store.read(SessionID(number)).record)
                    expect(set.ends(record, in: index), equals: isEnded)
                }
                // Later, it still counts from when it was sent.
                try await Task.sleep(for: .milliseconds(300))
                try await reassert(store, on: server)
            }
            // A later cutoff keeps a session that began before the request.
            try await store.setCutoff(
                index, keeping: KeptSession(id: SessionID(2), birth: births[1]), before: nil, lifetime: .seconds(600),
                now: Self.start)
            let later = try await cutoff(store)
            expect(later?.kept, equals: SessionID(2))
            store.journal.cutoffRequested(request, sentAt: .now - .seconds(2))
            try await reassert(store, on: server)
            try await expect(cutoff(store), equals: later)
            // Also if it is set again before that one.
            store.journal.cutoffRequested(request, sentAt: .now - .seconds(1))
            try await server.ask("SET", .text(key), "0 - - r\(births[1] + 1):-")
            try await reassert(store, on: server)
            try await expect(cutoff(store), equals: later)
        }
    }

    @Test("A request does not replace what is stored, and a cutoff that is set after it does")
    func cutoffRequests() async throws {
        try await withValkeyStore { store, server in
            let index = RecordIndex.account(7)
            let key = store.keys.cutoff(index)
            func request(_ time: Int64, _ kept: String) async throws -> Bool {
                let arguments: [ValkeyCommand.Part] = [.integer(time), .text(kept), "600000"]
                return try await store.run(ReassertionScripts.cutoffRequest, [key], arguments) == .integer(1)
            }
            try await expect(request(50, "-"))
            try await expect(server.ask("GET", .text(key)).text, equals: "0 - - r50:-")
            let id = "\(SessionID(9))"
            for (stored, time, expected) in [
                ("40 - 5", Int64(50), "40 - 5 r50:\(id)"), ("40 \(id) - 3", 50, "40 \(id) - 3 r50:\(id)"),
                ("40 - - r45:-", 50, "40 - - r50:\(id)"), ("40 - - r55:-", 50, "40 - - r55:-"),
                ("50 - -", 50, "50 - -"), ("x", 50, "0 - - r50:\(id)"),
            ] {
                try await server.ask("SET", .text(key), .text(stored))
                _ = try await request(time, id)
                try await expect(server.ask("GET", .text(key)).text, equals: expected, "\(stored)")
            }
            // A session that the request has ended is not kept.
            for (birth, kept) in [(Int64(50), nil), (51, SessionID(8))] {
                try await server.ask("SET", .text(key), "40 - 5 r50:\(id)")
                try await store.setCutoff(
                    index, keeping: nil, before: SessionTime(milliseconds: 6), lifetime: .seconds(9), now: Self.start)
                try await expect(server.ask("GET", .text(key)).text, equals: "40 - 6 r50:\(id)")
                try await store.setCutoff(
                    index, keeping: KeptSession(id: SessionID(8), birth: birth), before: nil, lifetime: .seconds(9),
                    now: Self.start)
                let cutoff = try await cutoff(store)
                expect(cutoff?.kept, equals: kept)
                expect(cutoff?.request, equals: nil)
                expect(cutoff?.createdBefore, equals: SessionTime(milliseconds: 6))
            }
        }
    }

    @Test("Rule 24: a cutoff whose result is unknown is repeated")
    func uncertainCutoff() async throws {
        try await withReplica(configure: { $0.timeout = .seconds(2) }) { replica, server in
            let store = replica.records
            server.freeze()
            // Both are sent before the connection is given up.
            let results = await withTaskGroup(of: Bool.self) { group in
                for (index, before) in [(RecordIndex.account(7), nil), (.account(8), SessionTime(milliseconds: 5))] {
                    group.addTask {
                        let result: Void? = try? await store.setCutoff(
                            index, keeping: nil, before: before, lifetime: .seconds(600), now: Self.start)
                        return result == nil
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            expect(results, equals: [true, true])
            let keys = store.journal.entries().compactMap { entry -> String? in
                switch entry.write {
                case .cutoffRequest(let request): request.key
                case .cutoff(let cutoff): "\(cutoff.key) \(cutoff.time) \(cutoff.createdBefore ?? 0)"
                default: nil
                }
            }
            expect(
                Set(keys), equals: [store.keys.cutoff(.account(7)), "\(store.keys.cutoff(.account(8))) 0 5"])
            try await replica.isDown()
            server.thaw()
            try await replica.isUp()
            // It may also have been executed; the server does not have it any more.
            try await server.ask("FLUSHALL")
            try await reassert(store, on: server)
            let cutoff = try await require(cutoff(store))
            expect(cutoff.request != nil)
            expect(cutoff.request?.kept == nil && cutoff.time == 0)
            try await store.setCutoff(
                .account(7), keeping: nil, before: nil, lifetime: .seconds(600), now: Self.start)
            expect(
                !store.journal.entries().contains {
                    if case .cutoffRequest = $0.write { true } else { false }
                })
        }
    }

    @Test("Rule 24: writes whose script the user may not run do not hold up those of other scripts")
    func permissions() async throws {
        let (keys, recorded) = (ValkeyKeys(prefix: "p"), RecordedLog())
        let journal = WriteJournal(keys: keys)
        let reassertion = WriteReassertion(
            journal: journal, keys: keys, log: DurabilityLog(recorded.logger, SessionStoreCallbacks()))
        let key = keys.cutoff(.account(7))
        journal.cutoffSet(
            JournaledCutoff(key: key, createdBefore: SessionTime(milliseconds: 1), lifetime: .seconds(600)))
        journal.saved(JournaledRecord(.sample(1_001), lifetime: .seconds(900), fields: [], indexes: ["p:i"]))
        // Newer than the cutoff, and more than a batch.
        let ends = (UInt64(1)...1_000).map { SessionID($0) }
        for id in ends { journal.ended(id, reason: .revoked) }
        let slots = Set(ends.map { HashSlot.slot(of: keys.session($0)) })
        try require(!slots.contains(HashSlot.slot(of: key)))
        let sent = Mutex<[String: Int]>([:])
        await reassertion.serverReplaced([HashSlot.all]) { commands in
            commands.map { command in
                let text = String(buffer: command.encoded)
                for (name, script) in [
                    ("end", ReassertionScripts.end), ("cutoff", ReassertionScripts.cutoff),
                    ("record", ReassertionScripts.record), ("index", ReassertionScripts.index),
                ] where text.contains(script.name) {
                    sent.withLock { $0[name, default: 0] += 1 }
                    if name == "end" { return .failure(.rejected(RESPError(line: "NOPERM x"))) }
                }
                return .success(.integer(1))
            }
        }
        expect(
            sent.withLock { $0 },
            equals: ["end": WriteReassertion.commandsAtOnce, "cutoff": 1, "record": 1, "index": 1])
        expect(Set(journal.unrepeated.joined()), equals: Set(slots.map(Int.init)))
        expect(recorded.lines("reason", "noperm").map { $0["unwritten"] }, equals: ["1000"])
        expect(recorded.lines("reason", "noperm").map { $0["cutoff"] }, equals: ["1"])
    }
}
