import CloakroomCore
import TestSupport
import Testing

@Suite("Response framing (RFC 9112 §6.3)", .serialized)
struct ResponseFramingTests {
    @Test("A response to HEAD has no body, whatever its fields contain")
    func head() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nETag: \"a\"\r\n\r\n"
        try await GatewaySetup([.request, .send(head), .request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("HEAD /public/a HTTP/1.1\r\nHost: a\r\n\r\n", isToHead: true)
            #expect(response["Content-Length"] == "5000")
            #expect(response["ETag"] == "\"a\"")
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(gateway.upstream.connections.count == 1)
        }
    }

    @Test(
        "204 and 304 have no body, whatever their fields contain",
        arguments: [
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 77\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        ])
    func withoutBody(head: String) async throws {
        try await GatewaySetup([.request, .send(head), .request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get())
            #expect([204, 304].contains(response.status))
            #expect(response.values("Transfer-Encoding").isEmpty)
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(client.unread.isEmpty)
        }
    }

    private static let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"

    @Test("A chunked response stays chunked (RFC 9112 §7.1)")
    func chunked() async throws {
        try await GatewaySetup([.request, .send(Self.chunked), .again]).run { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                let response = try await client.exchange(Ask.get())
                #expect(response.framing == "chunked")
                #expect(response.text == "abc0123456789abcdef")
                #expect(response.values("Transfer-Encoding") == ["chunked"])
            }
            #expect(gateway.upstream.connections.count == 1)
        }
    }

    @Test("A chunked response is sent to an HTTP/1.0 client without chunks, and the connection ends (RFC 9112 §6.1)")
    func chunkedTo10() async throws {
        try await GatewaySetup([.request, .send(Self.chunked)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("GET /public/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(response.framing == "close")
            #expect(response.text == "abc0123456789abcdef")
            #expect(response.values("Transfer-Encoding").isEmpty)
            #expect(response["Connection"] == "close")
        }
    }

    @Test("A response delimited by connection close is chunked for HTTP/1.1")
    func untilClose() async throws {
        try await GatewaySetup(
            [.request, .send("HTTP/1.1 200 OK\r\n\r\nall of"), .send(" it"), .close],
            [.request, .send(Reply.ok)]
        ).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get())
            #expect(response.framing == "chunked")
            #expect(response.text == "all of it")
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }

    @Test("A response delimited by connection close is delimited in the same way for HTTP/1.0")
    func untilCloseTo10() async throws {
        try await GatewaySetup([.request, .send("HTTP/1.0 200 OK\r\n\r\nall of it"), .close]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("GET /public/a HTTP/1.0\r\n\r\n")
            #expect(response.framing == "close")
            #expect(response.text == "all of it")
        }
    }

    @Test(
        "An upstream that closes in the middle of a body: the response to the client is aborted (RFC 9112 §8)",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        ])
    func cut(response: String) async throws {
        try await GatewaySetup([.request, .send(response), .close]).run { gateway in
            let client = try await gateway.client()
            let cut = await #expect(throws: ResponseTruncated.self) { try await client.exchange(Ask.get()) }
            #expect(cut?.response.map { $0.status == 200 && $0.text.hasPrefix("abc") } == true)
            try await client.closed()
        }
    }

    @Test(
        "Invalid framing before any byte of the response was sent is 502; later the response is aborted (RFC 9112 §7.1)"
    )
    func malformed() async throws {
        let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX"
        try await GatewaySetup([.request, .send(broken)], [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).status == 502)
            #expect(try await client.exchange(Ask.get()).text == "ok")
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
        ).run { gateway in
            let client = try await gateway.client()
            client.send("GET /public/a HTTP/1.0\r\n\r\n")
            try await eventually("the first bytes") { client.unread.hasSuffix("abc") }
            gate.open()
            try await client.closed()
            #expect(client.wasReset)
        }
    }

    @Test("A response without Date gets one, and one with Date keeps it (RFC 9110 §6.6.1)")
    func date() async throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        try await GatewaySetup(
            [
                .request, .send(Reply.ok),
                .request, .send("HTTP/1.1 200 OK\r\nDate: \(date)\r\nContent-Length: 2\r\n\r\nok"),
            ]
        ).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get())["Date"]?.hasSuffix(" GMT") == true)
            #expect(try await client.exchange(Ask.get()).values("Date") == [date])
        }
    }

    @Test("A status line without a reason phrase is forwarded as it is (RFC 9112 §4)")
    func noReason() async throws {
        try await GatewaySetup(
            [
                .request, .send("HTTP/1.1 103\r\nLink: </a>\r\n\r\nHTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
                .request, .send("HTTP/1.1 299 \r\nContent-Length: 2\r\n\r\nok"),
            ]
        ).run { gateway in
            let client = try await gateway.client()
            let early = try await client.exchange(Ask.get())
            #expect(early.status == 103)
            #expect(early.reason.isEmpty)
            let response = try await client.response()
            #expect(response.status == 200)
            #expect(response.reason.isEmpty)
            #expect(try await client.exchange(Ask.get()).status == 299)
        }
    }

    @Test("Hop-by-hop fields are removed from responses, and other fields are forwarded unchanged (RFC 9110 §7.6.1)")
    func hopByHop() async throws {
        let response =
            "HTTP/1.1 206 Partial Content\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
            + "Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nETag: W/\"1\"\r\nContent-Range: bytes 0-1/9\r\n"
            + "Content-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(response)]).run { gateway in
            let response = try await gateway.client().exchange(Ask.get("/public/a", "Range: bytes=0-1"))
            #expect(response.status == 206)
            #expect(response["Content-Range"] == "bytes 0-1/9")
            #expect(response["ETag"] == "W/\"1\"")
            for name in ["Connection", "X-Hop", "Keep-Alive", "Proxy-Authenticate", "Upgrade"] {
                #expect(response.values(name).isEmpty, "\(name)")
            }
            #expect(gateway.upstream.requests[0]["Range"] == "bytes=0-1")
        }
    }
}
