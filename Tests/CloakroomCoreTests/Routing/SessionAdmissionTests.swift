import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Whether a session may be used: for a request, an account endpoint and a long-lived response")
struct SessionAdmissionTests {
    private typealias Fixture = ProviderFixture

    /// What follows from the result of a lookup.
    private struct Uses {
        var request: AuthDecision
        var endpoint: Fixture.Admission
        var endsResponse: Bool

        init(of lookup: SessionLookup, require: SessionRequirement = .none) throws {
            let rules = Fixture.rules(try Fixture.route(to: Fixture.shop, require: require))
            let endpoints = SessionRules(admitting: Fixture.configuration().sessionSources)
            request = AuthDecision.decide(rules.access, at: 0, now: Fixture.now, rules: rules, session: lookup)
            endpoint = Fixture.Admission(endpoints.admit(lookup, now: Fixture.now))
            endsResponse = rules.admit(lookup, now: Fixture.now).endsResponse
        }
    }

    @Test("The reason why there is no session is the same for all uses", arguments: UnauthorizedReason.allCases)
    func missing(reason: UnauthorizedReason) throws {
        let uses = try Uses(of: .missing(reason))
        expect(uses.request, equals: .unauthorized(reason))
        expect(uses.endpoint, equals: .missing(reason))
        expect(uses.endsResponse)
    }

    @Test("A session that is not cached is loaded first, and ends no response")
    func notCached() throws {
        let uses = try Uses(of: .notCached)
        expect(uses.request, equals: .loadSession)
        expect(uses.endpoint, equals: .notCached)
        expect(!uses.endsResponse)
    }

    @Test("A session that may not use a route loses its responses, and account endpoints only if its source is removed")
    func denied() throws {
        var removed = Fixture.company
        removed.issuer = "https://other.example.com"
        let editors = SessionRequirement(claims: [.init("groups", in: ["editors"])])
        let rows: [(of: IdentityConfiguration, SessionRequirement, request: (Session) -> AuthDecision, ends: Bool)] = [
            (removed, .none, { .endSession($0) }, true),
            (Fixture.partner, .none, { .wrongIdentity($0) }, true),
            (Fixture.company, editors, { .missingClaim("groups", $0) }, true),
            // The age of an authentication passes for every session.
            (Fixture.company, SessionRequirement(maxAge: .seconds(29)), { .stepUp($0) }, false),
        ]
        for (identity, requirement, request, ends) in rows {
            let session = Fixture.session(of: identity)
            let uses = try Uses(of: .active(session), require: requirement)
            expect(uses.request, equals: request(session))
            expect(uses.endpoint, equals: identity == removed ? .denied(.unknownSource) : .admitted(.none))
            expect(uses.endsResponse, equals: ends)
        }
    }

    @Test("A session that the access rules accept by themselves is admitted by all rules too")
    func shortcut() throws {
        let sessions = [
            Fixture.passwordSession(), Fixture.session(of: Fixture.company), Fixture.session(of: Fixture.partner),
        ]
        var count = 0
        for upstream in [Fixture.legacy, Fixture.shop, Fixture.billing] {
            for inject in [.bearer, []] as [Injection] {
                let rules = Fixture.rules(try Fixture.route(to: upstream, inject))
                for session in sessions where session.source == rules.access.source {
                    let token: SessionRules.Token = inject.contains(.bearer) ? .own : .none
                    expect(Fixture.admission(of: session, by: rules), equals: .admitted(token))
                    expect(!rules.admit(.active(session), now: Fixture.now).endsResponse)
                    count += 1
                }
            }
        }
        expect(count, equals: 6)
    }
}
