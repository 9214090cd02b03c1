import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Which sessions may use a route")
struct SessionRulesTests {
    private typealias Fixture = ProviderFixture
    private static let now = Fixture.now

    /// The result of a decision, without its session.
    private enum Result: Equatable, Hashable {
        case forwarded(token: String?)
        case anonymous, ended, missingClaim, wrongIdentity, stepUp
        case exchange(upstream: Int)

        init(_ decision: AuthDecision) throws {
            switch decision {
            case .forward(let permit):
                let token = permit.authorization.map { String(decoding: $0.bytes, as: UTF8.self) }
                self = permit.hasSession ? .forwarded(token: token) : .anonymous
                expect(permit.hasSession || token == nil)
            case .endSession: self = .ended
            case .missingClaim(let name, _):
                expect(name, equals: "groups")
                self = .missingClaim
            case .wrongIdentity: self = .wrongIdentity
            case .stepUp: self = .stepUp
            case .exchange(let pending): self = .exchange(upstream: pending.upstream)
            default: throw Fixture.NoPermit(decision: decision)
            }
        }
    }

    private static func decide(_ route: Route, _ session: Session, in configuration: GatewayConfiguration)
        -> AuthDecision
    {
        let rules = Fixture.rules(route, in: configuration)
        return AuthDecision.decide(rules.access, at: 3, now: now, rules: rules, session: .active(session))
    }

    private static func decide(_ rules: SessionRules, refreshed session: Session) -> AuthDecision {
        AuthDecision.decide(rules.access, at: 3, refreshed: session, rules: rules, now: now)
    }

    /// The sessions of the table, by source, and the token that each upstream may get of them.
    private static let sources: [(session: Session, isKnown: Bool, tokens: [Int: Result])] = [
        (Fixture.passwordSession(), true, [Fixture.legacy: .forwarded(token: "Bearer password")]),
        (Fixture.session(of: Fixture.company), true, tokensOfCompany),
        (Fixture.session(of: Fixture.partner), true, [Fixture.billing: .forwarded(token: "Bearer partner")]),
        // The name of a provider with another issuer, an upstream that does not sign in, and no known source.
        (Fixture.session(of: otherIssuer), false, [:]),
        (Fixture.session("shop", source: SessionSource(upstream: "shop"), provenance: nil), false, [:]),
        (Fixture.session("none", source: .unknown, provenance: nil), false, [:]),
        (Fixture.session("none", source: .matchingNone, provenance: nil), false, [:]),
    ]

    private static let tokensOfCompany: [Int: Result] = [
        Fixture.shop: .forwarded(token: "Bearer company"), Fixture.billing: .exchange(upstream: Fixture.billing),
    ]

    private static var otherIssuer: IdentityConfiguration {
        var identity = Fixture.company
        identity.issuer = "https://other.example.com"
        return identity
    }

    private static let requirements: [(requirement: SessionRequirement, unmet: Result?)] = [
        (.none, nil),
        (SessionRequirement(claims: [.init("groups", in: ["staff"])]), nil),
        (SessionRequirement(acr: ["mfa"]), nil),
        (SessionRequirement(maxAge: .seconds(60)), nil),
        (SessionRequirement(claims: [.init("groups", in: ["editors"])]), .missingClaim),
        (SessionRequirement(claims: [.init("groups", in: ["editors"])], acr: ["other"]), .missingClaim),
        (SessionRequirement(acr: ["other"]), .stepUp),
        (SessionRequirement(claims: [.init("groups", in: ["staff"])], acr: ["other"]), .stepUp),
        (SessionRequirement(maxAge: .seconds(29)), .stepUp),
    ]

