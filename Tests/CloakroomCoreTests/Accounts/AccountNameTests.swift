import TestSupport
import Testing

@testable import CloakroomCore

@Suite("An account's name")
struct AccountNameTests {
    private let key = KeyedHash(key0: 1, key1: 2)

    @Test(
        "Rule 21: does not depend on case, normalization form and surrounding blanks or controls",
        arguments: [
            ("Jo@Example.COM", "jo@example.com"), (" jo@example.com\t", "jo@example.com"),
            ("jose\u{301}@example.com", "jos\u{e9}@example.com"), ("JOSE\u{301}@example.com", "jos\u{e9}@example.com"),
            ("\u{212b}sa@example.com", "\u{e5}sa@example.com"), ("\u{1E69}@example.com", "s\u{307}\u{323}@example.com"),
            ("\u{a0}jo@example.com\u{2003}", "jo@example.com"),
            ("\u{1}jo@example.com\u{7f}", "jo@example.com"),
        ])
    func sameAccount(one: String, other: String) {
        expect(AccountName(email: one), equals: AccountName(email: other))
        expect(AccountName(email: one).hash(under: key), equals: AccountName(email: other).hash(under: key))
    }

    @Test("Rule 21: ASCII is folded without Unicode's tables to the same bytes")
    func asciiIsFolded() {
        var random = SeededGenerator(seed: 21)
        for length in 0..<400 {
            let bytes = (0..<length % 40).map { _ in UInt8.random(in: 0...127, using: &random) }
            let text = String(decoding: bytes, as: UTF8.self)
            let name = AccountName(email: text)
            expect(name.canonicalBytes, equals: AccountName.canonicalBytes(ofUnicode: text))
            for each in [name, AccountName(text: text), AccountName(canonicalBytes: bytes)] {
                expect(each.throttleBytes, equals: each.throttleBytesOfUnicode)
                expect(AccountName.withoutMarks(each.throttleBytes), equals: each.throttleBytesOfUnicode)
            }
        }
    }

    @Test(
        "Rule 35: differs from that of a look-alike; only sign-in attempts are counted together",
        arguments: [
            ("adm\u{131}n@example.com", "admin@example.com"), ("\u{fb01}n@example.com", "fin@example.com"),
            ("\u{ff2a}\u{ff2f}@example.com", "jo@example.com"), ("Stra\u{df}e@example.com", "STRASSE@example.com"),
            ("\u{1e9e}@example.com", "ss@example.com"), ("\u{3c2}@example.com", "\u{3a3}@example.com"),
        ])
    func lookAlike(one: String, other: String) {
        let (one, other) = (AccountName(email: one), AccountName(email: other))
        expect(one != other)
        expect(one.hash(under: key) != other.hash(under: key))
        expect(one.throttleBytes, equals: other.throttleBytes)
        expect(AccountName(canonicalBytes: one.throttleBytes).throttleBytes, equals: one.throttleBytes)
        expect(!SignInThrottle.isFolded(one) && SignInThrottle.isFolded(other))
    }

    @Test(
        "differs between different accounts",
        arguments: [("jo@example.com", "jo@example.org"), ("jo@example.com", "j.o@example.com"), ("é@a.b", "e@a.b")])
    func otherAccount(one: String, other: String) {
        expect(AccountName(email: one) != AccountName(email: other))
        expect(AccountName(email: one).hash(under: key) != AccountName(email: other).hash(under: key))
    }

    @Test(
        "does not change if it is normalized again",
        arguments: ["İstanbul@example.com", "ẞ@example.com", "Σ@example.com", ""])
    func idempotent(email: String) {
        let once = AccountName(email: email)
        expect(AccountName(email: String(decoding: once.canonicalBytes, as: UTF8.self)), equals: once)
    }

    @Test("Rule 35: by a user id never equals a typed name or the same id at another upstream")
    func userID() {
        let (a, b) = (SessionSource(upstream: "a"), SessionSource(upstream: "b"))
        let byID = AccountName(userID: "jo@example.com", source: a)
        expect(byID != AccountName(email: "jo@example.com"))
        expect(byID.canonicalBytes.first, equals: 2)
        expect(byID, equals: AccountName(userID: "jo@example.com", source: a))
        expect(byID != AccountName(userID: "jo@example.com", source: b))
        expect(AccountName(userID: "A", source: a) != AccountName(userID: "a", source: a))
        // A typed name cannot begin with the marker of another kind.
        for mark in ["\u{1}", "\u{2}", " \u{2}", "\u{2}\u{2}"] {
            expect(AccountName(email: mark + "jo@example.com"), equals: AccountName(email: "jo@example.com"))
        }
    }

