import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Event streams during a drain (HTML §9.2)", .serialized)
struct DrainedStreamTests {
    private static let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let event = "9\r\ndata: 1\n\n\r\n"

    /// A gateway with a drain limit of 60 s, which must stop within 25 s.
    private static func stopping(
        http2: Bool = false, _ body: (RunningGateway, RawServer) async throws -> Void
    ) async throws {
        try await Tunnel.gateway(
            configuration: {
                $0.timeouts.drain = .seconds(60)
                $0.listeners[0].http2 = http2
            }
        ) { gateway, server in
            let start = ContinuousClock.now
            try await body(gateway, server)
            try await gateway.stopped()
            #expect(ContinuousClock.now - start < .seconds(25))
        }
    }

    /// Sends a request that reaches the upstream.
    private static func request(
        _ gateway: RunningGateway, _ server: RawServer, _ request: String = Ask.get()
    ) async throws -> (client: RawPeer, upstream: RawPeer) {
        let client = try await RawPeer.connect(port: gateway.port, sending: request)
        let upstream = try await server.requested()
        return (client, upstream)
    }

    /// Sends a request and receives the head of an event stream, whose first event follows.
    private static func stream(
        _ gateway: RunningGateway, _ server: RawServer, _ request: String = Ask.get()
    ) async throws -> (client: RawPeer, upstream: RawPeer) {
        let (client, upstream) = try await Self.request(gateway, server, request)
        upstream.send(head + event)
        _ = try await client.head()
        return (client, upstream)
    }

    @Test("An event stream ends at once with valid framing, and the gateway stops (RFC 9112 §7.1)")
    func chunked() async throws {
        try await Self.stopping { gateway, server in
            let (client, upstream) = try await Self.stream(gateway, server)
            try await expect(client.text(14), equals: Self.event)
            await gateway.beginDrain()
            expect(String(buffer: try await client.rest()), equals: "0\r\n\r\n")
            expect(!client.wasReset)
            try await upstream.closed()
        }
    }

    @Test("An event stream in response to a POST is finite, and is awaited")
    func post() async throws {
        try await Self.stopping { gateway, server in
            let request = "POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            let (client, upstream) = try await Self.stream(gateway, server, request)
            try await expect(client.text(14), equals: Self.event)
            await gateway.beginDrain()
            upstream.send(Self.event + "0\r\n\r\n")
            expect(String(buffer: try await client.rest()), equals: Self.event + "0\r\n\r\n")
            expect(!client.wasReset)
        }
    }

    @Test("For HTTP/1.0 the end is a connection close without reset (RFC 9112 §6.3)")
    func version10() async throws {
        try await Self.stopping { gateway, server in
            let (client, _) = try await Self.stream(gateway, server, "GET /public/a HTTP/1.0\r\n\r\n")
            try await expect(client.text(9), equals: "data: 1\n\n")
            await gateway.beginDrain()
            try await expect(client.rest().readableBytes, equals: 0)
            expect(!client.wasReset)
        }
    }

    @Test("In HTTP/2 the stream ends with END_STREAM (RFC 9113 §8.1)")
    func http2() async throws {
        try await Self.stopping(http2: true) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .get()))
            let upstream = try await server.requested()
            upstream.send(Self.head + Self.event)
            try await eventually("an event") { client.stream(1).bodyCount == 9 }
            await gateway.beginDrain()
            let response = try await client.response(1)
            expect(response.isEnded)
            expect(response.reset, equals: nil)
            expect(response.text, equals: "data: 1\n\n")
            try await upstream.closed()
        }
    }

    @Test("An event stream that was requested before the drain ends as soon as it begins", arguments: [false, true])
    func askedForBefore(isHTTP2: Bool) async throws {
        try await Self.stopping(http2: isHTTP2) { gateway, server in
            if isHTTP2 {
                let client = try await gateway.http2()
                client.send(.headers(1, .get()))
                let upstream = try await server.requested()
                await gateway.beginDrain()
                try await eventually("a GOAWAY") { !client.goAways.isEmpty }
                upstream.send(Self.head)
                let response = try await client.response(1)
                expect(response.status == 200 && response.isEnded && response.reset == nil)
            } else {
                let idle = try await gateway.client()
                try await expect(idle.exchange(Ask.get("/nowhere")).status, equals: 404)
                let (client, upstream) = try await Self.request(gateway, server)
                await gateway.beginDrain()
                try await idle.closed()
                upstream.send(Self.head)
                let head = try await client.head()
                expect(head.hasPrefix("HTTP/1.1 200 "))
                expect(head.contains("\r\nConnection: close\r\n"))
                expect(String(buffer: try await client.rest()), equals: "0\r\n\r\n")
            }
        }
    }

    @Test(
        "Finite responses are not aborted: a chunked download, and an event stream with a length",
        arguments: [
            "Content-Type: text/plain\r\nTransfer-Encoding: chunked",
            "Content-Type: text/event-stream\r\nContent-Length: 14",
        ])
    func finite(fields: String) async throws {
        try await Self.stopping { gateway, server in
            let (client, upstream) = try await Self.request(gateway, server)
            // With a Content-Length the body is an ordinary one of fourteen bytes.
            upstream.send("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n" + Self.event.prefix(7))
            _ = try await client.head()
            let idle = try await gateway.client()
            try await expect(idle.exchange(Ask.get("/nowhere")).status, equals: 404)
            await gateway.beginDrain()
            try await idle.closed()
            upstream.send(Self.event.dropFirst(7) + (fields.contains("chunked") ? "0\r\n\r\n" : ""))
            let rest = String(buffer: try await client.rest())
            expect(rest.contains(" 1\n\n"))
            expect(!fields.contains("chunked") || rest.hasSuffix("0\r\n\r\n"))
        }
    }
}
