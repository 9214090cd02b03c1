import CloakroomCore
import Testing

@Suite("An account's name")
struct AccountNameTests {
    private let key = KeyedHash(key0: 1, key1: 2)

    @Test(
        "Rule 21: is the same for every spelling that an upstream may take for the same account",
        arguments: [
            ("Jo@Example.COM", "jo@example.com"), (" jo@example.com\t", "jo@example.com"),
            ("jose\u{301}@example.com", "jos\u{e9}@example.com"), ("JOSE\u{301}@example.com", "jos\u{e9}@example.com"),
            ("\u{212b}sa@example.com", "\u{e5}sa@example.com"), ("\u{1E69}@example.com", "s\u{307}\u{323}@example.com"),
            ("\u{a0}jo@example.com\u{2003}", "jo@example.com"),
        ])
    func sameAccount(one: String, other: String) {
        #expect(AccountName(email: one) == AccountName(email: other))
        #expect(AccountName(email: one).hash(under: key) == AccountName(email: other).hash(under: key))
    }

    @Test(
        "keeps accounts apart that are not the same",
        arguments: [("jo@example.com", "jo@example.org"), ("jo@example.com", "j.o@example.com"), ("é@a.b", "e@a.b")])
    func otherAccount(one: String, other: String) {
        #expect(AccountName(email: one) != AccountName(email: other))
        #expect(AccountName(email: one).hash(under: key) != AccountName(email: other).hash(under: key))
    }

    @Test(
        "made canonical again does not change",
        arguments: ["İstanbul@example.com", "ẞ@example.com", "Σ@example.com", ""])
    func idempotent(email: String) {
        let once = AccountName(email: email)
        #expect(AccountName(email: String(decoding: once.canonicalBytes, as: UTF8.self)) == once)
    }

    @Test("is not printed")
    func redacted() {
        #expect(!String(reflecting: AccountName(email: "canary@example.com")).contains("canary"))
    }
}
