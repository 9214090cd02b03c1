import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// What one server may send on a connection.
@Suite("A hostile server on one connection", .timeLimit(.minutes(3)))
struct HostileServerTests {
    /// A ready connection, and what it reports to the session cache.
    private struct Connection {
        let changes = RecordingChangeDelegate()
        let link: EmbeddedConnection

        init() throws {
            let forwarder = InvalidationForwarder(keys: ValkeyKeys(prefix: "p"), changes: changes)
            link = try EmbeddedConnection(delegate: Events(forwarder: forwarder))
        }

        var loss: ValkeyDisconnectReason? { link.loss }
        func receive(_ text: String) throws { try link.receive(text) }

        /// Sends a command, and returns its result after a step.
        func reply(_ step: () throws -> Void) async throws -> Result<RESPValue, ValkeyCommandError>? {
            try await link.replies(["GET"], step).first
        }
    }

    private struct Events: ValkeyLinkDelegate {
        let forwarder: InvalidationForwarder

        func linkChanged(isUp: Bool) {
            forwarder.slotsChanged([HashSlot.all], areTrusted: isUp, afterOutage: false)
        }

        func pushed(_ message: [RESPValue]) {
            forwarder.pushed(message)
        }
    }

    private static func invalidation(_ names: [String]) -> String {
        ">2\r\n$10\r\ninvalidate\r\n*\(names.count)\r\n" + names.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
    }

    @Test(
        "What exceeds a limit of RESP ends the connection before it has arrived: cached data is not trusted, and the command fails",
        arguments: [
            "$16777217\r\n", "$9223372036854775807\r\n", "$-2\r\n", "*1000001\r\n", "%500001\r\n", "!65537\r\n",
            "x", ">2\r\n+invalidate\r\n*1000000\r\n", String(repeating: "*1\r\n", count: 17),
            "+" + String(repeating: "a", count: 65_537),
        ])
    func limits(_ text: String) async throws {
        let connection = try Connection()
        let reply = try await connection.reply {
            try connection.receive(text)
            expect(connection.loss, equals: .protocolError)
            expect(connection.changes.events, equals: [.up, .down])
        }
        expect(reply, equals: .failure(.disconnected))
        expect(ValkeyDisconnectReason.protocolError.advice?.contains("session.valkey.addresses"), equals: true)
    }

    @Test("A reply without a command ends the connection, also directly after one that was expected")
    func unrequested() async throws {
        for extra in ["+OK\r\n", "$-1\r\n", "*0\r\n", "-ERR x\r\n"] {
            let connection = try Connection()
            let reply = try await connection.reply {
                try connection.receive(":1\r\n" + extra)
                expect(connection.loss, equals: .protocolError)
            }
            expect(reply, equals: .success(.integer(1)))
            expect(connection.changes.events, equals: [.up, .down])
        }
    }

    @Test("Pushes of other kinds are ignored, and those whose names cannot be read forget everything")
    func oddPushes() async throws {
        let connection = try Connection()
        let reply = try await connection.reply {
            for ignored in [
                ">0\r\n", ">1\r\n+invalidate\r\n", ">2\r\n+message\r\n*1\r\n+p:{0000000000000001}:session\r\n",
                ">2\r\n:1\r\n_\r\n", ">2\r\n_\r\n_\r\n", ">2\r\n*0\r\n_\r\n", ">2\r\n+INVALIDATE\r\n_\r\n",
                Self.invalidation([]), Self.invalidation(["", "p:{", "p:{}:session", "p:{x}:cutoff", "q", "\u{0}"]),
                Self.invalidation(["p:{00000000000000001}:session", "p:{z0000000000000001}:cutoff"]),
                ">2\r\n+invalidate\r\n*4\r\n:1\r\n_\r\n#t\r\n*1\r\n+p:{0000000000000001}:session\r\n",
            ] {
                try connection.receive(ignored)
            }
            expect(connection.changes.events, equals: [.up])
            for unreadable in ["_", ":1", "#t", "$3\r\nabc", "+abc", ",1.5"] {
                try connection.receive(">2\r\n+invalidate\r\n\(unreadable)\r\n")
            }
            expect(connection.changes.events, equals: [.up] + Array(repeating: .allChanged, count: 6))
            // Further members are of a later release.
            try connection.receive(">3\r\n+invalidate\r\n*1\r\n+p:{0000000000000001}:session\r\n:9\r\n")
            expect(connection.changes.events.last, equals: .changed(SessionID(1)))
            try connection.receive(":1\r\n")
            expect(connection.loss, equals: nil)
        }
        expect(reply, equals: .success(.integer(1)))
    }

