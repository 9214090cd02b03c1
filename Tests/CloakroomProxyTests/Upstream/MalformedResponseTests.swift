import CloakroomCore
import TestSupport
import Testing

/// One response for each error of the parser, which has a corpus of its own.
@Suite("Ambiguous responses (RFC 9112 §6.3)", .serialized)
struct MalformedResponseTests {
    private static func ok(_ fields: String, _ body: String = "ok") -> String {
        "HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n\(body)"
    }

    @Test(
        "They are 502, the upstream connection is closed, and the client's serves the next request",
        arguments: [
            ok("Content-Length: 2\r\nTransfer-Encoding: chunked", "2\r\nok\r\n0\r\n\r\n"),
            ok("Content-Length: 2\r\nContent-Length: 3", "ok!"), ok("Transfer-Encoding: gzip, chunked", ""),
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "hello",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", ok("X: a\r\n folded\r\nContent-Length: 2"),
            ok("X : a\r\nContent-Length: 2"), ok("X: a\0b\r\nContent-Length: 2"),
            ok("X: \(String(repeating: "a", count: 20_000))\r\nContent-Length: 2"),
            // An interim response that declares a body.
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + Reply.ok,
        ])
    func malformed(response: String) async throws {
        try await GatewaySetup([.request, .send(response)], [.request, .send(Reply.ok)]).run { gateway, client in
            try await expect(client.exchange(Ask.get()).problem, equals: "502 failed_request")
            try await gateway.upstream.closed()
            expect(empty: client.unread)
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
        }
    }
}
