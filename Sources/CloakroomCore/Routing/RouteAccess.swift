/// The access rules of a route that suffice for most decisions. A few bytes without references, because each request
/// copies them; everything else is in ``SessionRules``.
public struct RouteAccess: Sendable, Equatable {
    /// Whether a request needs a session.
    public var requiresAuthorization: Bool
    /// The fields that are added to the forwarded request.
    public var inject: Injection
    /// The source whose sessions may use the route without further conditions, with their own access token if
    /// ``inject`` contains it. All other sessions are judged by ``SessionRules``.
    public var source: SessionSource

    /// Creates access rules.
    public init(requiresAuthorization: Bool, inject: Injection, source: SessionSource = .unknown) {
        self.requiresAuthorization = requiresAuthorization
        self.inject = inject
        self.source = source
    }

    /// Whether the decision depends on the session.
    public var usesSession: Bool {
        requiresAuthorization || inject.contains(.bearer)
    }
}

extension Route {
    /// The access rules of the route without a configuration.
    public var access: RouteAccess {
        RouteAccess(requiresAuthorization: requiresAuthorization, inject: inject)
    }

    /// Whether the decision depends on the session.
    public var usesSession: Bool { access.usesSession }
}

/// Which sessions may use a route under a configuration, which token its upstream receives, and what is required of
/// them.
///
/// Consulted only for sessions that ``RouteAccess/source`` does not decide about: with one source of sessions and
/// without requirements, that is none of the valid ones.
public final class SessionRules: Sendable {
    /// The token that the route's upstream receives. It never receives another one, so that no upstream can use a token
    /// at another upstream.
    package enum Token: Sendable, Equatable {
        /// None: the route does not inject `bearer`.
        case none
        /// The session's own access token.
        case own
        /// A token that the provider exchanges for it (RFC 8693).
        case exchanged(IdentityConfiguration.Exchange)
    }

    /// A source whose sessions may use the route.
    struct Acceptance: Sendable, Equatable {
        var source: SessionSource
        var token: Token
        /// The permitted difference between the clocks of the provider and the gateway.
        var clockSkew = Duration.zero
    }

    /// The judgement about a session.
    package enum Judgement: Sendable, Equatable {
        /// The session may use the route.
        case permitted(Token)
        /// No identity of the configuration has this source: the identity was removed, or its issuer has changed.
        case unknownSource
        /// The identity of the session may not use the route.
        case wrongIdentity
        /// The user does not have this claim with an acceptable value, or a claim header cannot contain it.
        case missingClaim(String)
        /// The user has to authenticate again.
        case stepUp
    }

    /// The part of the rules that decides about most sessions.
    public let access: RouteAccess
    /// Index of the route's upstream.
    let upstream: Int
    /// Whether the claims of the session affect what its requests may do.
    let dependsOnClaims: Bool
    private let accepted: [Acceptance]
    private let known: [SessionSource]
    private let requirement: SessionRequirement
    private let claimHeaders: ClaimHeaders?

    /// Creates the rules of a route.
    /// - Parameter claimHeaders: Those of the route's upstream.
    public init(_ route: Route, in configuration: GatewayConfiguration, claimHeaders: ClaimHeaders?) {
        let isBearer = route.inject.contains(.bearer)
        var accepted: [Acceptance] = []
        // Tokens of sessions that were signed in to with credentials belong to that upstream alone.
        if let source = configuration.sessionSource, configuration.accounts.upstream == route.upstream {
            accepted.append(Acceptance(source: source, token: isBearer ? .own : .none))
        }
        for identity in configuration.providers {
            guard let token = isBearer ? identity.token(forUpstream: route.upstream) : Token.none else { continue }
            accepted.append(Acceptance(source: identity.source, token: token, clockSkew: identity.clockSkew))
        }
        self.accepted = accepted
        known = configuration.sessionSources
        requirement = route.require
        self.claimHeaders = claimHeaders
        upstream = route.upstream
        dependsOnClaims = claimHeaders != nil || !route.require.claims.isEmpty
        let signInSource = configuration.sessionSource
        let direct = accepted.first { acceptance in
            if case .exchanged = acceptance.token { return false }
            // Sessions that were signed in to with credentials have no claims, so claim headers do not concern them.
            return route.require.isEmpty && (claimHeaders == nil || acceptance.source == signInSource)
        }
        access = RouteAccess(
            requiresAuthorization: route.requiresAuthorization, inject: route.inject,
            source: direct?.source ?? .matchingNone)
    }

    /// Judges a session.
    /// - Parameter now: The time of the wall clock.
    package func judge(_ session: Session, now: Timestamp) -> Judgement {
        guard let acceptance = acceptance(of: session.source) else {
            return known.contains(session.source) ? .wrongIdentity : .unknownSource
        }
        let claims = session.claims
        if !requirement.isEmpty {
            let verdict = requirement.judge(
                claims: claims?.values ?? .object([:]), acr: claims?.acr, authenticatedAt: claims?.authenticatedAt,
                now: now, skew: acceptance.clockSkew)
            switch verdict {
            case .permitted: break
            case .missingClaim(let name): return .missingClaim(name)
            // A login at a provider does not authenticate a user who signed in with credentials.
            case .stepUp: return claims == nil ? .wrongIdentity : .stepUp
            }
        }
        if let claimHeaders, let name = claims?.fields(for: claimHeaders).unrepresentable { return .missingClaim(name) }
        return .permitted(acceptance.token)
    }

    /// Whether a session of a source may use two routes in the same way, apart from their requirements: its requests
    /// would get the same token, if any.
    public func isEquivalent(to other: SessionRules, for source: SessionSource) -> Bool {
        guard let mine = acceptance(of: source), let theirs = other.acceptance(of: source) else { return false }
        return mine.token.isEquivalent(to: theirs.token)
    }

    private func acceptance(of source: SessionSource) -> Acceptance? { accepted.first { $0.source == source } }
}

extension SessionRules.Token {
    /// Whether it is the same token, although the upstreams have other indices.
    fileprivate func isEquivalent(to other: Self) -> Bool {
        guard case .exchanged(let mine) = self, case .exchanged(var theirs) = other else { return self == other }
        theirs.upstream = mine.upstream
        return mine == theirs
    }
}

extension IdentityConfiguration {
    /// The token that an upstream receives of the sessions of this identity; `nil` for none, then they cannot use routes
    /// that inject `bearer`.
    fileprivate func token(forUpstream upstream: Int) -> SessionRules.Token? {
        if let exchange = exchanges.first(where: { $0.upstream == upstream }) { return .exchanged(exchange) }
        return tokensFor.contains(upstream) ? .own : nil
    }
}
