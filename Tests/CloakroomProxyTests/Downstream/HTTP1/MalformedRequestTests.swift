import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Ambiguous requests", .serialized)
struct MalformedRequestTests {
    /// Bytes that follow a malformed request and must never be parsed as a request.
    fileprivate static let smuggled = "GET /public/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    private static let get = "GET /public/a HTTP/1.1\r\n"
    private static let post = "POST /public/a HTTP/1.1\r\nHost: a\r\n"

    /// Requests that break a rule in different ways, between the same bytes.
    fileprivate static func rows(
        _ status: Int, _ rule: String, _ start: String, _ ways: [String], _ end: String = "\r\n\r\n"
    ) -> [WireExchange] {
        ways.map { way in
            WireExchange(
                "\(rule): \(way.prefix(60).debugDescription)", start + way + end + smuggled,
                [.init(status, nil, "Connection: close")], upstream: [])
        }
    }

    /// One request for each error of the parser, which has a corpus of its own; and errors of hosts and targets.
    private static let malformed: [WireExchange] = [
        rows(
            400, "RFC 9112 §6", post,
            [
                "Content-Length: 4\r\nContent-Length: 5", "Content-Length: 4\r\nTransfer-Encoding: chunked",
                "Transfer-Encoding: chunked, gzip", "Transfer-Encoding : chunked",
            ], "\r\n\r\nabcd"),
        rows(400, "RFC 9112 §6.1", "POST /public/a HTTP/1.0\r\n", ["Transfer-Encoding: chunked"], "\r\n\r\n0\r\n\r\n"),
        rows(501, "RFC 9112 §6.1", post, ["Transfer-Encoding: gzip, chunked"], "\r\n\r\n0\r\n\r\n"),
        rows(
            400, "RFC 9112 §5, RFC 9110 §5.5", get + "Host: a\r\n",
            ["X : b", ": b", "X: b\r\n c", "X: b\0", "X: b\rc", "X: b\nY: c"]),
        rows(
            400, "RFC 9112 §3.2", get,
            [
                "", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n", "Host: a b\r\n", "Host:\r\n",
                "Host: user@a\r\n", "Host: a, b\r\n", "Host: a/b\r\n", "Host: a:b\r\n",
            ], "\r\n"),
        rows(
            400, "RFC 9112 §3.2", "",
            [
                "GET http://a@b/public/a HTTP/1.1", "GET http:///public/a HTTP/1.1", "GET ftp://a/public/a HTTP/1.1",
                "GET public/a HTTP/1.1", "GET * HTTP/1.1", "G@T /public/a HTTP/1.1",
            ], "\r\nHost: a\r\n\r\n"),
        rows(
            400, "RFC 9112 §2.2, §2.3, §3.2.2", "",
            [
                "GET /public/a HTTP/1.1\nHost: a\n\n", "GET /public/a\r\n\r\n", "GET /\r\n",
                "GET http://a/public/a HTTP/1.1\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n X\r\n\r\n",
            ], ""),
        rows(505, "RFC 9112 §2.3", "GET /public/a ", ["HTTP/2.0", "HTTP/3.0"], "\r\nHost: a\r\n\r\n"),
        rows(501, "RFC 9110 §9.3.6", "", ["CONNECT a:443 HTTP/1.1\r\nHost: a:443"]),
    ].flatMap(\.self)

    @Test(
        "They are rejected, the connection ends, and neither they nor the following bytes reach the upstream",
        arguments: malformed)
    func rejected(row: WireExchange) async throws { try await row.run() }

    @Test(
        "Rejections and other bytes on the connection",
        arguments: [
            WireExchange(
                "A malformed request after a valid one does not affect the valid one, and ends the connection",
                Ask.get("/public/good") + "GET /public/bad HTTP/1.1\r\nBad Name: x\r\n\r\n" + smuggled,
                [.init(200, "ok"), 400], upstream: ["GET /public/good HTTP/1.1"]),
            WireExchange(
                "A rejection is counted by its reason", "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n", [400],
                metric: "cloakroom_rejections_total{reason=\"field_name\"} 1"),
            WireExchange(
                "A client that continues to send after a rejection can still read the response (RFC 9112 §9.6)",
                "POST /public/a HTTP/1.1\r\nBad Name: x\r\n\r\n" + String(repeating: "x", count: 400_000), [400]),
        ])
    func other(row: WireExchange) async throws { try await row.run() }

    private static let options = Array(repeating: "b", count: 32).joined(separator: ",")