    @Test("of kind text keeps all spellings apart, and never equals an address or a user id")
    func text() {
        expect(AccountName(text: "Jo") != AccountName(text: "jo"))
        expect(AccountName(text: " jo") != AccountName(text: "jo"))
        expect(AccountName(text: "\u{e9}") != AccountName(text: "e\u{301}"))
        expect(AccountName(text: "jo@example.com") != AccountName(email: "jo@example.com"))
        expect(AccountName(email: "\u{3}jo@example.com") != AccountName(text: "jo@example.com"))
        expect(AccountName(text: "1") != AccountName(userID: "1", source: SessionSource(upstream: "a")))
        expect(AccountName(text: "Jo").canonicalBytes.first, equals: 3)
    }

    @Test("Rule 21: of kind text shares its throttle with all spellings, and a success of one resets no other")
    func textThrottle() {
        func keys(_ name: String) -> [ThrottleKey] {
            SignInThrottle.keys(account: AccountName(text: name), address: "192.0.2.1", under: key)
        }
        let plain = keys("jo")
        for spelling in ["Jo", "JO", "j\u{f3}"] {
            let account = AccountName(text: spelling)
            expect(SignInThrottle.isFolded(account), equals: spelling == "j\u{f3}", "\(spelling)")
            expect(keys(spelling).contains { $0.scope == .spelling }, "\(spelling)")
            expect(keys(spelling).first { $0.scope == .account }, equals: plain.first { $0.scope == .account })
        }
        expect(keys("JO").first, equals: plain.first)
    }

    @Test(
        "Rule 21: of kind text shares its throttle with names that differ in white space and invisible characters",
        arguments: [
            " jo", "jo ", "j o", "jo\u{a0}", "\u{3000}jo", "j\u{200b}o", "jo\u{ad}", "\u{feff}jo", "jo\u{2060}",
            "j\u{202e}o", "jo\u{fe0f}", "jo\u{3164}", "j\u{34f}o", "\u{ff2a}\u{200d}o", "jo\u{e0020}",
        ])
    func invisible(name: String) throws {
        let account = try Credentials(name: name, kind: .text, password: Secret("x")).account
        let plain = AccountName(text: "jo")
        expect(account != plain)
        expect(account.throttleBytes, equals: plain.throttleBytes)
        expect(AccountName.withoutMarks(account.throttleBytes), equals: AccountName.withoutMarks(plain.throttleBytes))
        // A user with such a name of their own resets nothing of the plain one.
        expect(!SignInThrottle.isFolded(account) && SignInThrottle.isFolded(plain))
        expect(
            SignInThrottle.keys(account: account, address: "192.0.2.1", under: key)
                .contains { $0.scope == .spelling })
    }

    @Test(
        "without marks is the same for spellings that many databases treat as equal",
        arguments: [
            ("j\u{f6}@example.com", "jo@example.com"), ("jo\u{308}@example.com", "jo@example.com"),
            ("j\u{f8}@example.com", "J\u{f3}@example.com"), ("\u{131}@example.com", "i@example.com"),
            ("\u{e6}@example.com", "ae@example.com"), ("\u{1ed9}@example.com", "o@example.com"),
        ])
    func withoutMarks(one: String, other: String) {
        func bytes(_ email: String) -> [UInt8] { AccountName.withoutMarks(AccountName(email: email).throttleBytes) }
        expect(bytes(one), equals: bytes(other))
        expect(bytes("jo@example.com"), equals: Array("jo@example.com".utf8))
        expect(bytes(one) != bytes("x" + other))
    }

    @Test("is not printed")
    func redacted() {
        expect(!String(reflecting: AccountName(email: "canary@example.com")).contains("canary"))
    }
}

@Suite("The hashes of accounts")
struct AccountHasherTests {
    private let newest = KeyedHash(key0: 1, key1: 2)
    private let older = KeyedHash(key0: 3, key1: 4)
    private let account = AccountName(email: "canary@example.com")

    @Test("are computed with the newest key, and searched for under all keys, the newest first")
    func rotation() {
        let hashes = AccountHasher(newest, older: [older])
        expect(hashes.hash(account), equals: account.hash(under: newest))
        expect(hashes.candidateHashes(account), equals: [account.hash(under: newest), account.hash(under: older)])
        expect(hashes.newest.hash([1]), equals: newest.hash([1]))
        expect(AccountHasher(newest).candidateHashes(account), equals: [hashes.hash(account)])
    }

    @Test("of a name under a rotated key are found if both keys are known")
    func found() {
        let before = AccountHasher(older).hash(account)
        expect(AccountHasher(newest, older: [older]).candidateHashes(account).contains(before))
        expect(!AccountHasher(newest).candidateHashes(account).contains(before))
    }

    @Test("Rule 22: do not show their keys")
    func redacted() {
        let hashes = AccountHasher(newest, older: [older])
        var dumped = ""
        dump(hashes, to: &dumped)
        expect("\(hashes)", equals: "<redacted>")
        expect(!dumped.contains("key0"))
    }
}