    @Test(
        "Identity rules 23, 24 and 26: every combination of source, upstream, requirement and authorization",
        arguments: [true, false])
    func table(requiresAuthorization: Bool) throws {
        let configuration = Fixture.configuration()
        var seen: Set<Result> = []
        for upstream in configuration.upstreams.indices {
            for inject in [.bearer, [.apiToken, .bearer], [], .apiToken] as [Injection] {
                for (requirement, unmet) in Self.requirements {
                    let route = try Fixture.route(
                        to: upstream, inject, requiresAuthorization: requiresAuthorization, require: requirement)
                    guard route.usesSession else { continue }
                    for source in Self.sources {
                        let result = try Result(Self.decide(route, source.session, in: configuration))
                        let expected = Self.expected(route, unmet, source)
                        expect(result, equals: expected, "\(route) \(source)")
                        seen.insert(result)
                    }
                }
            }
        }
        // The table contains every result, so that no part of it is compared with itself only.
        expect(
            seen.isSuperset(of: [.ended, .forwarded(token: "Bearer company"), .exchange(upstream: Fixture.billing)]))
        expect(
            requiresAuthorization
                ? seen.isSuperset(of: [.missingClaim, .wrongIdentity, .stepUp, .forwarded(token: nil)])
                : seen.isDisjoint(with: [.missingClaim, .wrongIdentity, .stepUp]) && seen.contains(.anonymous))
    }

    private static func expected(
        _ route: Route, _ unmet: Result?, _ source: (session: Session, isKnown: Bool, tokens: [Int: Result])
    ) -> Result {
        guard source.isKnown else { return .ended }
        let isPassword = source.session.provenance == nil
        var result: Result
        if route.inject.contains(.bearer) {
            result = route.upstream.flatMap { source.tokens[$0] } ?? .wrongIdentity
        } else {
            result = .forwarded(token: nil)
        }
        if result != .wrongIdentity {
            if isPassword, !route.require.isEmpty {
                result = route.require.claims.isEmpty ? .wrongIdentity : .missingClaim
            } else if !isPassword, let unmet {
                result = unmet
            }
        }
        let isDenied = [.wrongIdentity, .missingClaim, .stepUp].contains(result)
        // A session that may not use a public route is like none.
        return isDenied && !route.requiresAuthorization ? .anonymous : result
    }

    @Test("Identity rule 26: no upstream gets a token of another upstream, of no session and after no reload")
    func audiencesNeverSwapTokens() throws {
        // All assignments of tokens to upstreams that the configuration allows.
        for own in [[], [0], [1], [2], [0, 1]] {
            for exchanged in [nil, 0, 1, 2] as [Int?] where exchanged.map({ !own.contains($0) }) ?? true {
                let configuration = Fixture.configuration { configuration in
                    configuration.identities[0].tokensFor = own
                    configuration.identities[0].exchanges = exchanged.map { [.init(upstream: $0, audience: "a")] } ?? []
                }
                for upstream in configuration.upstreams.indices {
                    for inject in [[], .apiToken, .bearer, [.apiToken, .bearer]] as [Injection] {
                        let route = try Fixture.route(to: upstream, inject)
                        let decision = Self.decide(route, Fixture.session(of: Fixture.company), in: configuration)
                        let mayOwn = inject.contains(.bearer) && own.contains(upstream)
                        let mayExchange = inject.contains(.bearer) && exchanged == upstream
                        switch decision {
                        case .forward(let permit):
                            expect(permit.authorization, equals: mayOwn ? Secret("Bearer company") : nil)
                            expect(!mayExchange)
                        case .exchange(let pending):
                            expect(mayExchange)
                            expect(pending.upstream, equals: upstream)
                            let permit = pending.permit(with: Secret("Bearer exchanged"))
                            expect(permit.authorization, equals: Secret("Bearer exchanged"))
                            expect(permit.bearerSession === pending.session)
                        default:
                            expect(!mayOwn && !mayExchange && inject.contains(.bearer), "\(decision)")
                        }
                    }
                }
            }
        }
    }

