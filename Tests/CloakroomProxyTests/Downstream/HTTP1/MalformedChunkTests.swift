import CloakroomCore
import NIOCore
import TestSupport
import Testing

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
        try await Tunnel.gateway { gateway, server in
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
