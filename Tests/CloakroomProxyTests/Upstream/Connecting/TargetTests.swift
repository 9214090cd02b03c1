import CloakroomCore
import Foundation
import NIOCore
import TestSupport
import Testing

@Suite("The targets of an upstream", .serialized)
struct TargetTests {
    @Test("A Unix domain socket is used with HTTP/1.1 without TLS")
    func unixSocket() async throws {
        let path = NSTemporaryDirectory() + "cloakroom-\(UUID().uuidString.prefix(8)).sock"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let place = try SocketAddress(unixDomainSocketPath: path)
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .again]], at: place) { _, upstream in
            try await GatewaySetup().configuration { $0.upstreams[0].preserveHost = false }
                .targets(UpstreamTargetConfiguration(unixSocket: path))
                .run { gateway, client in
                    for _ in 0..<2 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                    expect(upstream.connections.count, equals: 1)
                    expect(upstream.requests.first?["Host"], equals: "localhost")
                    try await gateway.calls(2, to: path, port: nil, status: "200")
                }
        }
    }

    @Test("A missing Unix domain socket is 502, at once and for the next request too")
    func noSocket() async throws {
        let path = NSTemporaryDirectory() + "cloakroom-\(UUID().uuidString.prefix(8)).sock"
        try await GatewaySetup().targets(UpstreamTargetConfiguration(unixSocket: path)).run { gateway, client in
            for _ in 0..<3 { try await expect(client.exchange(Ask.get()).status, equals: 502) }
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
        }
    }

    @Test("Connections are spread over the targets; one that refuses them is skipped during its back-off")
    func backOff() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        let log = RecordedLog()
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { first, one in
            try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { second, other in
                try await GatewaySetup().with(\.logger, log.logger)
                    .targets(.http("127.0.0.1", rejecting), .http("127.0.0.1", first), .http("127.0.0.1", second))
                    .run { gateway, client async throws in
                        for _ in 0..<60 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                        expect(one.connections.count + other.connections.count, equals: 60)
                        // Each of them once at least, because a target without an estimate costs least.
                        expect(!one.connections.isEmpty && !other.connections.isEmpty)
                    }
            }
        }
        // Once, or twice if the back-off of about a second has ended meanwhile.
        expect((1...2).contains(log.all.filter { $0["error_type"] == "unreachable" }.count))
    }

    @Test("If one target does not respond, the others are tried before the connect timeout ends")
    func deafTarget() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { port, _ in
            try await GatewaySetup()
                .configuration {
                    $0.upstreams[0].targets = [.http("127.0.0.1", deaf.port), .http("127.0.0.1", port)]
                    $0.timeouts.connect = .seconds(1)
                }
                .expect(.ok())
        }
    }

    @Test("A failed upstream call is counted in the metrics under the target that was tried last")
    func metrics() async throws {
        let port = try await ScriptedServer.rejectingPort()
        try await GatewaySetup().targets(.http("127.0.0.1", port)).run { gateway in
            try await expect(gateway.client().exchange(Ask.get()).status, equals: 502)
            try await gateway.calls(1, to: "127.0.0.1", port: port, error: "upstream_unreachable")
        }
    }

    // MARK: - Lifetime of connections

    @Test("A connection is closed when it exceeds its maximum age, and the gauges stay correct")
    func connectionLifetime() async throws {
        try await GatewaySetup.serving
            .configuration { $0.upstreams[0].pool.connectionLifetime = .nanoseconds(1) }
            .run { gateway, client in
                for _ in 0..<3 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                expect(gateway.upstream.connections.map(\.requests.count), equals: [1, 1, 1])
                try await eventually("the ends") { gateway.upstream.connections.allSatisfy(\.isClosed) }
                try await gateway.connections(active: 0, idle: 0)
            }
    }

    @Test("A connection that the upstream is about to close is not reused (RFC 2068 §19.7.1.1)")
    func keepAliveHint() async throws {
        let reply = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup.replying(reply).run { gateway, client async throws in
            for _ in 0..<2 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
            expect(gateway.upstream.connections.count, equals: 2)
        }
    }

    @Test("A waiting request gets a new connection in place of an expired one")
    func waitingForOneThatIsOver() async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok)])
            .configuration {
                $0.upstreams[0].pool.maxConnections = 1
                $0.upstreams[0].pool.connectionLifetime = .nanoseconds(1)
            }
            .run { gateway in
                let first = try await gateway.client(sending: Ask.get())
                _ = try await gateway.upstream.request()
                let second = try await gateway.client(sending: Ask.get())
                try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 1")
                gate.open()
                try await expect(first.response().text, equals: "ok")
                try await expect(second.response().text, equals: "ok")
                expect(gateway.upstream.connections.count, equals: 2)
            }
    }
}
