import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("The deadline of a route", .serialized)
struct DeadlineTests {
    private static func setup(_ scripts: [ScriptedUpstream.Step]...) -> GatewaySetup {
        GatewaySetup().with(\.scripts, scripts).steppedTime().configuration { $0.routes[0].deadline = .seconds(3) }
    }

    /// Advances the time to the deadline.
    /// - Parameter isOver: Whether the request has ended.
    private static func expire(_ gateway: RunningGateway, _ isOver: () -> Bool) async throws {
        try await gateway.advance(.milliseconds(2_900))
        expect(!isOver())
        try await gateway.advance(.milliseconds(200))
    }

    @Test("A request without a response is 504 at the deadline, and its upstream connection is closed")
    func silence() async throws {
        try await Self.setup([.request]).run { gateway, client in
            client.send(Ask.get())
            _ = try await gateway.upstream.request()
            try await Self.expire(gateway) { !client.unread.isEmpty }
            try await expect(client.response().problem, equals: "504 unreachable")
            try await gateway.upstream.closed()
            expect(gateway.upstream.requests.count, equals: 1)
        }
    }

    @Test("A request that waits for a connection is 504 at the deadline, and leaves the queue")
    func queue() async throws {
        let gate = Gate()
        try await Self.setup([.request, .wait(gate), .send(Reply.ok), .again])
            .configuration {
                $0.upstreams[0].pool.maxConnections = 1
                // Otherwise the queue would be congested first.
                $0.upstreams[0].pool.congestedAfter = .seconds(60)
            }
            .run { gateway in
                let first = try await gateway.client(sending: Ask.get("/token/a"))
                _ = try await gateway.upstream.request()
                let client = try await gateway.client(sending: Ask.get())
                try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 1")
                try await Self.expire(gateway) { !client.unread.isEmpty }
                try await expect(client.response().status, equals: 504)
                try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
                gate.open()
                try await expect(first.response().text, equals: "ok")
                expect(gateway.upstream.requests.count, equals: 1)
            }
    }

    @Test("A response that is still being sent is aborted, although it never stalls")
    func response() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
        let part = ByteBuffer(repeating: 0x61, count: 10_000)
        try await Self.setup([.request, .send(head), .stream(part, times: 100_000)]).run { gateway, client in
            client.send(Ask.get())
            try await eventually("the beginning of the body") { client.received > 100_000 }
            try await Self.expire(gateway) { client.isClosed }
            await #expect(throws: ResponseTruncated.self) { try await client.response() }
            try await gateway.upstream.closed()
        }
    }

    @Test("A body that does not arrive before the deadline is 408")
    func body() async throws {
        try await Self.setup([.request]).run { gateway, client in
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab")
            try await Self.expire(gateway) { !client.unread.isEmpty }
            try await expect(client.response().status, equals: 408)
            expect(empty: gateway.upstream.connections)
        }
    }

    @Test("A WebSocket continues after the deadline: it ended when the upstream agreed")
    func deadlineEndsNoWebSocket() async throws {
        try await Tunnel.open(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].deadline = .seconds(3) }
        ) { tunnel in
            try await tunnel.gateway.advance(.seconds(60), inStepsOf: .seconds(10))
            expect(!tunnel.client.isClosed)
            tunnel.client.send(Frame.masked("hello"))
            try await expect(tunnel.upstream.text(11).hasSuffix("hello"))
        }
    }

    @Test("An event stream continues after the deadline: it ended with the head")
    func deadlineEndsNoEventStream() async throws {
        try await Tunnel.gateway(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].deadline = .seconds(3) }
        ) { gateway, server in
            let client = try await gateway.client(sending: Ask.get())
            let upstream = try await server.requested()
            try await gateway.advance(.milliseconds(2_900))
            upstream.send(Reply.eventStream)
            _ = try await client.head()
            try await gateway.advance(.seconds(60), inStepsOf: .seconds(10))
            upstream.send("9\r\ndata: 1\n\n\r\n")
            try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
        }
    }

    @Test(
        "An event stream that ends by itself is aborted at the deadline", arguments: EventStreamTests.finiteStreams)
    func deadlineEndsAFiniteEventStream(request: String, head: String) async throws {
        try await Tunnel.gateway(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].deadline = .seconds(3) }
        ) { gateway, server in
            let client = try await gateway.client(sending: request)
            let upstream = try await server.requested()
            upstream.send(head)
            _ = try await client.head()
            try await Self.expire(gateway) { client.hasInputEnded }
            try await expect(client.rest().readableBytes, equals: 0)
            try await upstream.closed()
        }
    }

    @Test("An upgrade that gets no response is 504 at the deadline")
    func deadlineEndsASlowUpgrade() async throws {
        try await Tunnel.gateway(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].deadline = .seconds(3) }
        ) { gateway, server in
            let client = try await gateway.client(sending: Handshake.request())
            let upstream = try await server.requested()
            try await Self.expire(gateway) { !client.unread.isEmpty }
            try await expect(client.response().status, equals: 504)
            try await upstream.closed()
        }
    }

    @Test("A deadline ends with its request: the next request on the connection has its own, or none")
    func nextRequest() async throws {
        let gate = Gate()
        let setup = Self.setup([.request, .send(Reply.ok), .request, .wait(gate), .send(Reply.ok)])
        try await setup.run { gateway, client in
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            client.send(Ask.get("/token/a"))
            _ = try await gateway.upstream.request(1)
            try await gateway.advance(.milliseconds(3_500))
            gate.open()
            try await expect(client.response().text, equals: "ok")
        }
    }
}
