import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Trailers of responses (RFC 9110 §6.5)", .serialized)
struct ResponseTrailerTests {
    private static let response =
        "HTTP/1.1 200 OK\r\nTrailer: X-Checksum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Checksum: 1\r\n"
        + "Content-Length: 7\r\nTransfer-Encoding: chunked\r\nSet-Cookie: __Host-cloakroom=evil\r\nLocation: /evil\r\n"
        + "WWW-Authenticate: Basic\r\nConnection: close\r\nX-Other: 2\r\n\r\n"

    /// The bytes that a client receives after the head, until the gateway closes.
    private static func body(_ request: String) async throws -> String {
        try await GatewaySetup([.request, .send(response)]).run { gateway in
            let client = try await RawPeer.connect(port: gateway.port, sending: request)
            let head = try await client.head()
            expect(!head.contains("X-Checksum"))
            return String(buffer: try await client.rest())
        }
    }

    @Test("Rule 52, RFC 9110 §6.5.1: they are sent to a client with TE: trailers, except framing and state fields")
    func wanted() async throws {
        let body = try await Self.body(Ask.get("/public/a", "TE: trailers", "Connection: TE, close"))
        expect(body, equals: "2\r\nok\r\n0\r\nX-Checksum: 1\r\nX-Other: 2\r\n\r\n")
    }

    @Test("Without TE: trailers they are dropped (RFC 9110 §6.5.1)")
    func unwanted() async throws {
        try await expect(Self.body(Ask.get("/public/a", "Connection: close")), equals: "2\r\nok\r\n0\r\n\r\n")
        let other = try await Self.body(Ask.get("/public/a", "TE: gzip", "Connection: close"))
        expect(other, equals: "2\r\nok\r\n0\r\n\r\n")
    }

    @Test("They are not sent to HTTP/1.0 clients (RFC 9112 §7.1.2)")
    func version10() async throws {
        try await expect(Self.body("GET /public/a HTTP/1.0\r\nTE: trailers\r\n\r\n"), equals: "ok")
    }
}
