import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Event streams and long polls", .serialized)
struct EventStreamTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    private static let chunkedHead = head + "Transfer-Encoding: chunked\r\n\r\n"

    /// Requests and response heads of event streams that end by themselves.
    static let finiteStreams = [
        (Ask.post(), chunkedHead), (Ask.get(), head + "Content-Length: 100\r\n\r\n"),
        (Ask.get(), chunkedHead.replacing("200 OK", with: "503 Service Unavailable")),
    ]

    private static func open(
        _ setup: GatewaySetup = GatewaySetup(), request: String = Ask.get(), head: String = chunkedHead,
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (_ gateway: RunningGateway, _ client: RawPeer, _ upstream: RawPeer) async throws -> Void
    ) async throws {
        try await Tunnel.gateway(setup, configuration: adjust) { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: request)
            let upstream = try await server.requested()
            upstream.send(head)
            _ = try await client.head()
            try await body(gateway, client, upstream)
        }
    }

    @Test("Its head and each chunk are forwarded as they arrive (RFC 9112 §7.1; HTML §9.2)")
    func flushed() async throws {
        try await Self.open { _, client, upstream in
            for number in 0..<10 {
                upstream.send("9\r\ndata: \(number)\n\n\r\n")
                let event = try await client.text(14)
                expect(event, equals: "9\r\ndata: \(number)\n\n\r\n")
            }
            upstream.send("0\r\n\r\n")
            try await expect(client.text(5), equals: "0\r\n\r\n")
            expect(!client.hasInputEnded)
        }
    }

    @Test(
        "Its head alone is forwarded at once, with any framing (HTML §9.2)",
        arguments: [head + "\r\n", chunkedHead])
    func headAlone(head: String) async throws {
        // The arrival of the head is asserted by `open`.
        try await Self.open(head: head) { _, client, _ in expect(empty: client.unread) }
    }

    @Test("It may be idle for longer than another body, but not without limit (HTML §9.2.8)")
    func silence() async throws {
        try await Self.open(
            GatewaySetup().steppedTime(),
            configuration: {
                $0.timeouts.bodyIdle = .seconds(15)
                $0.timeouts.tunnelIdle = .seconds(60)
            }
        ) { gateway, client, upstream in
            upstream.send("9\r\ndata: 1\n\n\r\n")
            _ = try await client.text(14)
            try await gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            expect(!client.isClosed)
            upstream.send("9\r\ndata: 2\n\n\r\n")
            try await expect(client.text(14), equals: "9\r\ndata: 2\n\n\r\n")
            try await gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            expect(!client.isClosed)
            try await gateway.advance(.milliseconds(200))
            // Aborted, and not ended: there is no last chunk (RFC 9112 §8).
            try await expect(client.rest().readableBytes, equals: 0)
            try await client.closed()
            try await upstream.closed()
        }
    }

    @Test("At the end of its lifetime it is completed, so that the client reconnects (HTML §9.2.3)")
    func lifetime() async throws {
        try await Self.open(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { gateway, client, upstream in
            try await gateway.advance(.milliseconds(8_900))
            expect(client.unread.isEmpty && !client.hasInputEnded)
            try await gateway.advance(.milliseconds(2_200))
            try await expect(client.text(5), equals: "0\r\n\r\n")
            try await upstream.closed()
            try await gateway.metric(#"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            expect(!gateway.metrics.contains("stream_lifetime"), "a planned end is no error")
        }
    }

    @Test("At the end of its lifetime one that ends by itself is aborted (RFC 9112 §8)", arguments: finiteStreams)
    func lifetimeOfFiniteStream(request: String, head: String) async throws {
        try await Self.open(
            GatewaySetup().steppedTime(), request: request, head: head,
            configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { gateway, client, upstream in
            try await gateway.advance(.milliseconds(11_100))
            try await expect(client.rest().readableBytes, equals: 0)
            try await client.closed()
            try await upstream.closed()
            try await eventually("the error") { gateway.metrics.contains(#"error_type="stream_lifetime""#) }
        }
    }

    @Test("At the end of its lifetime the connection of an HTTP/1.0 client ends in order (RFC 9112 §9.8)")
    func lifetimeOf10() async throws {
        try await Self.open(
            GatewaySetup().steppedTime(), request: "GET /public/a HTTP/1.0\r\n\r\n",
            configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { gateway, client, upstream in
            try await gateway.advance(.milliseconds(11_100))
            try await expect(client.rest().readableBytes, equals: 0)
            expect(!client.wasReset)
            try await upstream.closed()
        }
    }

    @Test("At the end of its lifetime its stream of HTTP/2 ends in order (RFC 9113 §5.1)")
    func lifetimeOfHTTP2() async throws {
        try await Tunnel.gateway(
            GatewaySetup().steppedTime().http2(), configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .get()))
            let upstream = try await server.requested()
            upstream.send(Self.chunkedHead)
            try await eventually("the head") { client.stream(1).status == 200 }
            try await gateway.advance(.milliseconds(11_100))
            let response = try await client.response(1)
            expect(response.isEnded)
            expect(response.reset, equals: nil)
            try await upstream.closed()
        }
    }

    @Test("The response to HEAD is complete, so that a lifetime does not concern it (RFC 9110 §9.3.2)")
    func lifetimeOfHead() async throws {
        try await Self.open(
            GatewaySetup().steppedTime(), request: Ask.ask("HEAD", "/public/a"),
            configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { gateway, client, _ in
            try await gateway.advance(.milliseconds(11_100))
            expect(empty: client.unread)
            expect(!client.hasInputEnded)
        }
    }

    @Test("Another body has the ordinary idle timeout (RFC 9112 §9.5)")
    func otherBody() async throws {
        try await Self.open(
            head: Self.chunkedHead.replacing("text/event-stream", with: "text/event-streams"),
            configuration: {
                $0.timeouts.bodyIdle = .milliseconds(100)
                $0.timeouts.tunnelIdle = .seconds(300)
            }
        ) { _, client, upstream in
            try await expect(client.rest().readableBytes, equals: 0)
            try await upstream.closed()
        }
    }

    @Test("Rule 28: it is aborted when its session ends, busy or not (RFC 9112 §8)", arguments: [true, false])
    func signOut(isBusy: Bool) async throws {
        try await Self.open(request: Ask.get("/private/a", Ask.cookie)) { gateway, client, upstream in
            upstream.send("9\r\ndata: 1\n\n\r\n")
            _ = try await client.text(14)
            let speaker = Task {
                while isBusy, !Task.isCancelled {
                    upstream.send("9\r\ndata: 2\n\n\r\n")
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            defer { speaker.cancel() }
            try await gateway.signOut()
            try await eventually("the end of the stream") { client.hasInputEnded }
            expect(!client.unread.hasSuffix("0\r\n\r\n"))
            try await upstream.closed()
        }
    }

    @Test(
        "The connection of an HTTP/1.0 client whose stream is aborted is reset, because a FIN would be a clean end (RFC 9112 §8)"
    )
    func signOutOf10() async throws {
        try await Self.open(request: "GET /private/a HTTP/1.0\r\n\(Ask.cookie)\r\n\r\n") { gateway, client, upstream in
            upstream.send("9\r\ndata: 1\n\n\r\n")
            try await expect(client.text(9), equals: "data: 1\n\n")
            try await gateway.signOut()
            try await client.closed()
            expect(client.wasReset)
        }
    }

    @Test("A client that disconnects ends it at the upstream (RFC 9112 §9.5)")
    func clientGoes() async throws {
        try await Self.open { _, client, upstream in
            try await client.close()
            try await upstream.closed()
        }
    }

    @Test("A long poll has its route's timeout for the head, and its own idle timeout (RFC 9110 §15.6.5)")
    func longPoll() async throws {
        try await Tunnel.gateway(
            configuration: {
                $0.timeouts.responseHead = .milliseconds(100)
                $0.timeouts.bodyIdle = .milliseconds(100)
                $0.routes[0].responseHeadTimeout = .seconds(60)
                $0.routes[0].bodyIdleTimeout = .seconds(60)
            }
        ) { gateway, server in
            let client = try await gateway.client(sending: Ask.get())
            let upstream = try await server.requested()
            // The timeouts of the other routes have long expired.
            try await expect(gateway.client().exchange(Ask.get("/token/a")).status, equals: 504)
            upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            try await expect(gateway.client().exchange(Ask.get("/token/a")).status, equals: 504)
            upstream.send("k")
            try await expect(client.response().text, equals: "ok")
        }
    }

    @Test("A route's own idle timeout also applies to the request body (RFC 9110 §15.5.9)")
    func slowUpload() async throws {
        try await Tunnel.gateway(
            configuration: {
                $0.timeouts.bodyIdle = .seconds(60)
                $0.routes[1].bodyIdleTimeout = .milliseconds(150)
                $0.limits.requestBuffer = 0
            }
        ) { gateway, server in
            let patient = try await gateway.client()
            patient.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
            let upstream = try await server.requested()
            let response = try await gateway.client().exchange(
                "POST /token/a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
            expect(response.status, equals: 408)
            patient.send("lf")
            try await expect(upstream.text(4), equals: "half")
            upstream.send(Reply.ok)
            try await expect(patient.response().text, equals: "ok")
        }
    }
}
