import CloakroomCore
import Testing

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
        #expect(secret.description == "<redacted>")
        #expect(secret.debugDescription == "<redacted>")
        #expect("\(secret)" == "<redacted>")
        #expect(Mirror(reflecting: secret).children.isEmpty)
        let holder = Holder(secret: secret, list: [secret], name: ["a": secret])
        var dumped = ""
        dump(secret, to: &dumped)
        dump(holder, to: &dumped)
        var printed = ""
        print(secret, [secret], Optional(secret) as Any, holder, to: &printed)
        debugPrint(secret, holder, to: &printed)
        // As text and as its bytes.
        for text in [dumped, printed, String(reflecting: holder), String(describing: holder)] {
            #expect(!text.contains("canary"))
            #expect(!text.contains("99, 97"))
            #expect(!text.contains("- 99"))
        }
        #expect(printed.contains("<redacted>"))
    }

    @Test("Secrets are equal if all their bytes are equal")
    func equality() {
        #expect(Secret("abc") == Secret(bytes: [97, 98, 99]))
        #expect(Secret("abc") != Secret("abd"))
        #expect(Secret("abc") != Secret("xbc"))
        #expect(Secret("abc") != Secret("ab"))
        #expect(Secret("") == Secret(bytes: []))
        #expect(Secret("").isEmpty)
        #expect(Set([Secret("a"), Secret("a"), Secret("b")]).count == 2)
    }
}
