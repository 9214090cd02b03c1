import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The cookie with the proof of a device")
struct BoundCookieTests {
    private static let configuration = CookieConfiguration(name: "sid")
    private let cookie = SessionCookie(configuration, hasDevices: true)
    private static let ticket = String(repeating: "A", count: 43)

    private static func head(_ lines: [String]) throws -> RequestHead {
        try RequestHead.with(lines: lines)
    }

    private func proof(_ lines: String..., by cookie: SessionCookie? = nil) throws -> String? {
        let head = try Self.head(lines)
        var others = OtherCookies()
        _ = (cookie ?? self.cookie).read(head, others: &others)
        guard case .value = others.bound else { return nil }
        return String(decoding: DeviceFields(head, cookie: others.bound).cookie, as: UTF8.self)
    }

    @Test(
        "Rule 52: a request that may have cookies of others is known, also if the session cookie cannot be used",
        arguments: [
            ("sid=#", false), ("sid=#; sid-bound=abc", false), (" ;; sid-bound=abc;sid=#; ", false), ("", false),
            ("sid=#; sid=#", false), ("a=1; sid=#", true), ("sid=#; sid-bound=abc; a", true), ("sid=x; a=1", true),
            ("sid=#; sid=x", true), ("sid-bound=a; sid-boundx=b", true), ("sid-login-x=1; sid=#", true), ("=", true),
        ])
    func foreign(line: String, isForeign: Bool) throws {
        var others = OtherCookies()
        var head = try Self.head(["Cookie: " + line.replacing("#", with: Self.ticket)])
        _ = cookie.read(head, others: &others)
        expect(others.hasForeign, equals: isForeign)
        let summary = RequestHeaderPolicy(injectable: [], cookie: cookie).apply(&head, isTrusted: false)
        expect(summary.rewritesCookies, equals: isForeign)
        others = OtherCookies()
        _ = cookie.read(try Self.head(["Cookie: sid=\(Self.ticket)", "Cookie: a=b"]), others: &others)
        expect(others.hasForeign)
    }

    @Test("Rule 118: one value is read, and of several none; other names are other cookies")
    func read() throws {
        try expect(proof("Cookie: sid=\(Self.ticket); sid-bound=abc; x=1"), equals: "abc")
        try expect(proof("Cookie: sid-bound=abc", "Cookie: sid=\(Self.ticket)"), equals: "abc")
        try expect(proof("Cookie: sid-bound=abc; sid-bound=abc"), equals: nil)
        try expect(proof("Cookie: sid-bound=abc", "Cookie: sid-bound=def"), equals: nil)
        try expect(
            proof("Cookie: SID-bound=a; sid-boun=a; sid-boundx=a; xsid-bound=a; sid=\(Self.ticket)"), equals: nil)
        try expect(proof("Cookie: sid-bound=abc", by: SessionCookie(Self.configuration)), equals: nil)
    }

    @Test("Rule 118: upstreams neither get nor set it")
    func stripped() throws {
        let policy = RequestHeaderPolicy(injectable: [], cookie: cookie)
        for line in ["a=1; sid-bound=abc; b=2", "sid-bound=abc; a=1; sid=\(Self.ticket); b=2"] {
            var head = try Self.head(["Cookie: \(line)"])
            expect(policy.apply(&head, isTrusted: false).rewritesCookies)
            var buffer = ByteBuffer()
            buffer.writeHead(reserving: 256) { writer in
                for field in head.fields where field.name == .cookie {
                    _ = cookie.writeOtherCookies(
                        of: field, from: head.bytes.readableBytesUInt8Span, into: &writer, hasWritten: false)
                }
            }
            expect(String(buffer: buffer), equals: "Cookie: a=1; b=2")
        }
        for value in ["sid-bound=x", "sid-bound=; Max-Age=0", " =sid-bound=x", "sid-bound"] {
            let isSet = cookie.setsSessionCookie(by: Array(value.utf8).span)
            expect(isSet, "\(value)")
        }
        for value in ["sid-boundx=x", "Sid-bound=x", "a=sid-bound"] {
            let isSet = cookie.setsSessionCookie(by: Array(value.utf8).span)
            expect(!isSet, "\(value)")
        }
    }

    @Test("It has the attributes of the session cookie, so that both are sent with the same requests")
    func attributes() {
        let strict = SessionCookie(CookieConfiguration(), hasDevices: true)
        expect(strict.boundAttributes, equals: "Path=/; HttpOnly; Secure; SameSite=Strict")
        expect(
            strict.boundCookieValue("v", maxAge: .seconds(600)),
            equals: "__Host-cloakroom-bound=v; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=600")
        let lax = SessionCookie(CookieConfiguration(sameSite: .lax), hasDevices: true)
        expect(lax.boundAttributes, equals: "Path=/; HttpOnly; Secure; SameSite=Lax")
    }

    @Test("The fields of the protocol are read raw and as quoted strings")
    func fields() throws {
        let head = try Self.head([
            "Secure-Session-Response: \"a.b.c\"", "SEC-SECURE-SESSION-ID: 0123456789abcdef",
        ])
        let fields = DeviceFields(head, cookie: .absent)
        expect(fields.proof == Array("a.b.c".utf8) && fields.sessionID == Array("0123456789abcdef".utf8))
        expect(fields.cookie.isEmpty && "\(fields)" == "DeviceFields")
        for (value, text) in [("\"", "\""), ("", ""), ("\"\"", ""), ("\"a", "\"a"), ("a", "a")] {
            let head = try Self.head(["Secure-Session-Response: \(value)"])
            expect(DeviceFields(head, cookie: .absent).proof, equals: Array(text.utf8), "\(value)")
        }
    }
}
