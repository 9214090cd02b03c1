import CloakroomCore
import TestSupport
import Testing

@Suite("Ambiguous responses (RFC 9112 §6.3)", .serialized)
struct MalformedResponseTests {
    @Test(
        "They are 502, and the upstream connection is closed",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "hello",
            "\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nX: \(String(repeating: "a", count: 20_000))\r\nContent-Length: 2\r\n\r\nok",
        ])
    func malformed(response: String) async throws {
        try await GatewaySetup([.request, .send(response)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get())
            #expect(response.status == 502)
            #expect(response.code == "failed_request")
            try await gateway.upstream.closed()
            #expect(client.unread.isEmpty)
        }
    }

    @Test("The client's connection remains usable for the next request")
    func clientGoesOn() async throws {
        try await GatewaySetup([.request, .send("hello")], [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).status == 502)
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }
}
