import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Response header policy")
struct ResponseHeaderPolicyTests {
    private let policy = ResponseHeaderPolicy(cookie: SessionCookie(CookieConfiguration()))

    private func mark(_ lines: String...) throws -> (
        kept: [String], summary: ResponseHeaderPolicy.ResponseHeaderSummary
    ) {
        var head = try ResponseHead.with(lines.joined(separator: "\r\n"))
        let summary = policy.apply(&head)
        return (head.kept, summary)
    }

    @Test("Other fields are forwarded unchanged")
    func untouched() throws {
        let lines = [
            "Content-Type: a", "Content-Length: 2", "ETag: \"a\"", "Set-Cookie: a=b", "Server: c", "Via: 1.1 d",
        ]
        try expect(mark(lines.joined(separator: "\r\n")).kept, equals: lines)
    }

    @Test("RFC 9110 §7.6.1: hop-by-hop fields and fields that Connection names are dropped")
    func hopByHop() throws {
        let result = try mark(
            "Connection: close, x-a", "X-A: b", "Keep-Alive: a", "Transfer-Encoding: chunked", "Upgrade: h2c",
            "Trailer: a",
            "Proxy-Authenticate: Basic", "Proxy-Connection: close", "TE: a", "X-B: c")
        expect(result.kept, equals: ["X-B: c"])
        expect(result.summary.connection.hasClose)
    }

    @Test(
        "RFC 9110 §8.6: interim responses and 204 lose their Content-Length",
        arguments: [(103, false), (204, false), (200, true), (304, true)])
    func lengthWithoutContent(status: Int, isKept: Bool) throws {
        var head = try ResponseHead.with("Content-Length: 5")
        head.status = status
        let summary = policy.apply(&head)
        expect(head.kept, equals: (isKept ? ["Content-Length: 5"] : []))
        expect(summary.hasContentLength, equals: isKept)
    }

    @Test("Connection cannot remove Content-Length")
    func lengthCannotBeNamedAway() throws {
        let result = try mark("Connection: content-length", "Content-Length: 5")
        expect(result.kept, equals: ["Content-Length: 5"])
        expect(result.summary.hasContentLength)
    }

    @Test(
        "Rules 29 and 52: an upstream cannot set or clear the session cookie",
        arguments: [
            "__Host-cloakroom=abc", "__Host-cloakroom=abc; Path=/; Secure", "__Host-cloakroom=; Max-Age=0",
            "__Host-cloakroom", "__Host-cloakroom;Path=/", " \t__Host-cloakroom\t = abc", "__Host-cloakroom ;a",
            "=__Host-cloakroom=abc", " = __Host-cloakroom=abc", "=__Host-cloakroom",
        ])
    func ourCookie(value: String) throws {
        try expect(mark("Set-Cookie: \(value)", "set-cookie: \(value)", "A: b").kept, equals: ["A: b"])
    }

    @Test(
        "Rule 29: cookies with other names are forwarded",
        arguments: [
            "__Host-cloakroomx=a", "_Host-cloakroom=a", "__host-cloakroom=a", "a=__Host-cloakroom",
            "a=b; __Host-cloakroom=c",
            "x__Host-cloakroom=a", "=",
        ])
    func otherCookies(value: String) throws {
        try expect(mark("Set-Cookie: \(value)").kept, equals: ["Set-Cookie: \(value)"])
    }

    @Test("Rule 30: whether the upstream set caching fields is reported")
    func summary() throws {
        let nothing = try mark("A: b").summary
        expect(nothing, equals: ResponseHeaderPolicy.ResponseHeaderSummary())
        let all = try mark("Date: a", "Cache-Control: public", "Vary: b", "Content-Length: 0").summary
        expect(all.hasDate && all.addressesSharedCaches && all.hasContentLength && !all.variesByCookie)
        // A field that is removed at this hop does not count.
        let removed = try mark("Connection: cache-control, vary", "Cache-Control: public", "Vary: *").summary
        expect(!removed.addressesSharedCaches && !removed.variesByCookie)
    }

    @Test(
        "RFC 6455 §4.2.2: an upgrade to WebSocket is reported",
        arguments: [
            ("Connection: Upgrade\r\nUpgrade: WebSocket", true), ("Upgrade: websocket", false),
            ("Connection: Upgrade\r\nUpgrade: h2c", false), ("A: b", false),
        ])
    func webSocket(lines: String, expected: Bool) throws {
        try expect(mark(lines).summary.isUpgradeToWebSocket, equals: expected)
    }

    @Test(
        "An event stream is recognized by its content type, with or without parameters",
        arguments: [
            ("Content-Type: text/event-stream", true), ("content-type: Text/Event-Stream", true),
            ("Content-Type: text/event-stream;charset=utf-8", true), ("Content-Type: text/event-stream ; a=b", true),
            ("Content-Type: text/event-streams", false), ("Content-Type: text/plain; a=text/event-stream", false),
            ("Content-Type:", false), ("A: text/event-stream", false),
        ])
    func eventStream(line: String, expected: Bool) throws {
        let result = try mark(line)
        expect(result.summary.isEventStream, equals: expected)
        expect(result.kept.count, equals: 1)
    }
}
