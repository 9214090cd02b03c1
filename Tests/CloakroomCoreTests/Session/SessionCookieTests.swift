import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The session's cookie")
struct SessionCookieTests {
    private static let valueA = String(repeating: "A", count: 43)
    private static let valueB = String(repeating: "B", count: 42) + "A"

    private let cookie = SessionCookie(CookieConfiguration(name: "sid"))

    private func read(_ lines: String...) throws -> SessionCookie.ParseResult {
        cookie.read(try RequestHead.with(lines.joined(separator: "\r\n")))
    }

    private func ticket(_ value: String) throws -> SessionTicket {
        let ticket = SessionTicket(cookieValue: Array(value.utf8).span)
        return try require(ticket)
    }

    @Test(
        "is found at any position",
        arguments: [
            "Cookie: sid=#", "cookie:sid=#", "Cookie: a=b; sid=#", "Cookie: sid=#; a=b", "Cookie: a=b;sid=#;c",
            "Cookie: a=b\r\nCookie: sid=#", "Cookie: a=b; \t sid=# ", "Cookie: sid = # ;", "Cookie: ;;sid=#;;",
            "Cookie: a; sid=#", "Cookie: =; sid=#", "Cookie: sid=#; sid=#", "Cookie: sid=#\r\nCookie: sid=#",
        ])
    func found(lines: String) throws {
        try expect(read(lines.replacing("#", with: Self.valueA)), equals: .ticket(ticket(Self.valueA)))
    }

    @Test(
        "is not found under a similar name",
        arguments: [
            "A: b", "Cookie:", "Cookie: a=b", "Cookie: sidx=#", "Cookie: xsid=#", "Cookie: SID=#", "Cookie: si=#",
            "Cookie: a=sid=#", "Cookie: a=b, sid=#", "Cookie: =sid=#", "Cookie: \"sid\"=#", "Cookie: s id=#",
            "X-Cookie: sid=#",
            "Cookie: $Version=1; $sid=#", "Cookie: ;", "Cookie: =",
        ])
    func absent(lines: String) throws {
        try expect(read(lines.replacing("#", with: Self.valueA)), equals: .absent)
    }

    @Test(
        "Rules 14 and 20: a value that cannot be a ticket is no session",
        arguments: [
            "sid", "sid=", "sid=;", "sid=a", "sid=\"#\"", "sid=#A", "sid=#=", "sid=# A", "sid=#,a", "sid==#", "sid=%#",
            "sid=ä",
            "sid=a; sid=#", "sid=#; sid=a", "sid=#; sid",
        ])
    func unusable(value: String) throws {
        try expect(read("Cookie: " + value.replacing("#", with: Self.valueA)), equals: .invalid)
    }

    @Test("Two different values are no session, in one field or in two, regardless of a third")
    func contradiction() throws {
        let (one, two) = ("sid=\(Self.valueA)", "sid=\(Self.valueB)")
        try expect(read("Cookie: \(one); \(two)"), equals: .invalid)
        try expect(read("Cookie: \(two)", "Cookie: \(one)"), equals: .invalid)
        try expect(read("Cookie: \(one); \(one); \(two)"), equals: .invalid)
        try expect(read("Cookie: \(one); \(two); \(one)"), equals: .invalid)
    }

    @Test("Rule 101: the last four tickets of a request are known, also with two values, to end their sessions")
    func tickets() throws {
        func tickets(_ lines: String) throws -> [SessionTicket] { cookie.tickets(try RequestHead.with(lines)) }
        let (one, two) = (try ticket(Self.valueA), try ticket(Self.valueB))
        let (first, second) = ("sid=\(Self.valueA)", "sid=\(Self.valueB)")
        try expect(tickets("Cookie: a=b; \(first); \(second)"), equals: [one, two])
        try expect(tickets("Cookie: \(second)\r\nCookie: sid=junk; \(first)\r\nCookie: \(second)"), equals: [two, one])
        try expect(tickets("Cookie: sid=junk; \(first)"), equals: [one])
        try expect(tickets("Cookie: sid=junk; x\(first)\r\nA: \(first)"), equals: [])
        let values = "abcdef".map { String(repeating: $0, count: 42) + "A" }
        let many = values.map { "sid=\($0)" }.joined(separator: "; ")
        try expect(tickets("Cookie: \(many)"), equals: values.suffix(4).map { try ticket($0) })
    }

