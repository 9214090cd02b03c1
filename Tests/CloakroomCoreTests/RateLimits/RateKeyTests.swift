import Testing

@testable import CloakroomCore

@Suite("What rate limits count by")
struct RateKeyTests {
    private typealias Fixture = ProviderFixture

    @Test("An address is an IPv4 address or a /64 of IPv6, with the key of its /48")
    func addresses() {
        let one = RateKey(peer: "2001:db8:1:2::1")
        #expect(RateKey(peer: "2001:db8:1:2:ffff::9") == one)
        let other = RateKey(peer: "2001:db8:1:3::1")
        #expect(other.value != one.value)
        #expect(other.block == one.block)
        #expect(RateKey(peer: "2001:db8:2:2::1").block != one.block)
        let old = RateKey(peer: "192.0.2.1")
        #expect(old.block == 0)
        #expect(RateKey(peer: "::ffff:192.0.2.1") == old)
        #expect(RateKey(peer: "192.0.2.2") != old)
        #expect(RateKey(peer: "unknown") != RateKey(peer: "other"))
    }

    @Test("Keys of different kinds, and of different limits, are different")
    func kinds() throws {
        let session = Fixture.passwordSession()
        let text = String(decoding: session.user.account.canonicalBytes, as: UTF8.self)
        let claim = try #require(RateKey(claim: .string(text)))
        let keys = [RateKey(accountOf: session), claim, RateKey(name: text), RateKey(session: session.id)]
        #expect(Set(keys.map(\.value)).count == keys.count)
        let (a, b) = (RateKey(name: "a"), RateKey(name: "b"))
        let address = RateKey(peer: "2001:db8::1")
        #expect(address.at(limit: a).value != address.at(limit: b).value)
        #expect(address.at(limit: a).block != address.at(limit: b).block)
        #expect(claim.at(limit: a).block == 0)
        #expect(address.at(limit: a) == address.at(limit: RateKey(name: "a")))
    }

    @Test("The hash of two words is that of their bytes")
    func words() {
        let hash = KeyedHash(key0: 1, key1: 2)
        let bytes = [UInt64(3), 0xfedc_ba98_7654_3210].flatMap { $0.bigEndianBytes.reversed() }
        #expect(hash.hash(3, 0xfedc_ba98_7654_3210) == hash.hash(bytes))
    }

    @Test("A claim counts by its value; lists and objects are none")
    func claims() throws {
        #expect(RateKey(claim: .string("a")) == RateKey(claim: .string("a")))
        #expect(RateKey(claim: .string("a")) != RateKey(claim: .string("b")))
        #expect(RateKey(claim: .number(1)) != RateKey(claim: .string("1")))
        #expect(RateKey(claim: .bool(true)) != RateKey(claim: .bool(false)))
        for none in [nil, .null, .array([.string("a")]), .object([:])] as [JSONValue?] {
            #expect(RateKey(claim: none) == nil)
        }
    }

    @Test("Only sessions with the claims of a limit are counted, also after claims and configuration have changed")
    func subjects() throws {
        func limit(_ subject: RateLimit.Subject, when: [SessionRequirement.Claim] = []) -> RateLimit {
            var limit = RateLimit(name: "a")
            limit.subject = subject
            limit.when = when
            return limit
        }
        let free = [SessionRequirement.Claim("plan", in: ["free"])]
        let limits = [limit(.claim("tenant")), limit(.account, when: free), limit(.claim("tenant"), when: free)]
        let session = Fixture.session(of: Fixture.company, claims: #"{"plan":"free","tenant":"t1"}"#)
        let key = try #require(RateKey(claim: .string("t1")))
        for configuration in [ClaimLimits(limits), ClaimLimits(limits)] {
            for _ in 0..<2 {
                let found = limits.indices.map { configuration.subject(of: session.claims, at: $0) }
                #expect(found == [.claim(key), .other, .claim(key)])
            }
            let paid = Fixture.session(of: Fixture.company, claims: #"{"plan":"paid"}"#)
            let others = limits.indices.map { configuration.subject(of: paid.claims, at: $0) }
            #expect(others == [.other, .notCounted, .notCounted])
            #expect(limits.indices.map { configuration.subject(of: nil, at: $0) } == others)
        }
    }

    @Test("Subjects are kept for a bounded number of configurations, and are right beyond it")
    func bounded() {
        var limit = RateLimit(name: "a")
        limit.subject = .claim("tenant")
        let session = Fixture.session(of: Fixture.company, claims: #"{"tenant":"t1"}"#)
        for _ in 0..<20 {
            #expect(
                ClaimLimits([limit]).subject(of: session.claims, at: 0)
                    == RateKey(claim: .string("t1")).map(ClaimLimits.Subject.claim))
        }
    }
}
