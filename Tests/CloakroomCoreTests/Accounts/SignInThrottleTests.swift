import CloakroomCore
import TestSupport
import Testing

@Suite("The keys of sign-in attempts")
struct SignInThrottleTests {
    private let key = KeyedHash(key0: 5, key1: 6)

    private func keys(_ email: String, _ address: String) -> [ThrottleKey] {
        SignInThrottle.keys(account: AccountName(email: email), address: address, under: key)
    }

    /// The keys by which all attempts are counted.
    private func attempts(_ email: String, _ address: String) -> [ThrottleKey] {
        let all = SignInThrottle.keys(
            account: AccountName(email: email), address: address, countsAll: true, under: key)
        expect(Array(all.dropLast(2)), equals: keys(email, address))
        return Array(all.suffix(2))
    }

    @Test("are the account with the address, the address, and the account")
    func scopes() {
        let keys = keys("jo@example.com", "192.0.2.1")
        expect(keys.map(\.scope), equals: [.accountAndAddress, .address, .account])
        expect(Set(keys.map(\.hash)).count, equals: 3)
    }

    @Test(
        "Rule 21: are the same for every spelling of an account",
        arguments: ["JO\u{301}@Example.COM", " j\u{f3}@example.com\t", "j\u{f3}@EXAMPLE.com"])
    func spellings(email: String) {
        expect(keys(email, "192.0.2.1"), equals: keys("j\u{f3}@example.com", "192.0.2.1"))
    }

    @Test("differ from the two keys by which all attempts are counted")
    func allAttempts() {
        let keys = attempts("jo@example.com", "192.0.2.1")
        expect(keys.map(\.scope), equals: [.attemptsOfAccount, .attempts])
        expect(Set((keys + self.keys("jo@example.com", "192.0.2.1")).map(\.hash)).count, equals: 5)
        expect(attempts("JO@example.com", "192.0.2.1"), equals: keys)
        expect(attempts("jo@example.com", "192.0.2.2").allSatisfy { !keys.contains($0) })
        expect(attempts("al@example.com", "192.0.2.1")[1], equals: keys[1])
    }

    @Test("Rule 32: all attempts are limited to 20 of an account and 100 of an address, or as configured")
    func attemptRules() {
        expect(SignInThrottle.rule(.attemptsOfAccount).limit, equals: 20)
        expect(SignInThrottle.rule(.attempts).limit, equals: 100)
        expect(SignInThrottle.rule(.attempts, attemptsPerAddress: 7).limit, equals: 7)
        expect(SignInThrottle.rule(.attempts, attemptsPerAddress: 0).limit, equals: 1)
    }

    @Test("Rule 35: spellings with marks on letters have an additional common key, which the plain one has not")
    func summary() {
        let (umlaut, acute) = (keys("j\u{f6}@example.com", "192.0.2.1"), keys("j\u{f3}@example.com", "192.0.2.1"))
        let plain = keys("jo@example.com", "192.0.2.1")
        expect(umlaut.map(\.scope), equals: [.accountAndAddress, .address, .account, .spelling])
        expect(umlaut[3], equals: acute[3])
        expect(umlaut[2] == acute[2] && umlaut[2] == plain[2])
        expect(umlaut[0] != acute[0])
        expect(Set(plain).isDisjoint(with: [umlaut[0], umlaut[3]]))
        expect(umlaut[3] != keys("j\u{f6}@example.com", "192.0.2.2")[3])
        expect(SignInThrottle.rule(.spelling), equals: SignInThrottle.rule(.accountAndAddress))
    }

    @Test(
        "Rule 35: look-alikes are counted as the name that they fold to, and by an additional common key",
        arguments: [
            ("adm\u{131}n@a.b", "admin@a.b"), ("stra\u{df}e@a.b", "strasse@a.b"), ("\u{ff4a}o@a.b", "jo@a.b"),
        ])
    func lookAlikes(one: String, other: String) {
        let (lookAlike, plain) = (keys(one, "192.0.2.1"), keys(other, "192.0.2.1"))
        expect(Array(lookAlike.prefix(3)), equals: plain)
        expect(lookAlike.map(\.scope), equals: [.accountAndAddress, .address, .account, .spelling])
        expect(attempts(one, "192.0.2.1"), equals: attempts(other, "192.0.2.1"))
    }

