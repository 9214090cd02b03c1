import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("A primary that sentinels confirm", .timeLimit(.minutes(3)))
struct SentinelWatchTests {
    /// Sentinels that name the first of two servers, and a client of them.
    private struct Sentinels: Sendable {
        let sentinels: [ScriptedNode]
        let old: ScriptedNode
        let new: ScriptedNode
        let client: ValkeyClient
        let log = RecordedLog()
        let trust = RecordingTrust()
        let unconfirmed = Recorded<Duration>()
        private let running: Task<Void, Never>

        init(count: Int) async throws {
            old = try await ScriptedNode(mode: "standalone")
            new = try await ScriptedNode(mode: "standalone")
            var sentinels: [ScriptedNode] = []
            for _ in 0..<count {
                let sentinel = try await ScriptedNode(mode: "sentinel")
                sentinel.setPrimary(old)
                sentinels.append(sentinel)
            }
            self.sentinels = sentinels
            client = ValkeyClient(
                ValkeyConfiguration(addresses: sentinels.map(\.address), sentinelPrimary: "main", replicas: 0),
                tls: nil, eventLoop: MultiThreadedEventLoopGroup.singleton.any(), logger: log.logger,
                onUnconfirmed: { [unconfirmed] in unconfirmed.append($0) })
            running = Task { [client, trust] in await client.run(trust) }
        }

        /// The port of the server that replies; `nil` if there is none.
        var port: Int? {
            get async {
                guard case .success(.integer(let port))? = await client.send([ValkeyCommand("GET", key: "a")]).first
                else { return nil }
                return Int(port)
            }
        }

        func uses(_ node: ScriptedNode) async throws {
            try await eventually("all slots of the server are trusted") {
                let port = await port
                return port == node.port && trust.areTrusted(HashSlot.all)
            }
        }

        func isDown() async throws {
            try await eventually("no server is used") {
                let port = await port
                return port == nil && !trust.areTrusted(0..<1)
            }
        }

        func stop() async {
            running.cancel()
            await running.value
            for node in sentinels + [old, new] { await node.stop() }
        }
    }

    private func withSentinels(_ count: Int, _ body: (Sentinels) async throws -> Void) async throws {
        let sentinels = try await Sentinels(count: count)
        try await stopping {
            await sentinels.stop()
        } after: {
            try await sentinels.uses(sentinels.old)
            try await body(sentinels)
        }
    }

    @Test("Rule 76: a server that the sentinels have replaced is not used any more, though its connection lives")
    func replaced() async throws {
        try await withSentinels(3) { all in
            all.sentinels[0].setPrimary(all.new)
            all.sentinels[2].setPrimary(all.new)
            let start = ContinuousClock.now
            try await eventually("the connection to the old server is not used") { all.trust.events.count > 1 }
            #expect(ContinuousClock.now - start < SentinelVotes.period)
            expect(all.trust.events[1], equals: .lost([HashSlot.all]))
            try await all.uses(all.new)
            expect(all.trust.events.last, equals: .trusted([HashSlot.all], afterOutage: true))
            expect(all.log.lines("reason", "replaced").map { $0["address"] }, equals: ["\(all.old.address)"])
            expect(all.old.connectionCount == 1 && all.new.connectionCount == 1)
        }
    }

    @Test("One of three sentinels that names another server changes nothing, and each has one connection")
    func minority() async throws {
        try await withSentinels(3) { all in
            all.sentinels[0].setPrimary(all.new)
            let before = all.sentinels.map { $0.count(of: "SENTINEL") }
            try await eventually("each is asked further times") {
                zip(all.sentinels, before).allSatisfy { $0.count(of: "SENTINEL") > $1 + 3 }
            }
            await expect(all.port, equals: all.old.port)
            expect(all.trust.events, equals: [.trusted([HashSlot.all], afterOutage: false)])
            expect(all.new.connectionCount, equals: 0)
            expect(all.sentinels.map(\.connectionCount), equals: [1, 1, 1])
        }
    }

    @Test("Rule 76: no server is used while sentinels contradict each other without a majority")
    func contradiction() async throws {
        try await withSentinels(3) { all in
            all.sentinels[2].setSilent()
            all.sentinels[1].setPrimary(all.new)
            try await all.isDown()
            try await eventually("the reason is logged") { !all.log.lines("reason", "sentinels_disagree").isEmpty }
            await expect(all.port, equals: nil)
            all.sentinels[0].setPrimary(all.new)
            try await all.uses(all.new)
        }
    }

    @Test("Sentinels that do not respond end no use: the server itself is asked, and the time is reported")
    func unreachable() async throws {
        try await withSentinels(2) { all in
            for sentinel in all.sentinels { await sentinel.stop() }
            try await eventually("the server is asked whether it accepts writes") { all.old.count(of: "SET") > 1 }
            expect(all.old.commands.contains(["SET", "cloakroom:{primary}:probe", "", "XX"]))
            await expect(all.port, equals: all.old.port)
            expect(all.trust.events, equals: [.trusted([HashSlot.all], afterOutage: false)])
            expect(all.unconfirmed.all.last.map { $0 > SentinelVotes.period }, equals: true)
            expect(all.log.lines("address", "\(all.old.address)").count { $0["sentinels"] != nil }, equals: 1)
        }
    }

    @Test("Rule 76: a server that no majority confirms, and that accepts no writes, is not used")
    func isolated() async throws {
        try await withSentinels(3) { all in
            for _ in 0..<100 { all.old.reply(to: "SET", "-NOREPLICAS Not enough good replicas to write.") }
            expect(all.old.count(of: "SET"), equals: 0)
            await all.sentinels[0].stop()
            all.sentinels[1].setSilent()
            try await all.isDown()
            let count = all.old.count(of: "SET")
            try await eventually("it is tried again") { all.old.count(of: "SET") > count + 2 }
            expect(all.trust.events.count, equals: 2)
            expect(!all.log.lines("reason", "noreplicas").isEmpty)
            all.sentinels[1].setPrimary(all.old)
            try await all.uses(all.old)
        }
    }

    @Test("A confirmed server that accepts no writes without its replicas still serves reads")
    func withoutReplicas() async throws {
        try await withSentinels(3) { all in
            all.old.reply(to: "SET", "-NOREPLICAS Not enough good replicas to write.")
            let reply = await all.client.send([ValkeyCommand("SET", key: "a", "b")]).first
            expect(reply?.rejection?.code, equals: "NOREPLICAS")
            await expect(all.port, equals: all.old.port)
            expect(all.old.count(of: "HELLO"), equals: 1)
            expect(all.trust.events, equals: [.trusted([HashSlot.all], afterOutage: false)])
        }
    }

    @Test("A sentinel that returns is asked again, and the time ends")
    func returns() async throws {
        try await withSentinels(1) { all in
            all.sentinels[0].setSilent()
            try await eventually("it is not confirmed") { all.unconfirmed.all.contains { $0 > .zero } }
            all.sentinels[0].setPrimary(all.old)
            try await eventually("it is confirmed") { all.unconfirmed.all.last == .zero }
            try await eventually("both are logged") {
                all.log.lines("address", "\(all.old.address)").count >= 3
            }
            expect(all.trust.events.count, equals: 1)
            expect(all.unconfirmed.all.first, equals: .zero)
        }
    }
}
