import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// A single server whose replies to the scripts of the store are none that these return.
@Suite("Hostile replies to a sign-in", .timeLimit(.minutes(3)))
struct HostileStoreTests {
    private static let start = SessionRecord.start

    private func withStore(_ body: (ScriptedNode, Replica) async throws -> Void) async throws {
        try await ScriptedNode.with(mode: "standalone") { node in
            let replica = try await Replica.up(
                ValkeyConfiguration(addresses: [node.address], topology: .single, replicas: 0))
            try await stopping {
                await replica.stop()
            } after: {
                try await body(node, replica)
            }
        }
    }

    /// The reply to the script that lists sessions.
    private static func listed(_ total: String, _ ids: [UInt64]) -> String {
        (["*\(ids.count + 1)", ":\(total)"] + ids.flatMap { ["$16", "\(SessionID($0))"] }).joined(separator: "\r\n")
    }

    private static let rule = SurplusRule(
        limit: 20, accounts: [7], usedAfter: start - .seconds(900), new: SessionID(1_000))

    @Test(
        "A number of sessions that no server can have, and ids that are listed twice, are errors",
        arguments: [
            listed("9223372036854775807", Array(1...32)), listed("4294967296", Array(1...32)),
            listed("-9223372036854775808", Array(1...32)), listed("20", Array(1...20)), listed("0", []),
            listed("100", Array(1...33)), listed("21", Array(1...22)), listed("100", Array(1...31) + [1]),
            "*1\r\n$2\r\n21", "*1\r\n_", ":1", "+OK", "_",
        ])
    func totals(_ reply: String) async throws {
        try await withStore { node, replica in
            node.reply(to: "EVALSHA", reply)
            for number in 1...40 { node.reply(to: "HMGET", Self.candidate(number)) }
            let error = await #expect(throws: SessionStoreError.self) {
                try await replica.records.surplus(of: 7, by: Self.rule, now: Self.start)
            }
            expect(error?.reason, equals: .protocolError)
            expect(node.count(of: "HMGET"), equals: 0)
        }
    }

    /// An active session of the account, as the script's ids are read.
    private static func candidate(_ number: Int) -> String {
        let values = ["7", "\(start.milliseconds + Int64(number))", "\(Int64.max)", "\(start.milliseconds)"]
        return (["*4"] + values.flatMap { ["$\($0.utf8.count)", $0] }).joined(separator: "\r\n")
    }

    @Test(
        "The greatest number that a server can have, and members that are no ids, are no errors",
        arguments: [("21", 21, 1), ("100", 32, 10), ("4294967295", 32, 16)])
    func greatest(_ total: String, _ count: Int, _ chosen: Int) async throws {
        try await withStore { node, replica in
            node.reply(to: "EVALSHA", Self.listed(total, Array(1...UInt64(count))))
            for number in 1...count { node.reply(to: "HMGET", Self.candidate(number)) }
            let surplus = try await replica.records.surplus(of: 7, by: Self.rule, now: Self.start)
            expect(surplus, equals: .records((1...UInt64(chosen)).map { SessionID($0) }))
            node.reply(to: "EVALSHA", "*4\r\n:21\r\n$5\r\nother\r\n_\r\n$16\r\nzzzzzzzzzzzzzzzz", "*0")
            try await expect(replica.records.surplus(of: 7, by: Self.rule, now: Self.start), equals: .none)
            try await expect(replica.records.surplus(of: 7, by: Self.rule, now: Self.start), equals: .none)
        }
    }

    private static func key(_ number: UInt64) -> String { "0000000\(number)" + String(repeating: "k", count: 24) }

    /// A record of the account 7 in a listing.
    private static func record(_ number: UInt64, client: Int) -> String {
        let values: [String?] = [
            key(number), "7", nil, nil, "0", "\(Int64.max)", "0", "1", String(repeating: "o", count: client), nil, nil,
            nil,
        ]
        let parts = values.map { $0.map { "$\($0.utf8.count)\r\n\($0)" } ?? "_" }
        return (["*12"] + parts).joined(separator: "\r\n")
    }

    @Test("Rule 77: a listing asks for no tokens, and ends with a record that is too large, or too many bytes of all")
    func listings() async throws {
        try await withStore { node, replica in
            func list(client: Int, limit: Int? = nil) async throws -> Int {
                let ids = (0..<10).compactMap { SessionKey(bytes: Array(Self.key($0).utf8))?.id }
                node.reply(to: "ZRANGE", "*10\r\n" + ids.map { "$16\r\n\($0)" }.joined(separator: "\r\n"))
                node.dropReplies(to: "HMGET")
                for number in 0..<10 as Range<UInt64> { node.reply(to: "HMGET", Self.record(number, client: client)) }
                var store = replica.records
                if let limit { store.listingLimit = limit }
                return try await store.records(in: .account(7), now: Self.start).count
            }
            try await expect(list(client: 1_000), equals: 10)
            expect(node.count(of: "HGETALL"), equals: 0)
            expect(node.commands.allSatisfy { $0[0] != "HMGET" || !$0.contains("d") })
            let error = await #expect(throws: SessionStoreError.self) { try await list(client: 1_000, limit: 10_000) }
            expect(error?.reason, equals: .protocolError)
            let connections = node.connectionCount
            await #expect(throws: SessionStoreError.self) { try await list(client: 5_000) }
            try await eventually("the connection was replaced") { node.connectionCount > connections }
        }
    }

    @Test("Times at the ends of their range overflow nothing")
    func times() async throws {
        try await withStore { node, replica async throws in
            node.reply(to: "EVALSHA", Self.listed("21", Array(1...21)))
            for time in [Int64.min, Int64.max] {
                let text = String(time)
                let values = ["7", text, text, text].flatMap { ["$\($0.utf8.count)", $0] }
                for _ in 0..<11 { node.reply(to: "HMGET", (["*4"] + values).joined(separator: "\r\n")) }
            }
            try await expect(replica.records.surplus(of: 7, by: Self.rule, now: Self.start), equals: .none)
        }
    }

    @Test(
        "Whatever is no record is an error for the session, and nothing is written",
        arguments: [
            "-WRONGTYPE Operation against a key holding the wrong kind of value", "+OK", ":1", "_",
            "*2\r\n$1\r\nk\r\n$1\r\nx", "*1\r\n$1\r\nk",
        ])
    func noRecord(_ reply: String) async throws {
        try await withStore { node, replica in
            let store = SealedSessionStore(
                replica.records, configuration: Sample.configuration, secrets: Sample.secrets)
            var generator = SystemRandomNumberGenerator()
            let ticket = SessionTicket(using: &generator)
            node.reply(to: "HGETALL", reply)
            let error = await #expect(throws: SessionStoreError.self) { try await store.load(ticket, now: Self.start) }
            expect(error?.reason, equals: .protocolError)
            expect(node.count(of: "EVALSHA"), equals: 0)
        }
    }

    @Test("A reply that a script never returns proves no end: not for a lease, a save, a sign-out or a reason")
    func oddReplies() async throws {
        try await withStore { node, replica in
            let (records, record) = (replica.records, SessionRecord.sample(1, version: 2))
            func check(_ operation: () async throws -> Void) async {
                let error = await #expect(throws: SessionStoreError.self) { try await operation() }
                expect(error?.reason, equals: .protocolError)
            }
            for odd in ["+OK", ":-1", "#t"] {
                node.reply(to: "EVALSHA", odd)
                await check { _ = try await records.lease(record.id, for: .seconds(1), now: Self.start) }
                node.reply(to: "EVALSHA", "$16\r\n1700000000000000", odd)
                await check { _ = try await records.replace(record, fence: nil, now: Self.start) }
                node.reply(to: "EVALSHA", odd)
                await check {
                    _ = try await records.remove(record.id, reason: .signedOut, condition: nil, now: Self.start)
                }
            }
            node.reply(to: "HGETALL", "*0")
            node.reply(to: "GET", ":1")
            await check { _ = try await records.read(record.id) }
        }
    }

    /// A sign-in at a server whose replies to the script that inserts a record are these.
    private func signIn(_ insertions: [String], _ node: ScriptedNode, _ replica: Replica) async -> SessionStoreError? {
        let store = SealedSessionStore(replica.records, configuration: Sample.configuration, secrets: Sample.secrets)
        for insertion in insertions { node.reply(to: "EVALSHA", "*2\r\n$16\r\n1700000000000000\r\n:0", insertion) }
        do throws(SessionStoreError) {
            _ = try await store.create(Sample.new(1), now: Sample.start)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "Anything but the time of an entry and whether there are too many is an error: no record is inserted",
        arguments: [
            "$16\r\n1700000000000000", "*1\r\n$1\r\n1", "*2\r\n$1\r\nx\r\n:0", "*2\r\n_\r\n:0", "*0", "_", ":1",
        ])
    func oddEntries(_ reply: String) async throws {
        try await withStore { node, replica in
            let store = SealedSessionStore(
                replica.records, configuration: Sample.configuration, secrets: Sample.secrets)
            node.reply(to: "EVALSHA", reply)
            let error = await #expect(throws: SessionStoreError.self) {
                try await store.create(Sample.new(1), now: Sample.start)
            }
            expect(error?.kind, equals: .unavailable)
            expect(node.count(of: "EVALSHA"), equals: 1)
            expect(empty: replica.records.journal.entries())
        }
    }

    @Test("A server that reports each id as taken gets three, and then the sign-in fails")
    func takenIds() async throws {
        try await withStore { node, replica in
            let error = await signIn(Array(repeating: ":0", count: 100), node, replica)
            expect(error?.kind, equals: .unavailable)
            expect(error?.reason, equals: .protocolError)
            // Each time the index and the record.
            expect(node.count(of: "EVALSHA"), equals: 6)
            expect(node.count(of: "ZREM"), equals: 3)
            expect(empty: replica.records.journal.entries())
        }
        try await withStore { node, replica in
            await expect(signIn([":0", ":0", ":1"], node, replica), equals: nil)
        }
    }

    @Test(
        "Anything but 0 or 1 as the result of an insertion is an error: nothing is sent again",
        arguments: [":2", ":-1", "+OK", "$1\r\n0", "_", "*0"])
    func oddInsertions(_ reply: String) async throws {
        try await withStore { node, replica in
            await expect(signIn([reply, ":1"], node, replica)?.reason, equals: .protocolError)
            expect(node.count(of: "EVALSHA"), equals: 2)
            expect(node.count(of: "ZREM"), equals: 0)
            expect(empty: replica.records.journal.entries())
        }
    }
}
