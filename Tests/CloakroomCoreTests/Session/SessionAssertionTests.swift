import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

/// Signs by writing the claims.
private final class PlainSigner: AssertionSigning {
    func name(of session: SessionKey, for audience: String) -> String { "\(session.id.value)-\(audience)" }
    func sign(_ claims: String) -> String? { claims }
}

@Suite("The assertions of a session")
struct SessionAssertionTests {
    private typealias Fixture = ProviderFixture

    private final class Count: Sendable {
        let value = Mutex(0)
        var now: Int { value.withLock { $0 } }
    }

    private static func headers(
        _ audience: String, claims: [ClaimName] = ["groups"], _ fields: [ClaimHeader] = [], signed: Count = Count(),
        _ adjust: (inout GatewayConfiguration) -> Void = { $0.accounts.publicURL = "https://a.test" }
    ) throws -> ClaimHeaders {
        var upstream = UpstreamConfiguration(name: audience, targets: [])
        var assertion = AssertionConfiguration(header: "X-Identity", audience: audience)
        assertion.claims = claims
        (upstream.assertion, upstream.claimHeaders) = (assertion, fields)
        let issuer = AssertionIssuer(PlainSigner(), Fixture.configuration(adjust)) { signed.value.withLock { $0 += 1 } }
        return try require(ClaimHeaders(upstream, issuer: issuer))
    }

    private static func text(
        _ session: Session, _ headers: ClaimHeaders, after seconds: Int64 = 0, site: Int = 0
    ) throws -> String {
        let claims = try require(session.claims)
        let lines = claims.lines(for: headers, of: session.key) { (site, Fixture.now + .seconds(seconds)) }
        return String(decoding: lines, as: UTF8.self)
    }

