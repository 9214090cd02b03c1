@testable import CloakroomCore

/// A configuration with three upstreams and two providers, and sessions of each source.
enum ProviderFixture {
    static let now = WallTime(seconds: 1_800_000_000)

    /// The upstreams, by index.
    static let legacy = 0
    static let shop = 1
    static let billing = 2

    static let company = IdentityConfiguration(
        name: "company", issuer: "https://id.example.com", client: client, clockSkew: .seconds(30), tokensFor: [shop],
        exchanges: [.init(upstream: billing, audience: "billing")])
    static let partner = IdentityConfiguration(
        name: "partner", issuer: "https://partner.example.com", client: client, tokensFor: [billing])
    private static let client = IdentityClientConfiguration(id: "cloakroom", authentication: .basic(Secret("s")))

    /// The upstream `legacy` signs users in with credentials; users may also sign in at both providers.
    static func configuration(_ adjust: (inout GatewayConfiguration) -> Void = { _ in }) -> GatewayConfiguration {
        var configuration = GatewayConfiguration(
            identities: [company, partner],
            upstreams: ["legacy", "shop", "billing"].map { UpstreamConfiguration(name: $0, targets: []) },
            accounts: AccountsConfiguration(
                upstream: legacy, identities: [.provider(0), .provider(1), .upstream(legacy)]))
        adjust(&configuration)
        return configuration
    }

    static func route(
        to upstream: Int, _ inject: Injection = .bearer, requiresAuthorization: Bool = true,
        require: SessionRequirement = .none
    ) throws -> Route {
        Route(
            name: "a", methods: ["GET"], pattern: try PathPattern("/a"), action: .forward(upstream: upstream, nil),
            requiresAuthorization: requiresAuthorization, inject: inject, require: require)
    }

    /// The rules of a route. Claim headers are those of the configuration's upstream.
    static func rules(_ route: Route, in configuration: GatewayConfiguration = configuration()) -> SessionRules {
        SessionRules(
            route, in: configuration, claimHeaders: route.upstream.flatMap { ClaimHeaders(configuration.upstreams[$0]) }
        )
    }

    /// An admission without its session.
    enum Admission: Equatable {
        case admitted(SessionRules.Token)
        case missing(UnauthorizedReason)
        case notCached
        case denied(SessionAdmission.DenialReason)

        init(_ admission: SessionAdmission) {
            self =
                switch admission {
                case .admitted(_, let token): .admitted(token)
                case .missing(let reason): .missing(reason)
                case .notCached: .notCached
                case .denied(let reason, _): .denied(reason)
                }
        }
    }

    static func admission(of session: Session, by rules: SessionRules, now: WallTime = now) -> Admission {
        Admission(rules.admit(.active(session), now: now))
    }

    /// A session that was signed in to with credentials.
    static func passwordSession(_ token: String = "password") -> Session {
        session(token, source: SessionSource(upstream: "legacy"), provenance: nil)
    }

    /// A session of a provider.
    /// - Parameters:
    ///   - age: The seconds since the authentication; `nil` for unknown.
    ///   - accessEnds: When the access token expires.
    static func session(
        of identity: IdentityConfiguration, _ token: String? = nil, claims: String = #"{"groups":["staff"]}"#,
        acr: String? = "mfa", age: Int64? = 60, accessEnds: WallTime? = nil
    ) -> Session {
        session(
            token ?? identity.name, source: identity.source,
            provenance: provenance(of: identity, claims: claims, acr: acr, age: age), accessEnds: accessEnds)
    }

    static func provenance(
        of identity: IdentityConfiguration = company, claims: String, acr: String? = nil, age: Int64? = nil
    ) -> SessionProvenance {
        SessionProvenance(
            identity: identity.name, issuer: identity.issuer, subject: "u1",
            authenticatedAt: age.map { now - .seconds($0) }, acr: acr, nonceHash: [], claims: Array(claims.utf8))
    }

    static func session(
        _ token: String, source: SessionSource, provenance: SessionProvenance?, accessEnds: WallTime? = nil
    ) -> Session {
        Session(
            key: SessionKey(1, 2, 3, 0),
            user: UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@b.c")),
            tokens: TokenSet(
                authorization: Secret("Bearer \(token)"), refreshToken: accessEnds.map { _ in Secret("refresh") },
                accessTokenExpiresAt: accessEnds, obtainedAt: now - .seconds(600)),
            source: source, provenance: provenance, createdAt: now.sessionTime - .seconds(600),
            expiresAt: now.sessionTime + .seconds(600), lastUsedAt: now.sessionTime)
    }

    /// The permit of a decision that forwards the request.
    static func permit(_ decision: AuthDecision) throws -> UpstreamPermit {
        switch decision {
        case .forward(let permit), .forwardAndRefresh(let permit, _): return permit
        default: throw NoPermit(decision: decision)
        }
    }

    struct NoPermit: Error {
        var decision: AuthDecision
    }
}