    @Test("Rule 34: the token of an upstream reaches that upstream and those which it lists, and no other")
    func tokenReachesListedUpstreamsOnly() throws {
        let (own, password) = (Fixture.configuration(), Fixture.passwordSession())
        for listed in [[], [Fixture.shop], [Fixture.billing], [Fixture.shop, Fixture.billing]] {
            let configuration = Fixture.configuration { $0.accounts.tokensFor = listed }
            for upstream in configuration.upstreams.indices {
                let isReceiver = upstream == Fixture.legacy || listed.contains(upstream)
                for inject in [.bearer, [.apiToken, .bearer], [], .apiToken] as [Injection] {
                    let route = try Fixture.route(to: upstream, inject)
                    let result = try Result(Self.decide(route, password, in: configuration))
                    let token: Result = isReceiver ? .forwarded(token: "Bearer password") : .wrongIdentity
                    expect(result, equals: inject.contains(.bearer) ? token : .forwarded(token: nil))
                    // The list does not concern sessions of providers.
                    let company = Fixture.session(of: Fixture.company)
                    try expect(
                        Result(Self.decide(route, company, in: configuration)),
                        equals: Result(Self.decide(route, company, in: own)))
                    // A stream to an upstream that is no longer listed ends.
                    let rules = Fixture.rules(route, in: configuration)
                    expect(
                        Fixture.rules(route, in: own).isEquivalent(to: rules, for: password.source),
                        equals: !inject.contains(.bearer) || upstream == Fixture.legacy)
                }
            }
        }
    }

    @Test("A session of the only accepted source is decided about without the rules")
    func fastPath() throws {
        let password = GatewayConfiguration(
            listeners: [], upstreams: [UpstreamConfiguration(name: "legacy", targets: [])], routes: [])
        for inject in [[], .bearer] as [Injection] {
            let rules = Fixture.rules(try Fixture.route(to: 0, inject), in: password)
            expect(rules.access.source, equals: SessionSource(upstream: "legacy"))
        }
        let configuration = Fixture.configuration()
        let access = Fixture.rules(try Fixture.route(to: Fixture.shop), in: configuration).access
        expect(access.source, equals: Fixture.company.source)
        var asked = 0
        func none() -> SessionRules? {
            asked += 1
            return nil
        }
        let session = Fixture.session(of: Fixture.company)
        let decision = AuthDecision.decide(access, at: 0, now: Self.now, rules: none(), session: .active(session))
        try expect(Fixture.permit(decision).bearerSession === session)
        expect(asked, equals: 0)
        // Without rules no other session is accepted.
        let other = Fixture.session(of: Fixture.partner)
        expect(
            AuthDecision.decide(access, at: 0, now: Self.now, rules: none(), session: .active(other)),
            equals: .endSession(other))
        expect(asked, equals: 1)
    }

    @Test("A route with a requirement, an exchange or claim headers has no source that passes without its rules")
    func noFastPath() throws {
        let configuration = Fixture.configuration { $0.accounts.upstream = nil }
        let only = Fixture.configuration {
            $0.identities = [Fixture.company]
            $0.accounts.identities = [.provider(0)]
        }
        let headers = Fixture.configuration {
            $0.upstreams[Fixture.legacy].claimHeaders = [.init("X-User", claim: "sub")]
        }
        var withoutPassword = headers
        withoutPassword.accounts.upstream = nil
        let strict: [(Route, GatewayConfiguration)] = [
            (try Fixture.route(to: Fixture.shop, require: SessionRequirement(acr: ["a"])), configuration),
            (try Fixture.route(to: Fixture.legacy), configuration), (try Fixture.route(to: Fixture.billing), only),
            (try Fixture.route(to: Fixture.legacy, []), withoutPassword),
        ]
        for (route, configuration) in strict {
            expect(Fixture.rules(route, in: configuration).access.source, equals: .matchingNone, "\(route)")
        }
        // Sessions without claims get no claim headers.
        let ofPassword = Fixture.rules(try Fixture.route(to: Fixture.legacy, []), in: headers)
        expect(ofPassword.access.source, equals: SessionSource(upstream: "legacy"))
    }

    @Test("A provider that is not listed in accounts.identities is no identity: its sessions end")
    func unlisted() throws {
        let configuration = Fixture.configuration { $0.accounts.identities = [.provider(0)] }
        let session = Fixture.session(of: Fixture.partner)
        let route = try Fixture.route(to: Fixture.billing)
        expect(Self.decide(route, session, in: configuration), equals: .endSession(session))
    }