    @Test("states the user, the provider, the session and the configured claims, after the fields with claims")
    func content() throws {
        let session = Fixture.session(of: Fixture.company, claims: #"{"groups":["a"],"r":{"x":1,"y":"\""},"b":true}"#)
        let headers = try Self.headers("orders", claims: ["b", "/r/y", "none"], [ClaimHeader("X-User", claim: "sub")])
        try expect(
            Self.text(session, headers),
            equals: "X-User: u1\r\n"
                + #"X-Identity: {"iss":"https://a.test","aud":"orders","iat":1800000000,"exp":1800000060,"#
                + #""sid":"1-orders","sub":"u1","idp":"https://id.example.com","claims":{"b":true,"r":{"y":"\""}},"#
                + #""auth_time":1799999940,"acr":"mfa"}"# + "\r\n")
        // The issuer is that of the site of the session, and without one there is no assertion.
        let sites = try Self.headers("orders") { configuration in
            configuration.sites = ["", "b"].map { SiteConfiguration(name: $0) }
            configuration.sites[1].publicURL = "https://b.test"
        }
        for (site, text) in [(0, ""), (1, #"X-Identity: {"iss":"https://b.test","#), (2, "")] {
            let made = try Self.text(Fixture.session(of: Fixture.company), sites, site: site)
            expect(text.isEmpty ? made.isEmpty : made.hasPrefix(text))
        }
    }

    @Test("Rule 132: one signature for each half lifetime and upstream, also by several loops")
    func kept() async throws {
        let (signed, other) = (Count(), Count())
        let headers = try Self.headers("orders", signed: signed)
        let session = Fixture.session(of: Fixture.company)
        let first = try Self.text(session, headers)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<1_000 {
                group.addTask { (try? Self.text(session, headers, after: 29)) == first }
            }
            for await isSame in group { expect(isSame) }
        }
        expect(signed.now, equals: 1)
        try expect(Self.text(session, try Self.headers("billing", signed: other)) != first)
        expect(other.now, equals: 1)
        // A refresh of the tokens alone changes nothing; other claims need another assertion.
        try expect(Self.text(session.refreshed(with: SessionUpdate(tokens: session.tokens)), headers), equals: first)
        expect(signed.now, equals: 1)
        try expect(Self.text(session, headers, after: 30).contains(#""iat":1800000030,"exp":1800000090"#))
        // The clock was set back.
        try expect(Self.text(session, headers, after: 10).contains(#""iat":1800000010,"#))
        let update = SessionUpdate(provenance: Fixture.provenance(claims: #"{"groups":["b"]}"#))
        let changed = try Self.text(session.refreshed(with: update), headers, after: 10)
        expect(changed.contains(#""claims":{"groups":["b"]}"#))
        expect(signed.now, equals: 4)
    }

    @Test("Rule 132: a session keeps 8 assertions, also after reloads: the oldest is signed again")
    func bounded() throws {
        let session = Fixture.session(of: Fixture.company)
        for index in 0..<40 {
            let signed = Count()
            let headers = try Self.headers("a\(index)", signed: signed)
            for _ in 0..<3 { _ = try Self.text(session, headers) }
            expect(signed.now, equals: 1)
        }
        let counts = (0..<9).map { _ in Count() }
        let sets = try counts.map { try Self.headers("b", signed: $0) }
        for set in sets { _ = try Self.text(session, set) }
        for set in sets.reversed() { _ = try Self.text(session, set) }
        expect(counts.map(\.now).reduce(0, +), equals: 10)
    }

    @Test("Rule 132: assertions that are no longer sent are dropped when another one is signed")
    func dropped() throws {
        let session = Fixture.session(of: Fixture.company)
        let claims = try require(session.claims)
        for index in 0..<5 { _ = try Self.text(session, try Self.headers("a\(index)")) }
        let kept = claims.assertions.withLock { $0.count }
        expect(kept, equals: 5)
        _ = try Self.text(session, try Self.headers("b"), after: 30)
        let left = claims.assertions.withLock { $0.count }
        expect(left, equals: 1)
    }

    @Test("Rule 132: a statement of more than 2 KiB is none: the user cannot sign in, and the session is not admitted")
    func tooLarge() throws {
        let headers = try Self.headers("orders")
        func provenance(_ count: Int) -> SessionProvenance {
            Fixture.provenance(claims: #"{"groups":"\#(String(repeating: "a", count: count))"}"#)
        }
        let rest = try require(SessionClaims(provenance(0)).fields(for: headers).statement).utf8.count
        let most = AssertionConfiguration.maxStatement - rest
        expect(SessionClaims(provenance(most)).fields(for: headers).unrepresentable, equals: nil)
        let claims = SessionClaims(provenance(most + 1))
        expect(claims.fields(for: headers).unrepresentable, equals: "groups")
        expect(empty: claims.lines(for: headers, of: SessionKey(1, 2, 3, 0)) { (0, Fixture.now) })
        // Of the 16 KiB of all fields, 4 KiB are for the assertion.
        let both = try Self.headers("orders", claims: [], [ClaimHeader("X-Groups", claim: "groups")])
        for (count, name) in [(12_200, nil), (12_300, "groups")] as [(Int, String?)] {
            expect(SessionClaims(provenance(count)).fields(for: both).unrepresentable, equals: name)
        }
        let configuration = Fixture.configuration {
            $0.upstreams[Fixture.shop].assertion = AssertionConfiguration(header: "X-Identity", audience: "shop")
            $0.upstreams[Fixture.shop].assertion?.claims = ["groups"]
        }
        let upstreams = configuration.upstreams
        expect(ClaimHeaders.unrepresentableClaim(of: provenance(most + 1), upstreams: upstreams), equals: "groups")
        let rules = Fixture.rules(try Fixture.route(to: Fixture.shop), in: configuration)
        let session = Fixture.session("t", source: Fixture.company.source, provenance: provenance(most + 1))
        expect(Fixture.admission(of: session, by: rules), equals: .denied(.missingClaim("groups")))
    }
}