    @Test(
        "Rule 52: is removed from the forwarded request; the other cookies are kept in one field",
        arguments: [
            ("Cookie: sid=x", ""),
            ("Cookie: a=b; sid=x; c=d", "Cookie: a=b; c=d"),
            ("Cookie: sid=x; a=b", "Cookie: a=b"),
            ("Cookie: a=b; sid=x", "Cookie: a=b"),
            ("Cookie: a=b;c=d ;; sid=x;e", "Cookie: a=b; c=d; e"),
            ("Cookie: sid=x\r\nCookie: a=b\r\nCookie: c=d; sid=y", "Cookie: a=b; c=d"),
            ("Cookie: sid=x\r\nCookie: sid=y", ""),
            ("Cookie: a=b\r\nCookie: sid=x\r\nCookie: c=d", "Cookie: a=b; c=d"),
            ("Cookie: sid; sid=; a==; =b; c=\"d e\"", "Cookie: a==; =b; c=\"d e\""),
            ("Cookie: sidx=1; xsid=2; SID=3; sid=4", "Cookie: sidx=1; xsid=2; SID=3"),
        ])
    func others(lines: String, expected: String) throws {
        let head = try RequestHead.with(lines)
        var buffer = ByteBuffer()
        var hasWritten = false
        buffer.writeHead(reserving: 256) { writer in
            for field in head.fields where field.name == .cookie {
                hasWritten = cookie.writeOtherCookies(
                    of: field, from: head.bytes.readableBytesUInt8Span, into: &writer, hasWritten: hasWritten)
            }
        }
        expect(String(buffer: buffer), equals: expected)
        expect(hasWritten, equals: !expected.isEmpty)
    }

    @Test("is set with the attributes that its prefix requires, and cleared with the same")
    func attributes() throws {
        let ticket = try ticket(Self.valueB)
        let strict = SessionCookie(CookieConfiguration())
        expect(
            strict.setCookieValue(ticket),
            equals: "__Host-cloakroom=\(Self.valueB); Path=/; HttpOnly; Secure; SameSite=Strict")
        expect(
            strict.clearCookieValue, equals: "__Host-cloakroom=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0")
        let loopback = SessionCookie(CookieConfiguration(name: "sid", isSecure: false, sameSite: .lax))
        expect(loopback.setCookieValue(ticket), equals: "sid=\(Self.valueB); Path=/; HttpOnly; SameSite=Lax")
        expect(loopback.clearCookieValue, equals: "sid=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0")
    }

    @Test("Rule 101: with a domain, is deleted with the Domain that it is set with")
    func domain() throws {
        let ticket = try ticket(Self.valueB)
        let shared = SessionCookie(CookieConfiguration(name: "__Secure-sid", domain: "example.com", sameSite: .lax))
        let attributes = "; Path=/; Domain=example.com; HttpOnly; Secure; SameSite=Lax; Max-Age="
        let values = [shared.setCookieValue(ticket, maxAge: .seconds(60)), shared.clearCookieValue]
        expect(values, equals: ["__Secure-sid=\(Self.valueB)\(attributes)60", "__Secure-sid=\(attributes)0"])
    }

    @Test("Rule 141: is partitioned only with SameSite=None, and deleted with the same attributes")
    func partitioned() throws {
        let ticket = try ticket(Self.valueB)
        let framed = SessionCookie(CookieConfiguration(sameSite: .always, isPartitioned: true))
        let attributes = "; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"
        expect(framed.setCookieValue(ticket), equals: "__Host-cloakroom=\(Self.valueB)\(attributes)")
        expect(framed.clearCookieValue, equals: "__Host-cloakroom=\(attributes); Max-Age=0")
        for (sameSite, isPartitioned) in [(CookieConfiguration.SameSite.always, false), (.lax, true), (.strict, true)] {
            let cookie = SessionCookie(CookieConfiguration(sameSite: sameSite, isPartitioned: isPartitioned))
            expect(!cookie.setCookieValue(ticket).contains("Partitioned"))
        }
    }

    @Test("is persistent only where configured and requested, and never outlives its session")
    func persistence() throws {
        let now = SessionTime(seconds: 1_000)
        func maxAge(_ persistence: CookieConfiguration.Persistence, isRequested: Bool, end: SessionTime) -> Duration? {
            CookieConfiguration(persistence: persistence).maxAge(isRequested: isRequested, sessionEnd: end, now: now)
        }
        let end = now + .seconds(60)
        for isRequested in [false, true] {
            expect(maxAge(.never, isRequested: isRequested, end: end), equals: nil)
            expect(maxAge(.always, isRequested: isRequested, end: end), equals: .seconds(60))
            expect(maxAge(.onRequest, isRequested: isRequested, end: end), equals: isRequested ? .seconds(60) : nil)
        }
        // A session that has ended removes its cookie.
        expect(maxAge(.always, isRequested: true, end: SessionTime(seconds: 999)), equals: .zero)
        expect(
            maxAge(.always, isRequested: true, end: SessionTime(milliseconds: .max)).map { $0 > .zero }, equals: true)
        let value = cookie.setCookieValue(try ticket(Self.valueB), maxAge: .milliseconds(59_999))
        expect(value.hasSuffix("; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=59"))
    }

    @Test("Rules 29 and 52: is recognized in a Set-Cookie field of an upstream")
    func recognisesItself() throws {
        let ticket = try ticket(Self.valueA)
        let isOurs = [cookie.setCookieValue(ticket), cookie.clearCookieValue, ""].map {
            cookie.setsSessionCookie(by: Array($0.utf8).span)
        }
        expect(isOurs, equals: [true, true, false])
    }
}
