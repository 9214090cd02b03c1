import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Login cookies and upstreams")
struct LoginCookieStrippingTests {
    private let cookie = SessionCookie(CookieConfiguration(name: "sid"), hasLogins: true)

    private func forwarded(_ value: String, by cookie: SessionCookie) throws -> String {
        let head = try RequestHead.with("Cookie: \(value)")
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 1_024) { writer in
            for field in head.fields where field.name == .cookie {
                _ = cookie.writeOtherCookies(
                    of: field, from: head.bytes.readableBytesUInt8Span, into: &writer, hasWritten: false)
            }
        }
        return String(buffer: buffer)
    }

    @Test(
        "Identity rule 2: a login cookie never reaches an upstream",
        arguments: [
            ("sid-login-abcdefgh=x", ""), ("a=b; sid-login-abcdefgh=x", "Cookie: a=b"),
            ("sid-login-=x; a=b", "Cookie: a=b"), ("sid-login-a=x; sid-login-b=y; c=d; sid=z", "Cookie: c=d"),
            ("sid-login-a", ""), (" sid-login-a = x ;a=b", "Cookie: a=b"),
        ])
    func loginCookieNeverReachesAnUpstream(value: String, rest: String) throws {
        try expect(forwarded(value, by: cookie), equals: rest)
        for lines in ["Cookie: \(value)", "Cookie: a=b\r\nCookie: \(value)", "Cookie: \(value)\r\nCookie: a=b"] {
            var head = try RequestHead.with(lines)
            let summary = RequestHeaderPolicy(injectable: [], cookie: cookie).apply(&head, isTrusted: false)
            expect(summary.rewritesCookies)
            expect(head.fields.allSatisfy { $0.name != .cookie || $0.isStripped })
        }
    }

    @Test(
        "Other cookies are forwarded",
        arguments: ["a=b", "sid-logout=x", "xsid-login-a=x", "SID-login-a=x", "sid-logi=x"])
    func others(value: String) throws {
        try expect(forwarded(value, by: cookie), equals: "Cookie: \(value)")
    }

    @Test("Without providers a cookie of such a name is the application's")
    func withoutProviders() throws {
        let plain = SessionCookie(CookieConfiguration(name: "sid"))
        try expect(forwarded("sid-login-a=x", by: plain), equals: "Cookie: sid-login-a=x")
        let isSet = plain.setsSessionCookie(by: Array("sid-login-a=x".utf8).span)
        expect(!isSet)
        expect(empty: plain.loginCookies(try RequestHead.with("Cookie: sid-login-a=x")))
        var head = try RequestHead.with("Cookie: sid-login-a=x")
        let summary = RequestHeaderPolicy(injectable: [], cookie: plain).apply(&head, isTrusted: false)
        expect(!summary.rewritesCookies)
        expect(head.fields.contains { $0.name == .cookie && !$0.isStripped })
    }

    @Test(
        "Identity rule 2: no upstream sets or clears a login cookie",
        arguments: [
            "sid-login-a=x", " sid-login-a=x; Path=/", "=sid-login-a=x", "sid-login-a; Max-Age=0", "sid-login-",
        ])
    func setCookie(value: String) {
        let isSet = cookie.setsSessionCookie(by: Array(value.utf8).span)
        expect(isSet)
    }

    @Test("The login cookies of a request are read from all fields, however many there are")
    func reading() throws {
        let head = try RequestHead.with("Cookie: a=b; sid-login-a=x; sid=z\r\nCookie: sid-login-b=y")
        expect(
            cookie.loginCookies(head),
            equals: [
                ReceivedCookie(name: "sid-login-a", value: Array("x".utf8)),
                ReceivedCookie(name: "sid-login-b", value: Array("y".utf8)),
            ])
        let many = (0..<300).map { "sid-login-\($0)=x" }.joined(separator: "; ")
        expect(cookie.loginCookies(try RequestHead.with("Cookie: \(many)")).count, equals: 300)
    }
}