    @Test("A push of 100,000 names, of which few are of sessions, is processed in linear time")
    func manyNames() throws {
        let connection = try Connection()
        let names = (0..<100_000).map { $0 % 1_000 == 0 ? "p:{\(SessionID(UInt64($0)))}:session" : "other:\($0)" }
        let start = ContinuousClock.now
        try connection.receive(Self.invalidation(names))
        #expect(ContinuousClock.now - start < .seconds(20))
        expect(connection.changes.events.count, equals: 101)
        expect(connection.loss, equals: nil)
    }

    @Test("A flood of pushes does not extend the deadline of a pending command")
    func floodBeforeReply() async throws {
        let connection = try Connection()
        let push = String(repeating: Self.invalidation(["p:{0000000000000001}:session"]), count: 50)
        let reply = try await connection.reply {
            for _ in 0..<19 {
                connection.link.advance(.milliseconds(10))
                expect(connection.loss, equals: nil)
                try connection.receive(push)
            }
            connection.link.advance(.milliseconds(10))
            expect(connection.loss, equals: .timedOut)
        }
        expect(reply, equals: .failure(.disconnected))
        expect(connection.changes.count(.changed(SessionID(1))), equals: 19 * 50)
    }

    @Test("Nothing that a server sends as an error changes the terminal or fills the log")
    func log() {
        let recorded = RecordedLog()
        let log = ValkeyLog(ValkeyConfiguration(addresses: [HostAndPort(host: "a", port: 1)]), recorded.logger)
        for number in 0..<1_000 {
            let error = RESPError(line: "CODE\(number) \u{1b}[2J")
            log.rejected(ValkeyCommand("CLUSTER", "SLOTS"), error, "a:1", server: "a:1")
            log.disconnected(.notPrimary(code: error.code), "b:1", server: "b:1")
        }
        expect(recorded.all.count, equals: 2 * ValkeyLog.maximumReasons)
        expect(!"\(recorded.all)".contains("[2J"))
        // Other servers have their own lines, and so has the next outage.
        log.disconnected(.protocolError, "c:1", server: "c:1")
        expect(recorded.all.last?["hint"]?.contains("session.valkey.addresses"), equals: true)
        log.connected("a:1", server: "a:1")
        log.rejected(ValkeyCommand("CLUSTER", "SLOTS"), RESPError(line: "CODE1 x"), "a:1", server: "a:1")
        expect(recorded.all.last?["reason"], equals: "code1")
    }

    @Test("A cluster that names ever new servers does not fill the memory of the logs")
    func namesInLogs() {
        let recorded = RecordedLog()
        let log = ValkeyLog(ValkeyConfiguration(addresses: [HostAndPort(host: "a", port: 1)]), recorded.logger)
        let durability = DurabilityLog(recorded.logger, SessionStoreCallbacks())
        for number in 0..<2_500 {
            log.disconnected(.unreachable, "a:\(number)", server: "a:\(number)")
            durability.replicas("a:\(number)", required: 1, connected: 0)
        }
        #expect(log.serverCount <= 2 * ValkeyLog.mostServers)
        #expect(durability.serverCount <= DurabilityLog.mostServers)
    }
}
