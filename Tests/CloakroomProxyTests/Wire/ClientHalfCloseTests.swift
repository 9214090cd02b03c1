import CloakroomCore
import NIOCore
import Testing

/// A client of HTTP/1.1 that sends no more cannot be told from one that is gone, unless something is sent to it. Here it is
/// gone, as it is for most: its exchange is cancelled and its upstream spared (RFC 9112 §9.5 leaves it open).
@Suite("A client that closes its side", .serialized)
struct ClientHalfCloseTests {
    @Test("While its answer is due it counts as gone: the upstream is not kept busy for it (RFC 9112 §9.5)")
    func whileWaiting() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Ask.get())
            let upstream = try await server.peer()
            _ = try await upstream.head()
            try await client.endOutput()
            try await upstream.closed()
            try await client.closed()
            #expect(client.received == 0)
        }
    }

    @Test("In the middle of a head or a body it is gone, and nothing is forwarded as whole (RFC 9112 §8)")
    func inBody() async throws {
        try await Tunnel.gateway { gateway, server in
            let inHead = try await RawPeer.connect(port: gateway.port)
            inHead.send("GET /public/a HTTP/1.1\r\nHost: a\r\n")
            try await inHead.endOutput()
            try await inHead.closed()
            #expect(server.peers.isEmpty)
            let inBody = try await RawPeer.connect(port: gateway.port)
            inBody.send("POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
            let upstream = try await server.peer()
            _ = try await upstream.head()
            #expect(try await upstream.text(7) == "2\r\nab\r\n")
            try await inBody.endOutput()
            try await upstream.closed()
            #expect(upstream.unread.isEmpty)
        }
    }

    @Test("Between requests it is the end of the connection (RFC 9112 §9.6)")
    func idle() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Ask.get())
            _ = try await client.head()
            try await client.endOutput()
            try await client.closed()
        }
    }
}
