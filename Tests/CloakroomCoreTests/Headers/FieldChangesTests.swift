import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Changes of fields")
struct FieldChangesUnitTests {
    private func lines(
        _ changes: [FieldChange], receiving fields: String = "", status: Int = 200, isSecure: Bool = false
    ) throws -> String {
        let compiled = try require(FieldChanges(changes))
        var head = try Self.head(fields)
        let bytes = head.bytes
        let present = compiled.apply(to: &head.fields, bytes.readableBytesUInt8Span)
        let lines = compiled.lines(without: present, status: status, isSecure: isSecure) { $1.append("id") }
        return String(decoding: lines, as: UTF8.self)
    }

    private static func head(_ fields: String) throws -> ResponseHead {
        var bytes = ByteBuffer(string: "HTTP/1.1 200 OK\r\n\(fields)\r\n")
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        try expect(parser.parse(&bytes, into: &head))
        return head
    }

    @Test("Values are split at names in braces, and other braces are literal")
    func split() throws {
        let texts = try require(FieldChanges.split("a{b.c}{d-1}{ {\"x\":1}}"))
        expect(texts.map(\.literal), equals: ["a", "", "{ {\"x\":1}}"])
        expect(texts.map(\.name), equals: ["b.c", "d-1", nil])
        expect(FieldChanges.split("{a") == nil)
        expect(FieldChanges.split("{a b}") == nil)
        expect(FieldChanges.split("{{a}}")?.map(\.literal), equals: ["{", "}"])
    }

    @Test("With the most names of two sections, a preset and HSTS, each name has its bit")
    func manyNames() throws {
        let many = (0..<2 * FieldChanges.maxNames).map { FieldChange(.default, "X-\($0)", "\($0)") }
        let all = many + FieldPreset.page.changes + [FieldChange(.setOverTLS, "Strict-Transport-Security", "max-age=1")]
        for (index, change) in all.enumerated() {
            let received = try lines(all, receiving: "\(change.name.uppercased()): a\r\n", isSecure: true)
            let expected = all.enumerated().filter { $0.offset != index || $0.element.kind != .default }
            expect(
                received, equals: expected.map { "\($0.element.name): \($0.element.value)\r\n" }.joined(),
                "\(change.name)")
        }
    }

    @Test("A default that is sent already is omitted, and all others are not")
    func defaults() throws {
        let changes = [FieldChange(.default, "X-A", "1"), FieldChange(.default, "X-B", "{request_id}")]
        try expect(lines(changes), equals: "X-A: 1\r\nX-B: id\r\n")
        try expect(lines(changes, receiving: "x-a: 2\r\nX-Ab: 1\r\nX: 1\r\n"), equals: "X-B: id\r\n")
        try expect(lines(changes, receiving: "X_A: 2\r\n"), equals: "X-A: 1\r\nX-B: id\r\n")
        try expect(lines(changes, status: 304), equals: "")
    }

    @Test("A field that Connection names is not present")
    func nominated() throws {
        let policy = ResponseHeaderPolicy(cookie: SessionCookie(CookieConfiguration()))
        var head = try Self.head("Connection: x-a\r\nX-A: 2\r\n")
        let changes = try require(FieldChanges([FieldChange(.default, "X-A", "1")]))
        expect(policy.apply(&head, fields: changes).presentFields, equals: 0)
        head = try Self.head("X-A: 2\r\n")
        expect(policy.apply(&head, fields: changes).presentFields != 0)
        head.status = 103
        expect(policy.apply(&head, fields: changes).presentFields, equals: 0)
    }

    @Test("A local response keeps its own fields")
    func local() throws {
        let changes = try require(
            FieldChanges([
                FieldChange(.set, "Retry-After", "9"), FieldChange(.add, "Vary", "X"),
                FieldChange(.default, "X-A", "1"),
                FieldChange(.remove, "Server"),
            ]))
        let own = Array("Retry-After: 1\r\nVary: Cookie\r\nServer: s\r\n".utf8)
        let added = changes.lines(besides: own, isSecure: false) { _, _ in }
        expect(String(decoding: added, as: UTF8.self), equals: "X-A: 1\r\n")
    }

    @Test("The changes of a route precede those of all routes and its preset, in whatever spelling")
    func merging() {
        var configuration = GatewayConfiguration.defaults
        configuration.responseFields.changes = [
            FieldChange(.set, "X-A", "all"), FieldChange(.default, "X-B", "all"), FieldChange(.remove, "Server"),
        ]
        configuration.responseFields.preset = .page
        configuration.responseFields.strictTransport.maxAge = .seconds(1)
        var route = Route(name: "a", methods: ["GET"], pattern: PathPattern(segments: []), requiresAuthorization: false)
        route.responseFields = [
            FieldChange(.remove, "x_a"), FieldChange(.set, "X-Frame-Options", "DENY"),
            FieldChange(.remove, "referrer-policy"), FieldChange(.remove, "Strict-Transport-Security"),
        ]
        let changes = configuration.responseChanges(of: route)
        expect(
            changes.map(\.name),
            equals: [
                "x_a", "X-Frame-Options", "referrer-policy", "Strict-Transport-Security", "X-B", "Server",
                "X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Cross-Origin-Opener-Policy",
            ])
        route.responsePreset = FieldPreset.none
        expect(configuration.responseChanges(of: route).count, equals: 6)
        expect(configuration.responseChanges(of: nil).count, equals: 9)
    }

    @Test("Only ids of an upstream or an issuer are user ids")
    func userID() {
        expect(AccountName(userID: "é 1", source: SessionSource(upstream: "api")).userID, equals: "é 1")
        expect(AccountName(issuer: "https://id.test", subject: "s").userID, equals: "s")
        expect(AccountName(email: "jo@example.com").userID, equals: nil)
        expect(AccountName(text: "jo").userID, equals: nil)
        expect(AccountName(canonicalBytes: [1] + [UInt8](repeating: 255, count: 9)).userID, equals: "")
        expect(AccountName(canonicalBytes: []).userID, equals: nil)
    }
}
