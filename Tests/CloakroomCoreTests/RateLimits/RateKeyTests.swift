import TestSupport
import Testing

@testable import CloakroomCore

@Suite("What rate limits count by")
struct RateKeyTests {
    private typealias Fixture = ProviderFixture

    @Test("An address is an IPv4 address or a /64 of IPv6, with the key of its /48")
    func addresses() {
        let one = RateKey(peer: "2001:db8:1:2::1")
        expect(RateKey(peer: "2001:db8:1:2:ffff::9"), equals: one)
        let other = RateKey(peer: "2001:db8:1:3::1")
        expect(other.value != one.value)
        expect(other.block, equals: one.block)
        expect(RateKey(peer: "2001:db8:2:2::1").block != one.block)
        let old = RateKey(peer: "192.0.2.1")
        expect(old.block, equals: 0)
        expect(RateKey(peer: "::ffff:192.0.2.1"), equals: old)
        expect(RateKey(peer: "192.0.2.2") != old)
        expect(RateKey(peer: "unknown") != RateKey(peer: "other"))
    }

    private static func limit(
        _ subject: RateLimit.Subject = .address, _ count: Int = 60, burst: Int = 1,
        when: [RequiredClaim] = []
    ) -> RateLimit {
        var limit = RateLimit(name: "a")
        limit.subject = subject
        limit.requests = RequestRate(count, per: .minute)
        limit.givenBurst = burst
        limit.when = when
        return limit
    }

    private static func company(_ claims: String) -> Session { Fixture.session(of: Fixture.company, claims: claims) }

    @Test("Keys of different kinds with the same text are different")
    func kinds() throws {
        let session = Fixture.passwordSession()
        let text = String(decoding: session.user.account.canonicalBytes, as: UTF8.self)
        var named = RateLimit(name: text)
        named.givenBurst = 1
        let keys = [
            try require(RateKey(session, at: Self.limit(.account))), RateKey(route: text), RateKey(peer: text),
            try require(RateKey(session, at: Self.limit(.session))), RateKey(named),
        ]
        expect(Set(keys.map(\.value)).count, equals: keys.count)
        // A route has the name of a limit.
        expect(RateKey(route: "a").at(RateKey(Self.limit(.route))).value != 0)
    }

    @Test("Keys of all kinds depend on the secret of the gateway only, so that gateways agree on them")
    func secrets() throws {
        let session = Self.company(#"{"tenant":"a","admin":true}"#)
        func keys(_ key: UInt64) throws -> [RateKey] {
            let hash = KeyedHash(key0: key, key1: 1)
            let subjects = [.account, .session, .claim("tenant"), .claim("admin")] as [RateLimit.Subject]
            return try subjects.map { try require(RateKey(session, at: Self.limit($0), hash: hash)) } + [
                RateKey(peer: "192.0.2.1", hash: hash), RateKey(peer: "2001:db8::1", hash: hash),
                RateKey(peer: "unknown", hash: hash), RateKey(route: "a", hash: hash),
                RateKey(Self.limit(), hash: hash),
            ]
        }
        let mine = try keys(1)
        try expect(keys(1), equals: mine)
        expect(zip(mine, try keys(2)).allSatisfy { $0.value != $1.value && ($0.block == 0 || $0.block != $1.block) })
    }

    @Test("The key at a limit depends on the name and the rate of the limit")
    func limits() {
        var other = Self.limit()
        other.name = "b"
        var perHour = Self.limit()
        perHour.requests.period = .hour
        let address = RateKey(peer: "2001:db8::1")
        let keys = [Self.limit(), other, perHour, Self.limit(.address, 61), Self.limit(burst: 2)].map {
            address.at(RateKey($0))
        }
        expect(Set(keys.map(\.value)).count, equals: keys.count)
        expect(Set(keys.map(\.block)).count, equals: keys.count)
        var observed = Self.limit()
        observed.isEnforced = false
        expect(address.at(RateKey(observed)), equals: keys[0])
        expect(RateKey(peer: "192.0.2.1").at(RateKey(other)).block, equals: 0)
    }

    @Test("The hash of two words is that of their bytes")
    func words() {
        let hash = KeyedHash(key0: 1, key1: 2)
        let bytes = [UInt64(3), 0xfedc_ba98_7654_3210].flatMap { $0.bigEndianBytes.reversed() }
        expect(hash.hash(3, 0xfedc_ba98_7654_3210), equals: hash.hash(bytes))
    }

    @Test("A claim counts by its value and issuer; numbers, lists and objects are none")
    func claims() throws {
        func key(_ value: String, of identity: IdentityConfiguration = Fixture.company) -> RateKey? {
            RateKey(
                Fixture.session(of: identity, claims: #"{"tenant":\#(value)}"#), at: Self.limit(.claim("tenant")))
        }
        let keys = try [#""a""#, #""b""#, #""true""#, "true", "false"].map { try require(key($0)) }
        expect(Set(keys.map(\.value)).count, equals: keys.count)
        expect(key(#""a""#), equals: keys[0])
        try expect(require(key(#""a""#, of: Fixture.partner)) != keys[0])
        for none in ["null", "1", #"["a"]"#, "{}"] { expect(key(none), equals: nil) }
        expect(RateKey(Self.company("{}"), at: Self.limit(.claim("tenant"))), equals: nil)
        expect(RateKey(Fixture.passwordSession(), at: Self.limit(.claim("tenant"))), equals: nil)
        for subject in [RateLimit.Subject.address, .route] {
            expect(RateKey(Self.company("{}"), at: Self.limit(subject)), equals: nil)
        }
    }

    @Test("Only sessions with the claims of a limit are counted")
    func counted() {
        let limit = Self.limit(.account, when: [.init("plan", in: ["free"])])
        expect(limit.counts(Self.company(#"{"plan":"free"}"#)))
        expect(!limit.counts(Self.company(#"{"plan":"paid"}"#)))
        expect(!limit.counts(Fixture.passwordSession()))
        expect(!limit.counts(nil))
        expect(Self.limit(.account).counts(nil))
    }
}
