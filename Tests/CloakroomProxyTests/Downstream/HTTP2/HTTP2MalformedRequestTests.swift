import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// A request that breaks a rule, and the rule.
struct MalformedFields: Sendable, CustomTestStringConvertible {
    var rule: String
    var fields: HTTP2Fields
    var testDescription: String { rule }

    init(_ rule: String, _ fields: [(String, String)]) {
        self.rule = rule
        self.fields = HTTP2Fields(fields)
    }

    /// A valid request with additional fields after its pseudo-fields.
    static func with(_ rule: String, _ more: (String, String)...) -> MalformedFields {
        MalformedFields(rule, good + more)
    }

    /// A valid request with one pseudo-field changed or removed.
    static func changing(_ rule: String, _ name: String, to value: String?) -> MalformedFields {
        MalformedFields(rule, good.compactMap { $0.0 == name ? value.map { (name, $0) } : $0 })
    }

    static let good = [(":method", "GET"), (":scheme", "http"), (":authority", "gateway.test"), (":path", "/public/a")]
}

@Suite("A malformed request in HTTP/2", .serialized)
struct HTTP2MalformedRequestTests {
    private static let pseudoFields: [MalformedFields] = [
        .changing("§8.3.1: no :method", ":method", to: nil),
        .changing("§8.3.1: no :scheme", ":scheme", to: nil),
        .changing("§8.3.1: no :path", ":path", to: nil),
        .changing("§8.3.1: neither :authority nor host", ":authority", to: nil),
        .with("§8.3: :method twice", (":method", "GET")),
        .with("§8.3: :path twice", (":path", "/private/a")),
        .with("§8.3: :scheme twice", (":scheme", "http")),
        .with("§8.3: :authority twice", (":authority", "gateway.test")),
        .with("§8.3: an unknown pseudo-field", (":unknown", "a")),
        .with("§8.3: a pseudo-field of responses", (":status", "200")),
        .with("§8.3: a pseudo-field with an empty name", (":", "a")),
        .with("§8.3: a pseudo-field after others", ("a", "b"), (":path", "/public/b")),
        .with("RFC 8441 §4: :protocol without CONNECT", (":protocol", "websocket")),
        MalformedFields("§8.3: no fields", []),
        MalformedFields("§8.3: no pseudo-field", [("host", "gateway.test")]),
        .changing("§8.3.1: an empty :path", ":path", to: ""),
        .changing("§8.3.1: a :path without a slash", ":path", to: "public/a"),
        .changing("§8.3.1: a :path with an authority", ":path", to: "http://other.test/public/a"),
        .changing("§8.3.1: the asterisk without OPTIONS", ":path", to: "*"),
        .changing("§10.3: a space in :path", ":path", to: "/public/a HTTP/1.1"),
        .changing("§10.3: a line break in :path", ":path", to: "/public/a HTTP/1.1\r\nX-Evil: 1"),
        .changing("§10.3: NUL in :path", ":path", to: "/public/\0"),
        .changing("§8.3.1: an empty :method", ":method", to: ""),
        .changing("§10.3: a space in :method", ":method", to: "GET /private/a"),
        .changing("§10.3: a line break in :method", ":method", to: "GET\r\n"),
        .changing("§8.3.1: an empty :scheme", ":scheme", to: ""),
        .changing("§8.3.1: another :scheme", ":scheme", to: "ftp"),
        .changing("§10.3: a line break in :authority", ":authority", to: "gateway.test\r\nX-Evil: 1"),
        MalformedFields("§8.5: CONNECT without an authority", [(":method", "CONNECT")]),
        .changing("§8.5: CONNECT with :path and :scheme", ":method", to: "CONNECT"),
    ]