    @Test("are equal only for equal parts")
    func parts() {
        let one = keys("jo@example.com", "192.0.2.1")
        let otherAddress = keys("jo@example.com", "192.0.2.2")
        let otherAccount = keys("al@example.com", "192.0.2.1")
        expect(one[0] != otherAddress[0] && one[1] != otherAddress[1] && one[2] == otherAddress[2])
        expect(one[0] != otherAccount[0] && one[1] == otherAccount[1] && one[2] != otherAccount[2])
        expect(keys("jo@example.com", "2001:db8::1"), equals: keys("jo@example.com", "2001:db8::ffff:2"))
        expect(keys("jo@example.com", "2001:db8::1") != keys("jo@example.com", "2001:db8:0:1::1"))
    }

    @Test("Rule 13: do not collide for parts with equal concatenation")
    func lengths() {
        expect(keys("jo@example.com", "xy")[0] != keys("jo@example.comx", "y")[0])
        expect(keys("a@b.c", "")[0].hash != keys("a@b.c", "")[2].hash)
    }

    @Test("are one group for all counts of an address, and another one for the account from all addresses")
    func groups() {
        func groups(_ email: String, _ address: String) -> Set<UInt64> {
            let callback = SignInThrottle.keys(address: address, countsAll: true, under: key)
            let all = keys(email, address).filter { $0.scope != .account } + attempts(email, address)
            return Set((all + callback).map(\.group))
        }
        let one = groups("j\u{f6}@example.com", "192.0.2.1")
        expect(one.count, equals: 1)
        expect(groups("al@example.com", "192.0.2.1"), equals: one)
        expect(groups("al@example.com", "192.0.2.2").isDisjoint(with: one))
        let ofAll = keys("jo@example.com", "192.0.2.1")[2]
        expect(ofAll.group == ofAll.hash && !one.contains(ofAll.group))
    }

    @Test("Rule 32: are also those of the /48 of an IPv6 address, in one group, which a store counts in one step")
    func network() {
        func keys(_ address: String, _ email: String = "jo@example.com") -> [ThrottleKey] {
            SignInThrottle.keys(account: AccountName(email: email), address: address, countsAll: true, under: key)
        }
        let (one, other) = (keys("2001:db8:1:2::1"), keys("2001:db8:1:3::1", "al@example.com"))
        let scopes: Set<ThrottleKey.Scope> = [
            .accountAndAddress, .address, .account, .attemptsOfAccount, .network, .attempts, .attemptsOfNetwork,
        ]
        expect(one.count == scopes.count && Set(one.map(\.scope)) == scopes && Set(one.map(\.hash)).count == one.count)
        expect(zip(one, other).filter { $0 == $1 }.map(\.0.scope), equals: [.network, .attemptsOfNetwork])
        expect(Set((one + other).filter { $0.scope != .account }.map(\.group)).count, equals: 1)
        let elsewhere = keys("2001:db8:2:2::1").filter { $0.scope != .account }
        expect(Set(elsewhere.map(\.group)).isDisjoint(with: one.map(\.group)))
        let callback = SignInThrottle.keys(address: "2001:db8:1:2::9", countsAll: true, under: key)
        expect(callback.count == 4 && callback.allSatisfy(one.contains))
        expect(SignInThrottle.rule(.network).limit, equals: 480)
        expect(SignInThrottle.rule(.attemptsOfNetwork, attemptsPerAddress: 7).limit, equals: 112)
    }

    @Test("disclose nothing without the hash key")
    func keyed() {
        let other = KeyedHash(key0: 7, key1: 8)
        expect(
            SignInThrottle.keys(account: AccountName(email: "a@b.c"), address: "::1", under: other)
                != keys("a@b.c", "::1"))
    }

    @Test(
        "A wait is reported in whole seconds, rounded up",
        arguments: [(0, 1), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (300_000, 300)] as [(Int, Int)])
    func retryAfter(milliseconds: Int, seconds: Int) {
        expect(SignInThrottle.retryAfter(.milliseconds(milliseconds)), equals: seconds)
    }
}
