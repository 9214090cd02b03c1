import Synchronization

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
        case exchanged
    }

    /// A source whose sessions may use the route.
    struct Acceptance: Sendable, Equatable {
        var source: SessionSource
        var token: Token
        /// How the token is exchanged; `nil` if it is not.
        var exchange: IdentityConfiguration.Exchange?
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

    /// Distinguishes the rules from all others of the process, also those of other configurations. At least 1.
    let serial: UInt64
    private static let lastSerial = Atomic<UInt64>(0)

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
            let exchange = isBearer ? identity.exchanges.first { $0.upstream == route.upstream } : nil
            // An identity without a token for the upstream cannot use routes that inject `bearer`.
            guard !isBearer || exchange != nil || identity.tokensFor.contains(route.upstream) else { continue }
            accepted.append(
                Acceptance(
                    source: identity.source, token: exchange != nil ? .exchanged : isBearer ? .own : .none,
                    exchange: exchange, clockSkew: identity.clockSkew))
        }
        self.accepted = accepted
        serial = Self.lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
        known = configuration.sessionSources
        requirement = route.require
        self.claimHeaders = claimHeaders
        upstream = route.upstream
        dependsOnClaims = claimHeaders != nil || !route.require.claims.isEmpty
        let signInSource = configuration.sessionSource
        let direct = accepted.first { acceptance in
            // Sessions that were signed in to with credentials have no claims, so claim headers do not concern them.
            acceptance.token != .exchanged && route.require.isEmpty
                && (claimHeaders == nil || acceptance.source == signInSource)
        }
        access = RouteAccess(
            requiresAuthorization: route.requiresAuthorization, inject: route.inject,
            source: direct?.source ?? .matchingNone)
    }

    /// Judges a session.
    ///
    /// The claims keep the verdict, so that the next request only compares a number and, if the rules have a maximum age,
    /// the time.
    /// - Parameter now: The time of the wall clock.
    package func judge(_ session: Session, now: Timestamp) -> Judgement {
        guard let index = acceptance(of: session.source) else {
            return known.contains(session.source) ? .wrongIdentity : .unknownSource
        }
        guard !requirement.isEmpty || claimHeaders != nil else { return .permitted(accepted[index].token) }
        let claims = session.claims
        guard let claims, let kept = claims.verdict(by: self) else {
            return judge(claims, accepted[index], now: now)
        }
        guard kept == Self.isMet else { return .missingClaim(requirement.claims[Int(kept)].name) }
        let isRecent = requirement.isRecent(claims.authenticatedAt, now: now, skew: accepted[index].clockSkew)
        return isRecent ? .permitted(accepted[index].token) : .stepUp
    }

    /// Whether a session may continue to use a long-lived response that it has begun: the same as for a new request,
    /// apart from the authentication, since `maxAge` passes for every session.
    package func permitsToContinue(_ session: Session, now: Timestamp) -> Bool {
        switch judge(session, now: now) {
        case .permitted, .stepUp: true
        case .unknownSource, .wrongIdentity, .missingClaim: false
        }
    }

    /// The kept verdict that the claims meet the rules, apart from a maximum age. The others are the index of a required
    /// claim that is missing.
    private static let isMet = UInt8.max

    /// Judges the claims of a session that may use the route otherwise.
    @inline(never)
    private func judge(_ claims: SessionClaims?, _ acceptance: Acceptance, now: Timestamp) -> Judgement {
        let verdict = requirement.judge(
            claims: claims?.values ?? .object([:]), acr: claims?.acr, authenticatedAt: claims?.authenticatedAt,
            now: now, skew: acceptance.clockSkew)
        switch verdict {
        case .permitted: break
        case .missingClaim(let name):
            let index = requirement.claims.firstIndex { $0.name == name }
            if let index, index < Self.isMet { claims?.keep(UInt8(index), by: self) }
            return .missingClaim(name)
        // A login at a provider does not authenticate a user who signed in with credentials.
        case .stepUp: return claims == nil ? .wrongIdentity : .stepUp
        }
        if let claimHeaders, let name = claims?.fields(for: claimHeaders).unrepresentable { return .missingClaim(name) }
        claims?.keep(Self.isMet, by: self)
        return .permitted(acceptance.token)
    }

    /// Whether a session of a source may use two routes in the same way, apart from their requirements: its requests
    /// would get the same token, if any.
    public func isEquivalent(to other: SessionRules, for source: SessionSource) -> Bool {
        guard let mine = acceptance(of: source), let theirs = other.acceptance(of: source) else { return false }
        var exchange = other.accepted[theirs].exchange
        // The same upstream may have another index.
        exchange?.upstream = upstream
        return accepted[mine].token == other.accepted[theirs].token && accepted[mine].exchange == exchange
    }

    /// Whether the route may reject a request that a route with other rules forwards: it requires a session and the other
    /// one does not, or a session may use the other one and not clearly this one too. The only definition of "stricter".
    func isStricter(than other: SessionRules) -> Bool {
        guard access.requiresAuthorization else { return false }
        guard other.access.requiresAuthorization else { return true }
        return !other.accepted.allSatisfy { acceptance(of: $0.source) != nil }
            || !other.requirement.implies(requirement)
    }

    /// The index in ``accepted``.
    private func acceptance(of source: SessionSource) -> Int? {
        // No copies: an acceptance has references.
        for index in accepted.indices where accepted[index].source == source { return index }
        return nil
    }
}