    private static let fields: [MalformedFields] = [
        .with("§8.3.1: :authority and host differ", ("host", "other.test")),
        .with("§8.2.1: an upper-case name", ("X-Upper", "a")),
        .with("§8.2.1: a space in a name", ("x a", "b")),
        .with("§8.2.1: a colon in a name", ("x:a", "b")),
        .with("§8.2.1: a line break in a name", ("x\r\ny", "b")),
        .with("§8.2.1: a line break in a value", ("x", "a\r\nX-Evil: 1")),
        .with("§8.2.1: CR in a value", ("x", "a\rb")),
        .with("§8.2.1: LF in a value", ("x", "a\nb")),
        .with("§8.2.1: NUL in a value", ("x", "a\0b")),
        .with("§8.2.1: a value that begins with a space", ("x", " a")),
        .with("§8.2.1: a value that ends with a tab", ("x", "a\t")),
        .with("§8.2.1: a line break in a cookie", ("cookie", "a=b\r\nX-Evil: 1")),
        .with("§8.2.2: connection", ("connection", "keep-alive")),
        .with("§8.2.2: keep-alive", ("keep-alive", "timeout=5")),
        .with("§8.2.2: proxy-connection", ("proxy-connection", "keep-alive")),
        .with("§8.2.2: transfer-encoding", ("transfer-encoding", "chunked")),
        .with("§8.2.2: upgrade", ("upgrade", "websocket")),
        .with("§8.2.2: http2-settings", ("http2-settings", "AAMAAABkAAQAAP__")),
        .with("§8.2.2: te with more than trailers", ("te", "trailers, deflate")),
        .with("§8.2.2: te with another value", ("te", "gzip")),
        .with("RFC 9112 §6.3: content-length twice", ("content-length", "0"), ("content-length", "0")),
        .with("RFC 9110 §8.6: content-length with a sign", ("content-length", "+0")),
        .with("RFC 9110 §8.6: content-length as a list", ("content-length", "0, 0")),
        .with("RFC 9110 §8.6: an empty content-length", ("content-length", "")),
        .with("§8.1.1: content-length without a body", ("content-length", "5")),
    ]

    @Test(
        "RFC 9113 §8.1.1: is a stream error, and other streams continue", arguments: pseudoFields + fields)
    func malformed(_ malformed: MalformedFields) async throws {
        let gate = Gate()
        let waits: [ScriptedUpstream.Step] = [.request, .wait(gate), .send(Reply.ok), .again]
        let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
        try await GatewaySetup(waits, serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .get("/public/1")))
            _ = try await gateway.upstream.request()
            client.send(.headers(3, malformed.fields), .headers(5, .get("/public/5")))
            let response = try await client.response(3)
            #expect(response.reset == .protocolError)
            #expect(response.sections.isEmpty)
            #expect(try await client.response(5).text == "ok")
            gate.open()
            #expect(try await client.response(1).text == "ok")
            #expect(gateway.upstream.requests.map(\.line) == ["GET /public/1 HTTP/1.1", "GET /public/5 HTTP/1.1"])
            #expect(!gateway.upstream.requests.contains { $0.head.contains("Evil") })
            #expect(client.goAways.isEmpty)
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_stream\"} 1")
        }
    }

    @Test(
        "RFC 9113 §8.1, §8.2: trailers that break a rule are a stream error",
        arguments: [
            MalformedFields("§8.1: a pseudo-field", [(":path", "/public/b")]),
            MalformedFields("§8.2.1: an upper-case name", [("X-Upper", "a")]),
            MalformedFields("§8.2.1: a line break in a value", [("x", "a\r\nx-evil: 1")]),
            MalformedFields("§8.2.1: the end of the trailers in a value", [("x", "a\r\n\r\nGET / HTTP/1.1")]),
            MalformedFields("§8.2.1: a line break in a name", [("x: 1\r\nx-evil", "1")]),
            MalformedFields("§8.2.1: a colon in a name", [("x:evil", "1")]),
            MalformedFields("§8.2.1: NUL in a value", [("x", "a\0b")]),
            MalformedFields("§8.2.1: a value that begins with a space", [("x", " a")]),
            MalformedFields("§8.2.2: connection", [("connection", "close")]),
            MalformedFields("§8.2.2: transfer-encoding", [("transfer-encoding", "chunked")]),
        ])
    func trailers(_ malformed: MalformedFields) async throws {
        try await GatewaySetup([.head], [.request, .send(Reply.ok), .again]).http2 { $0.limits.requestBuffer = 0 }.run {
            gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .post(), ends: false), .data(1, "hello"))
            _ = try await gateway.upstream.request()
            client.send(.headers(1, malformed.fields))
            let response = try await client.response(1)
            #expect(response.reset == .protocolError)
            try await gateway.upstream.closed()
            #expect(try await client.exchange(3, .get()).text == "ok")
        }
    }

    @Test("RFC 9113 §8.1: a field section within a body that does not end the stream is a stream error")
    func sectionInTheMiddle() async throws {
        try await GatewaySetup([.head], [.request, .send(Reply.ok), .again]).http2 { $0.limits.requestBuffer = 0 }.run {
            gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .post(), ends: false), .data(1, "hello"))
            _ = try await gateway.upstream.request()
            client.send(.headers(1, HTTP2Fields([("x", "y")]), ends: false))
            #expect(try await client.reset(1) == .protocolError)
            try await gateway.upstream.closed()
            #expect(try await client.exchange(3, .get()).text == "ok")
        }
    }
}
