import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("What is logged about connections", .timeLimit(.minutes(3)))
struct ValkeyLogTests {
    private let recorded = RecordedLog()

    private func log() -> ValkeyLog {
        ValkeyLog(
            ValkeyConfiguration(addresses: [HostAndPort(host: "10.0.0.1", port: 1)], timeout: .seconds(1)),
            recorded.logger)
    }

    @Test("The reason of an outage is that of the servers that are missing, not of the one that was lost last")
    func outage() {
        let log = log()
        expect(log.outage, equals: nil)
        log.disconnected(.timedOut, "a", server: "a")
        expect(log.outage, equals: .timeout)
        log.connected("b", server: "b")
        expect(log.outage, equals: .timeout)
        // None of both reasons is right for all commands.
        log.disconnected(.tls("handshake"), "b", server: "b")
        expect(log.outage, equals: nil)
        log.connected("a", server: "a")
        expect(log.outage, equals: .tls)
        log.connected("b", server: "b")
        expect(log.outage, equals: nil)
    }

    @Test("A server that is not connected to any more is no reason, and neither is a seed if a server is connected")
    func obsolete() {
        let (log, start) = (log(), ContinuousClock.now)
        log.disconnected(.timedOut, "a", server: "a", now: start)
        expect(log.outage(now: start + .seconds(17)), equals: .timeout)
        expect(log.outage(now: start + .seconds(18)), equals: nil)
        log.disconnected(.timedOut, nil)
        log.disconnected(.unreachable, "s", server: ValkeyLog.seed("s"))
        log.disconnected(.protocolError, "t", server: ValkeyLog.seed("t"))
        log.resolved("s")
        log.connected("a", server: "a")
        expect(log.outage, equals: nil)
        log.disconnected(.unreachable, "b", server: "b")
        log.disconnected(.timedOut, "c", server: "c")
        expect(log.outage, equals: nil)
        log.forgotten(server: "b")
        expect(log.outage, equals: .timeout)
    }

    @Test("A rejected command is logged once for each server and connection, also in a cluster")
    func rejections() async throws {
        let cluster = try await ScriptedCluster()
        try await cluster.isUp()
        let node = cluster.nodes[0]
        func lines() -> Int { cluster.log.lines("reason", "noperm").count }
        for expected in 1...2 {
            for _ in 0..<3 {
                node.reply(to: "GET", "-NOPERM this user has no permissions")
                _ = await cluster.get("b")
            }
            try await eventually("the rejection is logged") { lines() == expected }
            await node.disconnect()
            try await eventually("the connection is lost") {
                cluster.trust.events.count { if case .lost = $0 { true } else { false } } >= expected
            }
            try await cluster.isUp()
        }
        expect(lines(), equals: 2)
        await cluster.stop()
    }
}
