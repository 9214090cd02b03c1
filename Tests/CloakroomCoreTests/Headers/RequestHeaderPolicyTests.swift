import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Request header policy")
struct RequestHeaderPolicyTests {
    private let policy = RequestHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(CookieConfiguration()))

    /// Returns the field lines that the policy keeps.
    private func kept(_ lines: String..., isTrusted: Bool = false) throws -> [String] {
        var head = try RequestHead.with(lines.joined(separator: "\r\n"))
        _ = policy.apply(&head, isTrusted: isTrusted)
        return head.kept
    }

    private func summary(_ lines: String..., isTrusted: Bool = false) throws -> RequestHeaderPolicy.RequestHeaderSummary
    {
        var head = try RequestHead.with(lines.joined(separator: "\r\n"))
        return policy.apply(&head, isTrusted: isTrusted)
    }

    @Test("RFC 9110 §7.6: other fields are forwarded unchanged and in order")
    func untouched() throws {
        let lines = [
            "Accept: */*", "User-Agent: a", "Range: bytes=0-1", "If-None-Match: \"a\"", "Accept-Encoding: br",
            "Content-Type: text/plain", "Content-Length: 5", "Cookie: a=b; c=d", "X-Other: 1", "X-Api: 2",
            "Max-Forwards: 3",
            "Accept: text/html", "X-Forward: a", "Proxy-Other: b",
        ]
        try expect(kept(lines.joined(separator: "\r\n")), equals: lines)
    }

    @Test(
        "Rule 1: names that fold to one of the gateway's are dropped, in any spelling and from any peer",
        arguments: [
            "X-API-TOKEN", "x-api-token", "X_API_TOKEN", "X.Api.Token", "X-Api_Token", "x~api!token", "x`api'token",
            "Authorization", "AUTHORIZATION", "authorization", "aUtHoRiZaTiOn", "Proxy-Authorization",
            "proxy_authorization", "Proxy.Authorization", "X-Client-Cert-Subject", "x_client_cert_subject",
            "X.CLIENT.Cert-Subject",
        ])
    func folding(name: String) throws {
        for isTrusted in [false, true] {
            try expect(kept("A: b", "\(name): stolen", "C: d", isTrusted: isTrusted), equals: ["A: b", "C: d"])
        }
    }

    @Test(
        "Rule 1: similar names are forwarded",
        arguments: ["XAPITOKEN", "X-API-TOKENS", "X--API-TOKEN", "X-API-TOKE"])
    func lookalikes(name: String) throws {
        try expect(kept("\(name): a"), equals: ["\(name): a"])
    }

    @Test("Rule 2: a known field is dropped too if it may be injected")
    func knownInjectable() throws {
        let policy = RequestHeaderPolicy(injectable: ["Content-Type"], cookie: SessionCookie(CookieConfiguration()))
        var head = try RequestHead.with("Content-Type: a", "content_type: b", "Accept: c")
        _ = policy.apply(&head, isTrusted: true)
        expect(head.kept, equals: ["Accept: c"])
    }

    @Test("Rule 3: Connection cannot remove Content-Length, or the body would be parsed as the next request")
    func lengthCannotBeNamedAway() throws {
        try expect(kept("Connection: Content-Length, a", "content-length: 5", "A: b"), equals: ["content-length: 5"])
    }

    @Test(
        "RFC 9110 §7.6.1: hop-by-hop fields are dropped",
        arguments: [
            "Connection: close", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: trailers", "Trailer: A",
            "Transfer-Encoding: chunked", "Upgrade: h2c", "HTTP2-Settings: AA", "Proxy-Authenticate: Basic",
            "Proxy-Authentication-Info: a", "Proxy-Authorization: Basic YQ==",
        ])
    func hopByHop(line: String) throws {
        for isTrusted in [false, true] {
            try expect(kept(line, "A: b", isTrusted: isTrusted), equals: ["A: b"])
        }
    }

    @Test("RFC 9112 §9.3: the options of Connection are reported")
    func connectionOptions() throws {
        try expect(summary("A: b").connection, equals: ConnectionOptions())
        try expect(summary("Connection: Close").connection.hasClose)
        try expect(summary("Connection: a ,, KEEP-ALIVE").connection.hasKeepAlive)
        let both = try summary("Connection: keep-alive", "Connection: x,close").connection
        expect(both.hasClose && both.hasKeepAlive)
        expect(!both.persists(minorVersion: 1))
        try expect(!summary("Connection: closed").connection.hasClose)
        expect(ConnectionOptions().persists(minorVersion: 1))
        expect(!ConnectionOptions().persists(minorVersion: 0))
        try expect(summary("Connection: keep-alive").connection.persists(minorVersion: 0))
        expect(ConnectionOptions.read(try RequestHead.with("Connection: close")).hasClose)
    }

    @Test(
        "Rule 7: forwarding fields of untrusted peers are dropped in any spelling; those of trusted peers are kept",
        arguments: [
            "Forwarded: for=1.2.3.4", "Via: 1.1 a", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https",
            "X-Forwarded-Host: evil", "X-Forwarded-Port: 1", "X-Forwarded-Server: a", "X-Real-IP: 1.2.3.4",
            "x_forwarded_for: 1.2.3.4", "X.Forwarded.Host: evil", "X_Real_IP: 1.2.3.4", "X-Forwarded-Prefix: /a",
            "X-Forwarded-Uri: /a", "x_forwarded_method: a", "X-Forwarded-: a",
        ])
    func forwarding(line: String) throws {
        try expect(kept(line, "A: b"), equals: ["A: b"])
        try expect(kept(line, "A: b", isTrusted: true), equals: [line, "A: b"])
    }

    @Test("Rule 7: whether a trusted peer's protocol and host are kept is reported")
    func keptForwarding() throws {
        let lines = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: a"
        let trusted = try summary(lines, isTrusted: true)
        expect(trusted.trustsForwardedProto && trusted.trustsForwardedHost)
        let stranger = try summary(lines)
        expect(!stranger.trustsForwardedProto && !stranger.trustsForwardedHost)
        // A field that `Connection` names is not kept.
        try expect(!summary("Connection: x-forwarded-proto", lines, isTrusted: true).trustsForwardedProto)
    }

    @Test(
        "Fields that are rewritten are dropped, also from trusted peers",
        arguments: ["Host: a", "X-Request-Id: a", "traceparent: a", "tracestate: a"])
    func writtenAnew(line: String) throws {
        try expect(empty: kept(line))
        try expect(empty: kept(line, isTrusted: true))
    }

    @Test(
        "Other spellings of framing fields, and the proxy field of CGI, are dropped",
        arguments: [
            "Content_Length: 0", "Transfer_Encoding: chunked", "transfer.encoding: chunked", "Proxy: http://evil",
        ])
    func framingLookalikes(line: String) throws {
        try expect(kept(line, "Content-Length: 5"), equals: ["Content-Length: 5"])
        try expect(empty: kept(line, isTrusted: true))
    }

    @Test("Rule 52: if the session cookie is present, all Cookie fields are dropped and rewritten without it")
    func cookies() throws {
        try expect(kept("Cookie: a=b", "Cookie: __Host-cloakroom=x; c=d", "A: b"), equals: ["A: b"])
        try expect(summary("Cookie: a=b", "Cookie: __Host-cloakroom=x").hasSessionCookie)
        try expect(!summary("Cookie: a=b; __Host-cloakroomx=y").hasSessionCookie)
    }

    @Test(
        "RFC 9110 §10.1.1: 100-continue is the only supported expectation",
        arguments: [
            ("A: b", .none), ("Expect: 100-continue", .continue), ("Expect: 100-Continue", .continue),
            ("Expect: 100-continued", .unknown), ("Expect:", .unknown), ("Expect: a", .unknown),
            ("Expect: 100-continue, a", .unknown), ("Expect: a\r\nExpect: 100-continue", .unknown),
            ("Expect: 100-continue\r\nExpect: a", .unknown),
            ("Expect: 100-continue\r\nExpect: 100-continue", .continue),
        ] as [(String, RequestHeaderPolicy.Expectation)])
    func expectation(lines: String, expected: RequestHeaderPolicy.Expectation) throws {
        try expect(summary(lines).expectation, equals: expected)
    }

    @Test(
        "RFC 9110 §10.1.4: whether the client accepts trailers is reported, and TE is dropped",
        arguments: [
            ("A: b", false), ("TE: trailers", true), ("TE: Trailers", true), ("TE: gzip;q=0.5, trailers", true),
            ("TE: gzip\r\nTE: trailers", true), ("TE: gzip", false), ("TE: trailersx", false), ("TE:", false),
            ("Connection: TE\r\nTE: trailers", true),
        ])
    func trailers(lines: String, expected: Bool) throws {
        try expect(summary(lines).acceptsTrailers, equals: expected)
        try expect(kept(lines, "X: y").filter { $0 != "A: b" }, equals: ["X: y"])
    }

    @Test(
        "RFC 6455 §4.2.1: a WebSocket is requested if Upgrade names only it and Connection names Upgrade",
        arguments: [
            ("Connection: Upgrade\r\nUpgrade: websocket", true), ("Connection: upgrade\r\nUpgrade: WebSocket", true),
            ("Upgrade: websocket\r\nConnection: keep-alive, Upgrade", true), ("Upgrade: websocket", false),
            ("Connection: Upgrade", false), ("Connection: Upgrade\r\nUpgrade: h2c", false),
            ("Connection: Upgrade\r\nUpgrade: websocket, h2c", false),
            ("Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket", false),
            ("Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket", false),
            ("Connection: Upgrade\r\nUpgrade: websocket/13", false),
            ("Connection: websocket\r\nUpgrade: websocket", false),
        ])
    func webSocket(lines: String, expected: Bool) throws {
        try expect(summary(lines).requestsWebSocket, equals: expected)
        try expect(empty: kept(lines))
        var head = try RequestHead.with(lines, start: "GET / HTTP/1.0")
        expect(!policy.apply(&head, isTrusted: false).requestsWebSocket, "RFC 9110 §7.8: not in HTTP/1.0")
    }

    @Test("RFC 9110 §7.6.2: Max-Forwards of OPTIONS is reported and rewritten; of other methods it is forwarded")
    func maxForwards() throws {
        var head = try RequestHead.with("Max-Forwards: 3", "A: b", start: "OPTIONS * HTTP/1.1")
        expect(policy.apply(&head, isTrusted: false).maxForwards, equals: .value(3))
        expect(head.kept, equals: ["A: b"])
        for method in ["GET", "options", "OPTION"] {
            var head = try RequestHead.with("Max-Forwards: 3", start: "\(method) / HTTP/1.1")
            expect(policy.apply(&head, isTrusted: false).maxForwards, equals: .absent)
            expect(head.kept, equals: ["Max-Forwards: 3"])
        }
    }

    @Test(
        "A trusted peer's request id is reported if it is unique and valid for logs",
        arguments: [
            ("X-Request-Id: 3f0c-A_b.c~d+e/f=:@", "3f0c-A_b.c~d+e/f=:@"), ("x-request-id: a", "a"), ("A: b", nil),
            ("X-Request-Id:", nil), ("X-Request-Id: a b", nil), ("X-Request-Id: a,b", nil), ("X-Request-Id: a\"b", nil),
            ("X-Request-Id: é", nil), ("X-Request-Id: a\r\nX-Request-Id: a", nil),
            ("X-Request-Id: a b\r\nX-Request-Id: c", nil),
            ("X-Request-Id: a\r\nX-Request-Id: a\r\nX-Request-Id: a", nil),
        ] as [(String, String?)])
    func requestID(lines: String, expected: String?) throws {
        var head = try RequestHead.with(lines)
        let trusted = policy.apply(&head, isTrusted: true)
        expect(head.text(trusted.requestID), equals: expected)
        try expect(summary(lines).requestID, equals: nil)
        try expect(!kept(lines, isTrusted: true).contains { $0.lowercased().hasPrefix("x-request-id") })
    }

    @Test("A request id has at most 128 characters", arguments: [128, 129])
    func longRequestID(count: Int) throws {
        let summary = try summary("X-Request-Id: " + String(repeating: "a", count: count), isTrusted: true)
        expect(summary.requestID?.count, equals: (count == 128 ? 128 : nil))
    }
}
