import CloakroomCore
import TestSupport
import Testing

@Suite("Credentials")
struct CredentialsTests {
    @Test(
        "accept a well-formed e-mail address",
        arguments: [
            "jo@example.com", "Jo.Smith+films@sub.example.co.uk", "o'neil@example.com", "a@b.c", "josé@exämple.com",
            "名@例え.jp",
        ])
    func accepted(email: String) throws {
        try expect(Credentials(email: email, password: Secret("x")).name, equals: email)
    }

    @Test(
        "Rule 10: reject an e-mail address with two @, controls, a NUL or a character with a special meaning",
        arguments: [
            "", "@", "jo", "jo@", "@example.com", "jo@example", "jo@example.", "jo@.com", "jo@-example.com",
            "jo@example-.com", "jo@@example.com", "jo@evil.com@example.com", "jo@\u{308}evil.com@example.com",
            "jo\u{0}@example.com", "jo@example.com\u{0}", "jo\u{1}@example.com", "jo@example.com\n",
            "jo@example.com\r\nX-Evil: 1", "jo\r\n@example.com", "jo @example.com", "jo\u{2028}@example.com",
            "jo:x@example.com",
            "\"jo\"@example.com", "jo@example.com,al@example.com", "<jo@example.com>", "jo@[127.0.0.1]",
            "jo\u{200b}@example.com", "jo\u{202e}@example.com", "jo@example.com\u{7f}",
            String(repeating: "a", count: 65) + "@example.com",
            "a@" + String(repeating: "b.", count: 126) + "c",
        ])
    func rejectedEmail(email: String) {
        #expect(throws: CredentialsError.name) { try Credentials(email: email, password: Secret("x")) }
    }

    @Test(
        "of kind text accept any name without control characters",
        arguments: [
            "jo", "Jo", " jo ", "jo@example.com", "EXAMPLE\\jo", "jo:x", "名", String(repeating: "a", count: 254),
        ])
    func acceptedText(name: String) throws {
        let credentials = try Credentials(name: name, kind: .text, password: Secret("x"))
        expect(credentials.name, equals: name)
        expect(credentials.account, equals: AccountName(text: name))
    }

    @Test(
        "Rule 10: of kind text reject a name that is empty, too long, or has control characters or line separators",
        arguments: [
            "", "jo\u{0}", "\u{1}jo", "jo\r\n", "jo\u{7f}", "jo\u{85}", "jo\u{2028}", "jo\u{2029}",
            String(repeating: "a", count: 255), String(repeating: "é", count: 128),
        ])
    func rejectedText(name: String) {
        #expect(throws: CredentialsError.name) { try Credentials(name: name, kind: .text, password: Secret("x")) }
    }

    @Test("reject a password that is empty or contains controls", arguments: ["", "a\u{0}b", "a\r\nb", "a\u{7f}"])
    func rejectedPassword(password: String) {
        #expect(throws: CredentialsError.password) {
            try Credentials(email: "jo@example.com", password: Secret(password))
        }
    }

    @Test("Rule 22: are not printed")
    func redacted() throws {
        let credentials = try Credentials(email: "canary@example.com", password: Secret("canary-password"))
        var dumped = ""
        dump(credentials, to: &dumped)
        for text in ["\(credentials)", String(reflecting: credentials), dumped] {
            expect(!text.contains("canary"))
        }
    }
}
