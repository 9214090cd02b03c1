import CloakroomCore
import NIOCore
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
            try await gateway.metric("cloakroom_rejections_total{reason=\"field_name\"} 1")
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

@Suite("Ambiguous chunked bodies (RFC 9112 §7.1)", .serialized)
struct MalformedChunkTests {
    /// A body that follows a valid first chunk, and the rule that it breaks.
    struct Case: Sendable, CustomTestStringConvertible {
        let body: String
        let rule: String

        init(_ body: String, _ rule: String) {
            self.body = body
            self.rule = rule
        }

        var testDescription: String { "\(rule): \(body.prefix(40).debugDescription)" }
    }

    static let cases = [
        Case("+1\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a sign"),
        Case("-1\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a sign"),
        Case("0x1\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a prefix"),
        Case(" 1\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a space before"),
        Case("1 \r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a space after"),
        Case("\t1\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: a tab before"),
        Case("1_0\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: no digit"),
        Case("g\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: no digit"),
        Case("\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: no size"),
        Case(";a=b\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: no size"),
        Case("10000000000000001\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: 17 digits, 1 in 64 bits"),
        Case("00000000000000001\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: 17 digits"),
        Case("ffffffffffffffff\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: overflow"),
        Case("8000000000000000\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1: overflow"),
        Case("1\na\r\n0\r\n\r\n", "RFC 9112 §2.2: a bare line feed after the size"),
        Case("1\ra\r\n0\r\n\r\n", "RFC 9112 §2.2: a bare carriage return after the size"),
        Case("1\r\na\n0\r\n\r\n", "RFC 9112 §2.2: a bare line feed after the chunk"),
        Case("1\r\na0\r\n\r\n", "RFC 9112 §7.1: no line break after the chunk"),
        Case("1\r\nab\r\n0\r\n\r\n", "RFC 9112 §7.1: more bytes than the size"),
        Case("1;\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: a bare semicolon"),
        Case("1;a b\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: a name that is no token"),
        Case("1;a=\"b\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: a quoted string that does not end"),
        Case("1;a=\nb\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: a line feed in an extension"),
        Case("1;a=\0\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: a control in an extension"),
        Case("1;\(String(repeating: "a", count: 5_000))\r\na\r\n0\r\n\r\n", "RFC 9112 §7.1.1: an overlong extension"),
        Case(String(repeating: "1;aaaaaaaaa\r\na\r\n", count: 500) + "0\r\n\r\n", "RFC 9112 §7.1.1: overlong in all"),
        Case("0\r\nX: a\n\r\n", "RFC 9112 §2.2: a bare line feed in the trailers"),
        Case("0\n\r\n", "RFC 9112 §2.2: a bare line feed after the last chunk"),
        Case("0\r\n\n", "RFC 9112 §2.2: a bare line feed at the end"),
        Case("0\r\n X: a\r\n\r\n", "RFC 9112 §5.2: a folded trailer"),
        Case("0\r\nX : a\r\n\r\n", "RFC 9112 §5.1: a space before the colon of a trailer"),
        Case("0\r\nno trailer\r\n\r\n", "RFC 9112 §7.1.2: no field"),
        Case("0\r\nX: a\0b\r\n\r\n", "RFC 9110 §5.5: a control in a trailer"),
        Case("0\r\nX: \(String(repeating: "a", count: 9_000))\r\n\r\n", "RFC 9110 §6.5: trailers too long"),
        Case("0\r\n\(String(repeating: "X: a\r\n", count: 101))\r\n", "RFC 9110 §6.5: too many trailers"),
    ]

    private static let head = "POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let smuggled = "GET /public/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    @Test("They are 400, both connections end, and the upstream receives no end of the body", arguments: cases)
    func rejected(body: Case) async throws {
        try await Tunnel.gateway(configuration: { $0.limits.requestBuffer = 0 }) { gateway, server in
            let client = try await gateway.client()
            client.send(Self.head + "3\r\nabc\r\n")
            let upstream = try await server.peer()
            _ = try await upstream.head()
            #expect(try await upstream.text(8) == "3\r\nabc\r\n")
            client.send(body.body + Self.smuggled)
            let response = try await client.response()
            #expect(response.status == 400)
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(client.unread.isEmpty)
            try await upstream.closed()
            #expect(!upstream.unread.contains("0\r\n\r\n"))
            #expect(!upstream.unread.contains("smuggled"))
            #expect(server.peers.count == 1)
        }
    }

    @Test("While the body is buffered they are 400, and the upstream receives nothing", arguments: cases)
    func rejectedWhileBuffered(body: Case) async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Self.head + "3\r\nabc\r\n" + body.body + Self.smuggled)
            #expect(response.status == 400)
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(client.unread.isEmpty)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Unusual but valid chunked encodings are forwarded with the same content (RFC 9112 §7.1)")
    func accepted() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let body = "0000000000000003\r\nabc\r\n0A;x;y=\"z;\"\r\n0123456789\r\n1;a=b\r\n!\r\n0000;last\r\n\r\n"
            #expect(try await client.exchange(Self.head + body).text == "ok")
            let parts = gateway.upstream.requests[0].text.components(separatedBy: "\r\n")
            #expect(parts.enumerated().filter { $0.offset % 2 == 1 }.map(\.element).joined() == "abc0123456789!")
        }
    }
}

extension String {
    fileprivate func components(separatedBy separator: String) -> [Substring] {
        split(separator: separator, omittingEmptySubsequences: true)
    }
}

