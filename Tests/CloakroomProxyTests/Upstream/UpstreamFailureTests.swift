import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("An upstream that sends no response", .serialized)
struct UpstreamFailureTests {
    private let gate = Gate()

    @Test("An upstream address without a listener is 502 (RFC 9110 §15.6.3), also for the next request")
    func unreachable() async throws {
        let port = try await ScriptedServer.rejectingPort()
        try await GatewaySetup().with(\.upstreamPort, port).run { gateway, client in
            for _ in 0..<3 {
                try await expect(client.exchange(Ask.get()).problem, equals: "502 unreachable")
            }
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
        }
    }

    @Test("A body for an unreachable upstream is not awaited, unless it is buffered before")
    func unreachableWithBody() async throws {
        let unreachable = try await ScriptedServer.rejectingPort()
        let setup = GatewaySetup().with(\.upstreamPort, unreachable)
        try await setup.configuration { $0.limits.requestBuffer = 0 }.run { gateway, client in
            let response = try await client.exchange(
                "POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
            expect(response.status, equals: 502)
            try await client.closed()
        }
    }

    @Test("An upstream that accepts no connection in time is 504 (RFC 9110 §15.6.5)")
    func connectTimeout() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await GatewaySetup().with(\.upstreamPort, deaf.port)
            .configuration { $0.timeouts.connect = .milliseconds(150) }
            .expect(.ask(Ask.get(), 504, "unreachable"))
    }

    @Test("An upstream that sends no response in time is 504, and its connection is closed (RFC 9110 §15.6.5)")
    func responseTimeout() async throws {
        try await GatewaySetup([.request], [.request, .send(Reply.ok)])
            .configuration { $0.routes[1].responseHeadTimeout = .milliseconds(150) }
            .run { gateway, client in
                try await expect(client.exchange(Ask.get("/token/a")).problem, equals: "504 unreachable")
                try await gateway.upstream.closed()
                try await expect(client.exchange(Ask.get()).text, equals: "ok")
            }
    }

    @Test("Interim responses do not extend the timeout")
    func interimDoesNotCount() async throws {
        let hint = ByteBuffer(string: "HTTP/1.1 103 Early Hints\r\n\r\n")
        try await GatewaySetup([.request, .stream(hint, times: 3)])
            .configuration { $0.timeouts.responseHead = .milliseconds(150) }
            .run { gateway, client in
                var response = try await client.exchange(Ask.get())
                while response.status == 103 { response = try await client.response() }
                expect(response.status, equals: 504)
            }
    }

    @Test("A response whose body stalls is aborted")
    func bodyStalls() async throws {
        try await GatewaySetup([.request, .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")])
            .configuration { $0.timeouts.bodyIdle = .milliseconds(150) }
            .run { gateway, client in
                await #expect(throws: ResponseTruncated.self) { try await client.exchange(Ask.get()) }
                try await gateway.upstream.closed()
            }
    }

    // MARK: - Connection pool

    private static func small(maxPending: Int, _ scripts: [ScriptedUpstream.Step]...) -> GatewaySetup {
        GatewaySetup().with(\.scripts, scripts).configuration {
            $0.upstreams[0].pool.maxConnections = 1
            $0.upstreams[0].pool.maxPending = maxPending
        }
    }

    @Test("With all connections busy and no queue it is 503 with Retry-After (RFC 9110 §15.6.4)")
    func exhausted() async throws {
        try await Self.small(maxPending: 0, [.request, .wait(gate), .send(Reply.ok)]).run { gateway in
            let first = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            let second = try await gateway.client()
            let response = try await second.exchange(Ask.get())
            expect(response.problem, equals: "503 overloaded")
            expect(response["Retry-After"], equals: "1")
            gate.open()
            try await expect(first.response().text, equals: "ok")
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("A request in the queue is served when a connection is free; one beyond the queue limit is 503")
    func pending() async throws {
        try await Self.small(maxPending: 1, [.request, .wait(gate), .send(Reply.ok), .again]).run { gateway in
            let first = try await gateway.client(sending: Ask.get("/public/1"))
            _ = try await gateway.upstream.request()
            let second = try await gateway.client(sending: Ask.get("/public/2"))
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 1")
            try await expect(gateway.client().exchange(Ask.get("/public/3")).status, equals: 503)
            gate.open()
            try await expect(first.response().text, equals: "ok")
            try await expect(second.response().text, equals: "ok")
            expect(gateway.upstream.connections.count, equals: 1)
            expect(gateway.upstream.requests.count, equals: 2)
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
        }
    }

    @Test("A waiting request gets a new connection if the busy one is lost")
    func pendingAndLost() async throws {
        try await Self.small(
            maxPending: 1, [.request, .wait(gate), .close], [.request, .send(Reply.ok)]
        ).run { gateway in
            let first = try await gateway.client(sending: Ask.post())
            _ = try await gateway.upstream.request()
            let second = try await gateway.client(sending: Ask.get())
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 1")
            gate.open()
            try await expect(first.response().status, equals: 502)
            try await expect(second.response().text, equals: "ok")
        }
    }

    @Test("A request that waits too long is 503, and its place in the queue is free again")
    func pendingTimeout() async throws {
        try await Self.small(maxPending: 1, [.request, .wait(gate), .send(Reply.ok), .again])
            .with(\.adjust) {
                $0.upstreams[0].pool = PoolConfiguration(
                    maxConnections: 1, maxPending: 1, pendingTimeout: .milliseconds(150))
                // The deadline check interval is derived from the shortest timeout.
                $0.timeouts.header = .milliseconds(800)
            }
            .run { gateway in
                let first = try await gateway.client(sending: Ask.get())
                _ = try await gateway.upstream.request()
                let second = try await gateway.client()
                for _ in 0..<2 {
                    let response = try await second.exchange(Ask.get())
                    expect(response.status, equals: 503)
                    expect(response["Retry-After"], equals: "1")
                }
                gate.open()
                try await expect(first.response().text, equals: "ok")
                expect(gateway.upstream.requests.count, equals: 1)
            }
    }

    @Test("A client that disconnects while waiting causes no upstream request")
    func pendingAndGone() async throws {
        try await Self.small(maxPending: 1, [.request, .wait(gate), .send(Reply.ok), .again]).run { gateway in
            let first = try await gateway.client(sending: Ask.get("/public/1"))
            _ = try await gateway.upstream.request()
            let second = try await gateway.client(sending: Ask.get("/public/2"))
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 1")
            try await second.close()
            try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
            gate.open()
            try await expect(first.response().text, equals: "ok")
            try await expect(first.exchange(Ask.get("/public/3")).text, equals: "ok")
            expect(gateway.upstream.requests.map(\.line), equals: ["GET /public/1 HTTP/1.1", "GET /public/3 HTTP/1.1"])
        }
    }
}
