import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Claims of a session")
struct SessionClaimsTests {
    private typealias Fixture = ProviderFixture

    private func headers(_ list: [ClaimHeader]) throws -> ClaimHeaders {
        try require(ClaimHeaders(UpstreamConfiguration(name: "a", targets: [], claimHeaders: list)))
    }

    @Test("Claims are parsed once, also for the objects of a session that follow each other")
    func parsedOnce() throws {
        let session = Fixture.session(of: Fixture.company)
        let claims = try require(session.claims)
        expect(session.claims === claims)
        expect(session.refreshed(with: SessionUpdate(tokens: session.tokens)).claims === claims)
        let update = SessionUpdate(provenance: Fixture.provenance(claims: #"{"groups":"other"}"#, acr: "low", age: 5))
        let changed = try require(session.refreshed(with: update).claims)
        expect(changed.values[path: "groups"], equals: .string("other"))
        expect(changed.acr, equals: "low")
        expect(changed.authenticatedAt, equals: Fixture.now - .seconds(5))
    }

    @Test("A session that was signed in to with credentials has none")
    func none() {
        expect(Fixture.passwordSession().claims == nil)
    }

    @Test("Subject and issuer are those of the ID token, whatever the kept claims contain")
    func verified() throws {
        let claims = SessionClaims(Fixture.provenance(claims: #"{"sub":"admin","iss":"https://evil.example","a":1}"#))
        expect(claims.values[path: "sub"], equals: .string("u1"))
        expect(claims.values[path: "iss"], equals: .string(Fixture.company.issuer))
        expect(claims.values[path: "a"], equals: .number(1))
    }

    @Test("Claims that cannot be parsed are no claims", arguments: ["", "[]", "{", "\"a\"", #"{"a":1,"a":2}"#])
    func unreadable(text: String) {
        let claims = SessionClaims(Fixture.provenance(claims: text))
        expect(claims.values, equals: .object(["sub": .string("u1"), "iss": .string(Fixture.company.issuer)]))
    }

    @Test("Fields are rendered once for a session and a configuration")
    func renderedOnce() throws {
        let claims = try require(Fixture.session(of: Fixture.company).claims)
        let sets = try (0..<12).map { try headers([.init("X-\($0)", claim: "sub")]) }
        let first = sets.prefix(8).map { claims.fields(for: $0) }
        for (index, set) in sets.enumerated() {
            let fields = claims.fields(for: set)
            expect(fields.lines, equals: Array("X-\(index): u1\r\n".utf8))
            // A session that lives through many reloads keeps a limited number of sets.
            expect(index < 8 ? fields === first[index] : fields !== claims.fields(for: set))
        }
    }

    @Test("Several loops render at once, and all get the same fields")
    func concurrently() async throws {
        for _ in 0..<50 {
            let session = Fixture.session(of: Fixture.company)
            let sets = try (0..<4).map { try headers([.init("X-\($0)", claim: "sub")]) }
            let lines = await withTaskGroup(of: [[UInt8]].self) { group in
                for offset in 0..<8 {
                    group.addTask {
                        (0..<4).map { (($0 + offset) % 4, session.claims) }.sorted { $0.0 < $1.0 }
                            .map { $0.1?.fields(for: sets[$0.0]).lines ?? [] }
                    }
                }
                return await group.reduce(into: [[[UInt8]]]()) { $0.append($1) }
            }
            expect(lines.allSatisfy { $0 == (0..<4).map { Array("X-\($0): u1\r\n".utf8) } })
        }
    }

    private func admit(
        _ session: Session, _ requirement: SessionRequirement, at now: WallTime = Fixture.now,
        upstream: Int = Fixture.shop, _ adjust: (inout GatewayConfiguration) -> Void = { _ in }
    ) throws -> (rules: SessionRules, admission: Fixture.Admission) {
        let rules = Fixture.rules(
            try Fixture.route(to: upstream, require: requirement), in: Fixture.configuration(adjust))
        return (rules, Fixture.admission(of: session, by: rules, now: now))
    }

    private let staff = SessionRequirement(claims: [.init("groups", in: ["staff"])])
    private let editors = SessionRequirement(claims: [.init("groups", in: ["editors"])])

    @Test("Identity rule 23: a verdict about claims is kept for its rules alone, of no other route and no reload")
    func kept() throws {
        let session = Fixture.session(of: Fixture.company)
        let claims = try require(session.claims)
        // More routes than are kept, in turn: each is judged by its own rules.
        let routes = try (0..<12).map { try admit(session, $0 % 3 == 0 ? editors : staff).rules }
        for _ in 0..<3 {
            for (index, rules) in routes.enumerated() {
                let isPermitted = index % 3 != 0
                expect(
                    Fixture.admission(of: session, by: rules, now: Fixture.now),
                    equals: isPermitted ? .admitted(.own) : .denied(.missingClaim("groups"))
                )
                expect(claims.verdict(by: rules) != nil)
            }
        }
        expect(routes.count { claims.verdict(by: $0) != nil }, equals: 4)
        expect(Set(routes.map(\.serial)).count, equals: routes.count)
        // The same route after a reload, which changes what is required, or which identities are accepted.
        try expect(admit(session, editors).admission, equals: .denied(.missingClaim("groups")))
        try expect(admit(session, staff) { $0.identities[0].tokensFor = [] }.admission, equals: .denied(.wrongIdentity))
        try expect(
            admit(session, staff) { $0.accounts.identities = [.provider(1)] }.admission, equals: .denied(.unknownSource)
        )
        try expect(admit(session, staff, upstream: Fixture.billing).admission, equals: .admitted(.exchanged))
    }

    @Test("A token refresh with other claims is judged anew, and one with the same claims is not")
    func keptUntilRefresh() throws {
        let session = Fixture.session(of: Fixture.company)
        let (rules, admission) = try admit(session, staff)
        expect(admission, equals: .admitted(.own))
        expect(session.refreshed(with: SessionUpdate(tokens: session.tokens)).claims?.verdict(by: rules) != nil)
        let demoted = session.refreshed(
            with: SessionUpdate(provenance: Fixture.provenance(claims: #"{"groups":["guests"]}"#)))
        expect(demoted.claims?.verdict(by: rules), equals: nil)
        expect(Fixture.admission(of: demoted, by: rules, now: Fixture.now), equals: .denied(.missingClaim("groups")))
        expect(Fixture.admission(of: session, by: rules, now: Fixture.now), equals: .admitted(.own))
    }

    @Test("Identity rule 24: the time of the authentication is compared for each request, whatever is kept")
    func age() throws {
        let session = Fixture.session(of: Fixture.company, age: 60)
        let (rules, admission) = try admit(session, SessionRequirement(acr: ["mfa"], maxAge: .seconds(60)))
        expect(admission, equals: .admitted(.own))
        expect(session.claims?.verdict(by: rules) != nil)
        // The skew of the identity is 30 s.
        expect(Fixture.admission(of: session, by: rules, now: Fixture.now + .seconds(30)), equals: .admitted(.own))
        expect(
            Fixture.admission(of: session, by: rules, now: Fixture.now + .milliseconds(30_001)),
            equals: .denied(.stepUp))
        expect(
            Fixture.admission(of: session, by: rules, now: Fixture.now - .milliseconds(90_001)),
            equals: .denied(.stepUp))
        expect(Fixture.admission(of: session, by: rules, now: Fixture.now), equals: .admitted(.own))
        let never = Fixture.session(of: Fixture.company, acr: "low")
        expect(Fixture.admission(of: never, by: rules, now: Fixture.now), equals: .denied(.stepUp))
        expect(never.claims?.verdict(by: rules), equals: 247)
        expect(Fixture.admission(of: never, by: rules, now: Fixture.now), equals: .denied(.stepUp))
    }

    @Test("Outdated claims are refreshed before a login is required, if others could meet an alternative")
    func outdated() throws {
        let session = Fixture.session(of: Fixture.company, acr: "low", accessEnds: Fixture.now)
        for (requirement, refreshes) in [
            (SessionRequirement(anyOf: [editors, SessionRequirement(acr: ["mfa"])]), true),
            (SessionRequirement(acr: ["mfa"]), false),
        ] {
            let rules = try admit(session, requirement).rules
            let decision = AuthDecision.decide(
                rules.access, at: 0, now: Fixture.now, rules: rules, session: .active(session))
            expect(decision, equals: refreshes ? .refresh(session) : .stepUp(session))
            expect(
                AuthDecision.decide(rules.access, at: 0, refreshed: session, rules: rules, now: Fixture.now),
                equals: .stepUp(session))
        }
    }

    @Test("Identity rule 30: a kept verdict ends with the maximum age of its alternative, and then others count")
    func alternatives() throws {
        let session = Fixture.session(of: Fixture.company, age: 60)
        var mine = staff
        mine.maxAge = .seconds(60)
        let other = SessionRequirement(acr: ["mfa"], maxAge: .seconds(120))
        let (rules, admission) = try admit(session, SessionRequirement(anyOf: [editors, mine, other]))
        expect(admission == .admitted(.own) && session.claims?.verdict(by: rules) == 254)
        // The skew of the identity is 30 s.
        for (later, expected, kept): (Int64, Fixture.Admission, UInt8) in [
            (30, .admitted(.own), 254), (31, .admitted(.own), 253), (90, .admitted(.own), 253),
            (91, .denied(.stepUp), 253), (0, .admitted(.own), 253),
        ] {
            expect(Fixture.admission(of: session, by: rules, now: Fixture.now + .seconds(later)), equals: expected)
            expect(session.claims?.verdict(by: rules), equals: kept)
        }
        let denied = try admit(session, SessionRequirement(claims: staff.claims, anyOf: [editors, editors]))
        expect(denied.admission, equals: .denied(.missingClaim("groups")))
        expect(session.claims?.verdict(by: denied.rules), equals: 0)
        expect(Fixture.admission(of: session, by: denied.rules, now: Fixture.now), equals: denied.admission)
        let many = try admit(session, SessionRequirement(anyOf: Array(repeating: editors, count: 7) + [staff]))
        expect(many.admission == .admitted(.own) && session.claims?.verdict(by: many.rules) == 248)
    }

    @Test("An object that is set once is kept, and released with its owner")
    func reference() {
        final class Object: Sendable {}
        weak var first: Object?
        weak var second: Object?
        do {
            let reference = ReferenceSetOnce<Object>()
            let none = reference.load()
            expect(none == nil)
            do {
                let (one, other) = (Object(), Object())
                (first, second) = (one, other)
                let stored = [reference.storeIfNil(one), reference.storeIfNil(other)]
                expect(stored.allSatisfy { $0 === one })
            }
            let kept = reference.load()
            expect(kept != nil && kept === first)
            expect(second == nil)
        }
        expect(first == nil)
    }

    @Test("Claims are personal data: nothing of them is printed")
    func redaction() throws {
        let session = Fixture.session(of: Fixture.company, claims: #"{"name":"canary"}"#)
        let claims = try require(session.claims)
        let fields = claims.fields(for: try headers([.init("X-Name", claim: "name")]))
        expect(fields.lines, equals: Array("X-Name: canary\r\n".utf8))
        var dumped = ""
        dump(session, to: &dumped)
        dump(claims, to: &dumped)
        dump(fields, to: &dumped)
        for text in ["\(claims)", String(reflecting: fields), dumped] { expect(!text.contains("canary"), "\(text)") }
    }
}
