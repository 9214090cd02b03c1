import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Secrets")
struct SecretTests {
    private struct Holder {
        var secret: Secret
        var list: [Secret]
        var name: [String: Secret]
    }

    @Test("Rule 22: printing, interpolating, dumping or reflecting a secret does not show it")
    func redaction() {
        let secret = Secret("canary")
        expect(secret.description, equals: "<redacted>")
        expect(secret.debugDescription, equals: "<redacted>")
        expect("\(secret)", equals: "<redacted>")
        expect(empty: Mirror(reflecting: secret).children)
        let holder = Holder(secret: secret, list: [secret], name: ["a": secret])
        var dumped = ""
        dump(secret, to: &dumped)
        dump(holder, to: &dumped)
        var printed = ""
        print(secret, [secret], Optional(secret) as Any, holder, to: &printed)
        debugPrint(secret, holder, to: &printed)
        // As text and as its bytes.
        for text in [dumped, printed, String(reflecting: holder), String(describing: holder)] {
            expect(!text.contains("canary"))
            expect(!text.contains("99, 97"))
            expect(!text.contains("- 99"))
        }
        expect(printed.contains("<redacted>"))
    }

    @Test("Secrets are equal if all their bytes are equal")
    func equality() {
        expect(Secret("abc"), equals: Secret(bytes: [97, 98, 99]))
        expect(Secret("abc") != Secret("abd"))
        expect(Secret("abc") != Secret("xbc"))
        expect(Secret("abc") != Secret("ab"))
        expect(Secret(""), equals: Secret(bytes: []))
        expect(Secret("").isEmpty)
        expect(Set([Secret("a"), Secret("a"), Secret("b")]).count, equals: 2)
        // Eight bytes are compared at a time: each of them, and those after the last eight, count.
        for count in 0...40 {
            let bytes = (0..<count).map { UInt8($0) }
            expect(Secret(bytes: bytes), equals: Secret(bytes: Array(bytes)))
            for index in bytes.indices {
                var other = bytes
                other[index] ^= 1 << UInt8(index % 8)
                expect(Secret(bytes: bytes) != Secret(bytes: other), "\(count) bytes, \(index)")
            }
        }
    }

    @Test("Rule 77: a connection keeps a token of at most 2,048 bytes with its scheme, for one site")
    func acceptedToken() {
        let session = ProviderFixture.passwordSession()
        var accepted = AcceptedToken()
        expect(accepted.key(of: Span<UInt8>(), site: 0), equals: nil)
        let field = [UInt8](repeating: 0x61, count: AcceptedToken.maxLength)
        accepted.keep(Secret(bytes: field), of: session, site: 1)
        expect(accepted.key(of: field.span, site: 1) == session.key && accepted.key(of: field.span, site: 0) == nil)
        expect(accepted.key(of: Array(field.dropLast()).span, site: 1), equals: nil)
        let longer = field + [0x61]
        accepted.keep(Secret(bytes: longer), of: session, site: 1)
        expect(accepted.key(of: longer.span, site: 1) == nil && accepted.key(of: field.span, site: 1) == session.key)
    }
}