@Suite("Ambiguous request heads: fields", .serialized)
struct MalformedFieldTests {
    private static let head = "POST /public/a HTTP/1.1\r\nHost: a\r\n"
    private static let get = "GET /public/a HTTP/1.1\r\nHost: a\r\n"

    static let cases = [
        MalformedRequestTests.Case(400, head + "Content-Length: 0x5\r\n\r\nabcde", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, head + "Content-Length: 5 5\r\n\r\nabcde", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, head + "Content-Length: 5;\r\n\r\nabcde", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, head + "Content-Length: 99999999999999999999\r\n\r\n", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, head + "Content-Length: 18446744073709551621\r\n\r\nabcde", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        MalformedRequestTests.Case(
            400, head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        MalformedRequestTests.Case(400, head + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        MalformedRequestTests.Case(501, head + "Transfer-Encoding: identity\r\n\r\n", "RFC 9112 §6.1"),
        MalformedRequestTests.Case(501, head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "RFC 9112 §6.1"),
        MalformedRequestTests.Case(400, head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "RFC 9112 §5.1"),
        MalformedRequestTests.Case(400, head + "Transfer-Encoding: \u{b}chunked\r\n\r\n0\r\n\r\n", "RFC 9110 §5.5"),
        MalformedRequestTests.Case(
            400, head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "RFC 9112 §6.3"),
        MalformedRequestTests.Case(400, get + "X: b\nY: c\r\n\r\n", "RFC 9112 §2.2"),
        MalformedRequestTests.Case(400, get + "X: b\r\n\n", "RFC 9112 §2.2"),
        MalformedRequestTests.Case(400, get + "\tX: b\r\n\r\n", "RFC 9112 §5.2"),
        MalformedRequestTests.Case(400, get + "X: b\r\n\tc\r\n\r\n", "RFC 9112 §5.2"),
        MalformedRequestTests.Case(400, get + "X\t: b\r\n\r\n", "RFC 9112 §5.1"),
        MalformedRequestTests.Case(400, get + "X(y): b\r\n\r\n", "RFC 9110 §5.1"),
        MalformedRequestTests.Case(400, get + "X\u{7f}: b\r\n\r\n", "RFC 9110 §5.1"),
        MalformedRequestTests.Case(400, get + "Xé: b\r\n\r\n", "RFC 9110 §5.1"),
        MalformedRequestTests.Case(400, get + "no colon\r\n\r\n", "RFC 9112 §5"),
        MalformedRequestTests.Case(400, get + "X: a\u{1}b\r\n\r\n", "RFC 9110 §5.5"),
        MalformedRequestTests.Case(400, get + "X: a\u{7f}b\r\n\r\n", "RFC 9110 §5.5"),
        MalformedRequestTests.Case(400, get + "X: a\u{1b}[0m\r\n\r\n", "RFC 9110 §5.5"),
        MalformedRequestTests.Case(400, "GET /public/a HTTP/1.1\r\nHost: a, b\r\n\r\n", "RFC 9112 §3.2"),
        MalformedRequestTests.Case(400, "GET /public/a HTTP/1.1\r\nHost: a/b\r\n\r\n", "RFC 9112 §3.2"),
        MalformedRequestTests.Case(400, "GET /public/a HTTP/1.1\r\nHost: a:b\r\n\r\n", "RFC 9112 §3.2"),
        MalformedRequestTests.Case(400, "GET http://a/public/a HTTP/1.1\r\n\r\n", "RFC 9112 §3.2.2"),
        MalformedRequestTests.Case(400, "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n X\r\n\r\n", "RFC 9112 §2.2"),
        MalformedRequestTests.Case(400, " GET /public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
        MalformedRequestTests.Case(400, "GET\t/public/a HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
        MalformedRequestTests.Case(400, "GET /public/a HTTP/1.1 \r\nHost: a\r\n\r\n", "RFC 9112 §3"),
        MalformedRequestTests.Case(400, "GET /public/a http/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §2.3"),
        MalformedRequestTests.Case(400, "GET /public/a HTTP/1.10\r\nHost: a\r\n\r\n", "RFC 9112 §2.3"),
        MalformedRequestTests.Case(505, "GET /public/a HTTP/3.0\r\nHost: a\r\n\r\n", "RFC 9110 §15.6.6"),
        MalformedRequestTests.Case(400, "GET /\r\n", "RFC 9112 §2.3"),
    ]

    @Test(
        "They are rejected, the connection ends, and neither they nor the following bytes reach the upstream",
        arguments: cases)
    func rejected(request: MalformedRequestTests.Case) async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(request.request + Ask.get("/public/smuggled"))
            #expect(response.status == request.status)
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(client.unread.isEmpty)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("A field value may contain spaces, tabs and any byte above ASCII (RFC 9110 §5.5)")
    func oddButGood() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let response = try await gateway.client().exchange(
                Ask.get("/public/a", "X-Odd: \t a\tb  c é \t", "X-Empty:", "X-Empty-Too:  ", "!#$%&'*+-.^_`|~9: tokens")
            )
            #expect(response.text == "ok")
            let request = gateway.upstream.requests[0]
            #expect(request.head.contains("a\tb  c é"))
            #expect(request.head.contains("!#$%&'*+-.^_`|~9: tokens"))
            #expect(request.values("X-Empty").count == 1)
        }
    }
}
