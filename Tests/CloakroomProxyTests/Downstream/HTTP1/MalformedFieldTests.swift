import CloakroomCore
import TestSupport
import Testing

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
