import CloakroomCore
import TestSupport
import Testing

@Suite("Ambiguous requests", .serialized)
struct MalformedRequestTests {
    /// Bytes that follow a malformed request and must never be parsed as a request.
    private static let smuggled = "GET /public/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    /// A request and the status of its response.
    struct Case: Sendable, CustomTestStringConvertible {
        let status: Int
        let request: String
        let rule: String

        init(_ status: Int, _ request: String, _ rule: String) {
            self.status = status
            self.request = request
            self.rule = rule
        }

        var testDescription: String { "\(rule): \(request.prefix(60))" }
    }

    private static let head = "POST /public/a HTTP/1.1\r\nHost: a\r\n"

    static let cases = [
        Case(400, head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        Case(400, head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "RFC 9112 §6.3"),
        Case(400, head + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", "RFC 9112 §6.3"),
        Case(400, head + "Content-Length: +4\r\n\r\nabcd", "RFC 9112 §6.3"),
        Case(400, head + "Content-Length: 4,4\r\n\r\nabcd", "RFC 9112 §6.3"),
        Case(400, head + "Content-Length: -1\r\n\r\n", "RFC 9112 §6.3"),
        Case(400, head + "Content-Length:\r\n\r\n", "RFC 9112 §6.3"),
        Case(400, head + "Transfer-Encoding: chunked, gzip\r\n\r\n", "RFC 9112 §6.1"),
        Case(400, head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        Case(501, head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        Case(400, "POST /public/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        Case(400, "GET /public/a HTTP/1.1\nHost: a\n\n", "RFC 9112 §2.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "RFC 9112 §5.1"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "RFC 9112 §5.1"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", "RFC 9112 §5.2"),
        Case(400, "GET /public/a HTTP/1.1\r\n Host: a\r\n\r\n", "RFC 9112 §2.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n", "RFC 9110 §5.5"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", "RFC 9110 §5.5"),
        Case(400, "GET /public/a HTTP/1.1\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: a b\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost:\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a HTTP/1.1\r\nHost: user@a\r\n\r\n", "RFC 9110 §4.2.4"),
        Case(400, "GET http://a@b/public/a HTTP/1.1\r\nHost: b\r\n\r\n", "RFC 9110 §4.2.4"),
        Case(400, "GET http:///public/a HTTP/1.1\r\nHost: b\r\n\r\n", "RFC 9112 §3.2.2"),
        Case(400, "GET ftp://a/public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2.2"),
        Case(400, "GET public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2.1"),
        Case(400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2.4"),
        Case(400, "G@T /public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9110 §9.1"),
        Case(400, "GET  /public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
        Case(400, "GET /public/a b HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2"),
        Case(400, "GET /public/a\r\n\r\n", "RFC 9112 §2.3"),
        Case(505, "GET /public/a HTTP/2.0\r\nHost: a\r\n\r\n", "RFC 9112 §2.3"),
        Case(
            414, "GET /public/\(String(repeating: "a", count: 9_000)) HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9110 §15.5.15"),
        Case(
            431, "GET /public/a HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 17_000))\r\n\r\n",
            "RFC 6585 §5"),
        Case(
            431, "GET /public/a HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: b\r\n", count: 101))\r\n", "RFC 6585 §5"),
        Case(501, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "RFC 9110 §9.3.6"),
    ]

    @Test(
        "They are rejected, the connection ends, and neither they nor the following bytes reach the upstream",
        arguments: cases)
    func rejected(request: Case) async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(request.request + Self.smuggled)
            #expect(response.status == request.status)
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(client.unread.isEmpty)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("A malformed request after a valid one does not affect the valid one, and ends the connection")
    func second() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/public/good") + "GET /public/bad HTTP/1.1\r\nBad Name: x\r\n\r\n" + Self.smuggled)
            #expect(try await client.response().text == "ok")
            #expect(try await client.response().status == 400)
            try await client.closed()
            #expect(client.unread.isEmpty)
            #expect(gateway.upstream.requests.map(\.line) == ["GET /public/good HTTP/1.1"])
        }
    }

    @Test("A rejection is counted by its reason")
    func counted() async throws {
        try await GatewaySetup().run { gateway in
            _ = try await gateway.client().exchange("GET / HTTP/1.1\r\nBad Name: x\r\n\r\n")
            try await gateway.metric("cloakroom_wire_rejections_total{kind=\"field_name\"} 1")
        }
    }

    @Test("A client that continues to send after a rejection can still read the response (RFC 9112 §9.6)")
    func rejectionIsReadable() async throws {
        try await GatewaySetup().run { gateway in
            let client = try await gateway.client()
            client.send("POST /public/a HTTP/1.1\r\nBad Name: x\r\n\r\n" + String(repeating: "x", count: 400_000))
            #expect(try await client.response().status == 400)
            try await client.closed()
        }
    }
}