    @Test("Rule 46: a request with more than 32 connection options is 400, and the connection ends")
    func connectionOptions() async throws {
        let line = "Connection: \(Self.options)"
        try await WireExchange(
            "", Ask.get("/public/a", line) + Ask.get("/public/b", line, "Connection: c"), [.init(200, "ok"), 400],
            upstream: ["GET /public/a HTTP/1.1"],
            metric: "cloakroom_rejections_total{reason=\"connection_options\"} 1"
        ).run()
    }

    @Test(
        "Rule 46: a response with more than 32 connection options is 502, an interim one too",
        arguments: ["200 OK", "103 Hints"])
    func connectionOptionsOfResponse(status: String) async throws {
        let response = "HTTP/1.1 \(status)\r\nConnection: \(Self.options),b\r\nContent-Length: 2\r\n\r\nok"
        try await Scenario(
            "", on: GatewaySetup([.request, .send(response)], [.request, .send(Reply.ok)]), .ask(Ask.get(), 502), .ok()
        ).run()
    }

    @Test("A field value may contain spaces, tabs and any byte above ASCII (RFC 9110 §5.5)")
    func oddButGood() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let response = try await gateway.client().exchange(
                Ask.get("/public/a", "X-Odd: \t a\tb  c é \t", "X-Empty:", "X-Empty-Too:  ", "!#$%&'*+-.^_`|~9: tokens")
            )
            expect(response.text, equals: "ok")
            let request = gateway.upstream.requests[0]
            expect(request.head.contains("a\tb  c é"))
            expect(request.head.contains("!#$%&'*+-.^_`|~9: tokens"))
            expect(request.values("X-Empty").count, equals: 1)
        }
    }
}

@Suite("Ambiguous chunked bodies (RFC 9112 §7.1)", .serialized)
struct MalformedChunkTests {
    /// Chunks and ends that break a rule after a valid first chunk: one for each error of the decoder, which has a corpus
    /// of its own.
    private static let chunks: [String] = [
        "+1\r\na", "ffffffffffffffff\r\na", "1\na", "1\r\nab", "1;\r\na",
        "1;\(String(repeating: "a", count: 5_000))\r\na", String(repeating: "1;aaaaaaaaa\r\na\r\n", count: 500),
    ]

    private static let ends: [String] = [
        "0\r\nX: a\n\r\n", "0\r\nX : a\r\n\r\n", "0\r\nX: \(String(repeating: "a", count: 9_000))\r\n\r\n",
        "0\r\n\(String(repeating: "X: a\r\n", count: 101))\r\n",
    ]

    private static let bodies = chunks.map { $0 + "\r\n0\r\n\r\n" } + ends

    private static let head = "POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test("They are 400, both connections end, and the upstream receives no end of the body", arguments: bodies)
    func rejected(body: String) async throws {
        try await Tunnel.gateway(configuration: { $0.limits.requestBuffer = 0 }) { gateway, server in
            let client = try await gateway.client(sending: Self.head + "3\r\nabc\r\n")
            let upstream = try await server.requested()
            try await expect(upstream.text(8), equals: "3\r\nabc\r\n")
            client.send(body + MalformedRequestTests.smuggled)
            let response = try await client.response()
            expect(response.status, equals: 400)
            expect(response["Connection"], equals: "close")
            try await client.closed()
            expect(empty: client.unread)
            try await upstream.closed()
            expect(!upstream.unread.contains("0\r\n\r\n"))
            expect(!upstream.unread.contains("smuggled"))
            expect(server.peers.count, equals: 1)
        }
    }

    @Test(
        "While the body is buffered they are 400, and the upstream receives nothing",
        arguments: MalformedRequestTests.rows(400, "RFC 9112 §7.1", head + "3\r\nabc\r\n", bodies, ""))
    func rejectedWhileBuffered(row: WireExchange) async throws { try await row.run() }

    @Test("Unusual but valid chunked encodings are forwarded with the same content (RFC 9112 §7.1)")
    func accepted() async throws {
        try await GatewaySetup.serving.run { gateway, client async throws in
            let body = "0000000000000003\r\nabc\r\n0A;x;y=\"z;\"\r\n0123456789\r\n1;a=b\r\n!\r\n0000;last\r\n\r\n"
            try await expect(client.exchange(Self.head + body).text, equals: "ok")
            let parts = gateway.upstream.requests[0].text.split(separator: "\r\n").enumerated()
            expect(parts.filter { $0.offset % 2 == 1 }.map(\.element).joined(), equals: "abc0123456789!")
        }
    }
}
