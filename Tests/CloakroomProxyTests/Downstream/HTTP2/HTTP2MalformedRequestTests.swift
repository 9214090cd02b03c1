import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// What the gateway does with requests that a header block makes malformed; the rules are tested with the decoder, except
/// those for the length of the body.
@Suite("A malformed request in HTTP/2", .serialized)
struct HTTP2MalformedRequestTests {
    /// Fields that make a valid request malformed, and the rule.
    private static let rows: [(String, [(String, String)])] = [
        ("§8.3: a pseudo-field after others", [("a", "b"), (":path", "/public/b")]),
        ("§8.2.1: a line break in a value", [("x", "a\r\nX-Evil: 1")]),
        ("§8.2.2: connection", [("connection", "keep-alive")]),
        ("RFC 9112 §6.3: content-length twice", [("content-length", "0"), ("content-length", "0")]),
        ("RFC 9110 §8.6: content-length with a sign", [("content-length", "+0")]),
        ("RFC 9110 §8.6: content-length as a list", [("content-length", "0, 0")]),
        ("RFC 9110 §8.6: an empty content-length", [("content-length", "")]),
        ("§8.1.1: content-length without a body", [("content-length", "5")]),
    ]

    @Test(
        "RFC 9113 §8.1.1: is a stream error, and other streams continue", arguments: rows)
    func malformed(rule: String, more: [(String, String)]) async throws {
        let gate = Gate()
        let waits: [ScriptedUpstream.Step] = [.request, .wait(gate), .send(Reply.ok), .again]
        let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
        try await GatewaySetup(waits, serves).runHTTP2 { gateway, client in
            client.send(.headers(1, .get("/public/1")))
            _ = try await gateway.upstream.request()
            var fields = HTTP2Fields.get()
            fields.lines += HTTP2Fields(more).lines
            client.send(.headers(3, fields), .headers(5, .get("/public/5")))
            let response = try await client.response(3)
            expect(response.reset, equals: .protocolError)
            expect(empty: response.sections)
            try await expect(client.response(5).text, equals: "ok")
            gate.open()
            try await expect(client.response(1).text, equals: "ok")
            expect(gateway.upstream.requests.map(\.line), equals: ["GET /public/1 HTTP/1.1", "GET /public/5 HTTP/1.1"])
            expect(!gateway.upstream.requests.contains { $0.head.contains("Evil") })
            expect(empty: client.goAways)
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_stream\"} 1")
        }
    }
}
