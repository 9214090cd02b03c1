import CloakroomCore
import NIOCore
import TestSupport
import Testing

/// A half-closed HTTP/1.1 client cannot be distinguished from a disconnected one without sending data. The gateway treats
/// it as disconnected, as most do: the exchange is cancelled to save upstream work (RFC 9112 §9.5 leaves it open).
@Suite("A client that half-closes its connection", .serialized)
struct ClientHalfCloseTests {
    @Test(
        "Before the response is complete: the request is cancelled and the upstream connection closed (RFC 9112 §9.5)")
    func whileWaiting() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Ask.get())
            let upstream = try await server.requested()
            try await client.endOutput()
            try await upstream.closed()
            try await client.closed()
            expect(client.received, equals: 0)
        }
    }

    @Test("In the middle of a head or a body: the request is aborted and never forwarded as complete (RFC 9112 §8)")
    func inBody() async throws {
        try await Tunnel.gateway(configuration: { $0.limits.requestBuffer = 0 }) { gateway, server in
            let inHead = try await RawPeer.connect(port: gateway.port, sending: "GET /public/a HTTP/1.1\r\nHost: a\r\n")
            try await inHead.endOutput()
            try await inHead.closed()
            expect(empty: server.peers)
            let inBody = try await RawPeer.connect(port: gateway.port)
            inBody.send("POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
            let upstream = try await server.requested()
            try await expect(upstream.text(7), equals: "2\r\nab\r\n")
            try await inBody.endOutput()
            try await upstream.closed()
            expect(empty: upstream.unread)
        }
    }

    @Test("Between requests: the connection is closed (RFC 9112 §9.6)")
    func idle() async throws {
        try await GatewaySetup.serving.run { gateway in
            let client = try await RawPeer.connect(port: gateway.port, sending: Ask.get())
            _ = try await client.head()
            try await client.endOutput()
            try await client.closed()
        }
    }
}
