import CloakroomCore
import TestSupport
import Testing

@Suite("Response framing (RFC 9112 §6.3)", .serialized)
struct ResponseFramingTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nETag: \"a\"\r\n\r\n"
    private static let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"
    private static let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX"
    private static let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT"
    private static let partial =
        "HTTP/1.1 206 Partial Content\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
        + "Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nETag: W/\"1\"\r\nContent-Range: bytes 0-1/9\r\n"
        + "Content-Length: 2\r\n\r\nok"

    /// An upstream connection with these responses.
    private static func responding(_ responses: String...) -> GatewaySetup {
        GatewaySetup(responses.flatMap { [.request, .send($0)] })
    }

    /// A response without a body, whatever its fields contain, and the next one on the same connections.
    private static func bodiless(_ status: Int, _ response: String) -> Scenario {
        Scenario(
            response.debugDescription, on: responding(response, Reply.ok),
            .ask(Ask.get(), status, text: "", has: ["Transfer-Encoding"]), .ok())
    }

    @Test(
        "The body that the client receives has the framing of its version",
        arguments: [
            Scenario(
                "A response to HEAD has no body, whatever its fields contain", on: responding(head, Reply.ok),
                .ask(
                    "HEAD /public/a HTTP/1.1\r\nHost: a\r\n\r\n", 200, has: ["Content-Length: 5000", "ETag: \"a\""]),
                .ok(), .run { expect($0.upstream.connections.count, equals: 1) }),
            bodiless(204, Reply.noContent),
            bodiless(304, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 77\r\n\r\n"),
            bodiless(304, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Scenario(
                "A chunked response stays chunked (RFC 9112 §7.1)", on: .replying(chunked),
                .ask(Ask.get(), 200, text: "abc0123456789abcdef", has: ["Transfer-Encoding: chunked"]),
                .ask(Ask.get(), 200, text: "abc0123456789abcdef", has: ["Transfer-Encoding: chunked"]),
                .run { expect($0.upstream.connections.count, equals: 1) }),
            Scenario(
                "A chunked response is sent to an HTTP/1.0 client without chunks, and the connection ends",
                on: .replying(chunked),
                .ask(
                    "GET /public/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, text: "abc0123456789abcdef",
                    has: ["Transfer-Encoding", "Content-Length", "Connection: close"])),
            Scenario(
                "A response delimited by connection close is chunked for HTTP/1.1",
                on: GatewaySetup(
                    [.request, .send("HTTP/1.1 200 OK\r\n\r\nall of"), .send(" it"), .close],
                    [.request, .send(Reply.ok)]),
                .ask(Ask.get(), 200, text: "all of it", has: ["Transfer-Encoding: chunked"]), .ok()),
            Scenario(
                "A response delimited by connection close is delimited in the same way for HTTP/1.0",
                on: GatewaySetup([.request, .send("HTTP/1.0 200 OK\r\n\r\nall of it"), .close]),
                .ask(
                    "GET /public/a HTTP/1.0\r\n\r\n", 200, text: "all of it",
                    has: ["Transfer-Encoding", "Content-Length"])),
            Scenario(
                "Invalid framing before any byte of the response was sent is 502; later the response is aborted",
                on: GatewaySetup([.request, .send(broken)], [.request, .send(Reply.ok)]), .ask(Ask.get(), 502), .ok()),
            Scenario(
                "A response without Date gets one, and one with Date keeps it (RFC 9110 §6.6.1)",
                on: responding(Reply.ok, "HTTP/1.1 200 OK\r\n\(date)\r\nContent-Length: 2\r\n\r\nok"),
                .ok(Ask.get(), has: ["Date: … GMT"]), .ok(Ask.get(), has: [date])),
            Scenario(
                "Hop-by-hop fields are removed, and other fields are forwarded unchanged (RFC 9110 §7.6.1)",
                on: responding(partial),
                .ask(
                    Ask.get("/public/a", "Range: bytes=0-1"), 206,
                    has: [
                        "Content-Range: bytes 0-1/9", "ETag: W/\"1\"", "Connection", "X-Hop", "Keep-Alive",
                        "Proxy-Authenticate", "Upgrade",
                    ]),
                sent: [.init("…", has: ["Range: bytes=0-1"])]),
        ])
    func row(_ row: Scenario) async throws { try await row.run() }

    @Test(
        "An upstream that closes in the middle of a body: the response to the client is aborted (RFC 9112 §8)",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        ])
    func cut(response: String) async throws {
        try await GatewaySetup([.request, .send(response), .close]).run { gateway, client in
            let cut = await #expect(throws: ResponseTruncated.self) { try await client.exchange(Ask.get()) }
            expect(cut?.response.map { $0.status == 200 && $0.text.hasPrefix("abc") }, equals: true)
            try await client.closed()
        }
    }

    @Test("An HTTP/1.0 client can detect an aborted response: its connection is reset (RFC 9112 §8)")
    func cutTo10() async throws {
        let gate = Gate()
        try await GatewaySetup(
            [
                .request, .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), .wait(gate),
                .close,
            ]
        ).run { gateway, client in
            client.send("GET /public/a HTTP/1.0\r\n\r\n")
            try await eventually("the first bytes") { client.unread.hasSuffix("abc") }
            gate.open()
            try await client.closed()
            expect(client.wasReset)
        }
    }

    @Test("A status line without a reason phrase is forwarded as it is (RFC 9112 §4)")
    func noReason() async throws {
        try await GatewaySetup(
            [
                .request, .send("HTTP/1.1 103\r\nLink: </a>\r\n\r\nHTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
                .request, .send("HTTP/1.1 299 \r\nContent-Length: 2\r\n\r\nok"),
            ]
        ).run { gateway, client in
            let early = try await client.exchange(Ask.get())
            expect(early.status, equals: 103)
            expect(empty: early.reason)
            let response = try await client.response()
            expect(response.status, equals: 200)
            expect(empty: response.reason)
            try await expect(client.exchange(Ask.get()).status, equals: 299)
        }
    }
}