    @Test("A claim header that cannot contain a claim of the session is like a missing claim")
    func unrepresentable() throws {
        let configuration = Fixture.configuration {
            $0.upstreams[Fixture.shop].claimHeaders = [.init("X-Groups", claim: "groups")]
        }
        let route = try Fixture.route(to: Fixture.shop)
        let list = Fixture.session(of: Fixture.company)
        expect(Self.decide(route, list, in: configuration), equals: .missingClaim("groups", list))
        let text = Fixture.session(of: Fixture.company, claims: #"{"groups":"staff"}"#)
        try expect(Result(Self.decide(route, text, in: configuration)), equals: .forwarded(token: "Bearer company"))
        // On a route without this upstream the claim does not matter.
        let other = Self.decide(try Fixture.route(to: Fixture.legacy, []), list, in: configuration)
        try expect(Result(other), equals: .forwarded(token: nil))
    }

    // MARK: - Refreshes and exchanges

    private static let requirement = SessionRequirement(claims: [.init("groups", in: ["editors"])])

    @Test("Claims that are not sufficient are refreshed with expired tokens before the request is rejected")
    func outdatedClaims() throws {
        let route = try Fixture.route(to: Fixture.shop, require: Self.requirement)
        let rules = Fixture.rules(route)
        let fresh = Fixture.session(of: Fixture.company, accessEnds: Self.now + .seconds(600))
        expect(Self.decide(route, fresh, in: Fixture.configuration()), equals: .missingClaim("groups", fresh))
        let expired = Fixture.session(of: Fixture.company, accessEnds: Self.now)
        expect(Self.decide(route, expired, in: Fixture.configuration()), equals: .refresh(expired))
        // Not again, if the provider states the same claims with tokens that expire at once.
        expect(Self.decide(rules, refreshed: expired), equals: .missingClaim("groups", expired))
        let promoted = Fixture.session(of: Fixture.company, claims: #"{"groups":["editors"]}"#, accessEnds: Self.now)
        let permit = try Fixture.permit(Self.decide(rules, refreshed: promoted))
        expect(permit.authorization, equals: Secret("Bearer company"))
        expect(permit.route, equals: 3)
    }

    @Test("A refresh that takes a claim away rejects the request that waited for it")
    func demoted() throws {
        let rules = Fixture.rules(try Fixture.route(to: Fixture.shop, require: Self.requirement))
        let demoted = Fixture.session(of: Fixture.company)
        expect(Self.decide(rules, refreshed: demoted), equals: .missingClaim("groups", demoted))
        let removed = Fixture.session(of: Self.otherIssuer)
        expect(Self.decide(rules, refreshed: removed), equals: .endSession(removed))
    }

    @Test("Claims are refreshed in the background where requests send no token, and only where claims matter")
    func backgroundRefresh() throws {
        let due = Fixture.session(of: Fixture.company, accessEnds: Self.now + .seconds(1))
        let met = SessionRequirement(claims: [.init("groups", in: ["staff"])])
        let withClaims = Self.decide(
            try Fixture.route(to: Fixture.legacy, [], require: met), due, in: Fixture.configuration())
        let permit = try Fixture.permit(withClaims)
        expect(withClaims, equals: .forwardAndRefresh(permit, due))
        expect(permit.authorization == nil && permit.hasSession)
        let without = Self.decide(try Fixture.route(to: Fixture.legacy, []), due, in: Fixture.configuration())
        try expect(Result(without), equals: .forwarded(token: nil))
        let headers = Fixture.configuration {
            $0.upstreams[Fixture.legacy].claimHeaders = [.init("X-User", claim: "sub")]
        }
        let withHeaders = Self.decide(try Fixture.route(to: Fixture.legacy, []), due, in: headers)
        expect(withHeaders, equals: .forwardAndRefresh(try Fixture.permit(withHeaders), due))
    }

    @Test("A token of the route's upstream is refreshed as its expiry requires, whichever identity issued it")
    func ownTokenExpires() throws {
        // The second accepted source, so that the rules decide.
        let configuration = Fixture.configuration { $0.identities[1].tokensFor = [Fixture.shop] }
        let route = try Fixture.route(to: Fixture.shop)
        let expired = Fixture.session(of: Fixture.partner, accessEnds: Self.now)
        expect(Self.decide(route, expired, in: configuration), equals: .refresh(expired))
        let due = Fixture.session(of: Fixture.partner, accessEnds: Self.now + .seconds(30))
        let decision = Self.decide(route, due, in: configuration)
        let permit = try Fixture.permit(decision)
        expect(decision, equals: .forwardAndRefresh(permit, due))
        expect(permit.authorization, equals: Secret("Bearer partner"))
    }

    /// The exchange for a session on the route to the upstream that gets exchanged tokens.
    private static func pending(_ session: Session, isRefreshed: Bool = false) throws -> PendingExchange {
        let route = try Fixture.route(to: Fixture.billing)
        let decision =
            isRefreshed
            ? decide(Fixture.rules(route), refreshed: session)
            : decide(route, session, in: Fixture.configuration())
        guard case .exchange(let pending) = decision else { throw Fixture.NoPermit(decision: decision) }
        return pending
    }

    @Test("Identity rule 26: a cached token is used during a refresh, and an expired one is refreshed before")
    func exchange() throws {
        let fresh = try Self.pending(Fixture.session(of: Fixture.company, accessEnds: Self.now + .seconds(600)))
        expect(fresh.decide(cached: nil, now: Self.now), equals: .exchange(fresh))
        let expired = Fixture.session(of: Fixture.company, accessEnds: Self.now)
        try expect(Self.pending(expired).decide(cached: nil, now: Self.now), equals: .refresh(expired))
        let cached = try Self.pending(expired).decide(cached: Secret("Bearer x"), now: Self.now)
        let permit = try Fixture.permit(cached)
        expect(cached, equals: .forwardAndRefresh(permit, expired))
        expect(permit.authorization, equals: Secret("Bearer x"))
        expect(permit.route, equals: 3)
        expect(permit.sessionID, equals: expired.id)
        let refreshed = try Self.pending(expired, isRefreshed: true)
        expect(refreshed.decide(cached: nil, now: Self.now), equals: .exchange(refreshed))
    }

    // MARK: - Reload

    @Test("Two configurations are equivalent for a session if its requests get the same token")
    func equivalence() throws {
        func rules(_ upstream: Int, _ adjust: (inout GatewayConfiguration) -> Void = { _ in }) throws -> SessionRules {
            Fixture.rules(try Fixture.route(to: upstream), in: Fixture.configuration(adjust))
        }
        let changes: [(upstream: Int, isEquivalent: Bool, adjust: (inout GatewayConfiguration) -> Void)] = [
            (Fixture.shop, true, { $0.identities[0].clockSkew = .zero }),
            (Fixture.shop, false, { $0.identities[0].issuer = "https://x.example" }),
            (Fixture.shop, false, { $0.identities[0].tokensFor = [] }),
            (Fixture.billing, true, { $0.identities[1].tokensFor = [] }),
            (Fixture.billing, false, { $0.identities[0].exchanges[0].audience = "b" }),
        ]
        for (index, change) in changes.enumerated() {
            let (old, new) = (try rules(change.upstream), try rules(change.upstream, change.adjust))
            expect(
                old.isEquivalent(to: new, for: Fixture.company.source), equals: change.isEquivalent, "change \(index)")
        }
        let (shop, billing) = (try rules(Fixture.shop), try rules(Fixture.billing))
        expect(!shop.isEquivalent(to: shop, for: Fixture.partner.source))
        // The same upstream at another place in the file.
        let moved = try rules(Fixture.shop) { configuration in
            configuration.upstreams.swapAt(Fixture.shop, Fixture.billing)
            configuration.identities[0].tokensFor = [Fixture.billing]
            configuration.identities[0].exchanges[0].upstream = Fixture.shop
        }
        expect(billing.isEquivalent(to: moved, for: Fixture.company.source))
    }

    @Test("A permit with an exchanged token does not print it, and is not equal to one with another token")
    func exchangedPermit() throws {
        let pending = try Self.pending(Fixture.session(of: Fixture.company))
        let permit = pending.permit(with: Secret("Bearer canary"))
        expect(permit, equals: pending.permit(with: Secret("Bearer canary")))
        expect(permit != pending.permit(with: Secret("Bearer other")))
        var dumped = ""
        dump(permit, to: &dumped)
        dump(AuthDecision.exchange(pending), to: &dumped)
        for text in ["\(permit)", String(reflecting: permit), dumped] {
            expect(!text.contains("canary") && !text.contains("staff") && !text.contains("company"), "\(text)")
        }
    }
}
