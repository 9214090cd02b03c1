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
    public var source = SessionSource.unknown

    /// The rules for a request that the upstream judges: nothing of a session is sent with it, nor the API token if that
    /// is for requests with a session only.
    package var passing: Self {
        Self(requiresAuthorization: false, inject: requiresAuthorization ? [] : inject.subtracting(.bearer))
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
    /// The token that the route's upstream receives. It never receives another one, so that only the upstreams in a
    /// `tokensFor` can use tokens at another upstream.
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

    /// Distinguishes the rules from all others of the process, also those of other configurations. At least 1.
    let serial = SessionRules.lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
    private static let lastSerial = Atomic<UInt64>(0)

    /// The part of the rules that decides about most sessions.
    public let access: RouteAccess
    /// Index of the route's upstream; -1 without one.
    let upstream: Int
    /// Whether the claims of the session affect what its requests may do.
    let dependsOnClaims: Bool
    /// Whether one of several requirements suffices.
    var hasAlternatives: Bool { !requirement.anyOf.isEmpty }
    private let accepted: [Acceptance]
    private let known: [SessionSource]
    private let requirement: SessionRequirement
    /// The names of the claims that a verdict may state as missing.
    private let claimNames: [String]
    private let claimHeaders: ClaimHeaders?
    /// The names of the rate limits that may reject its requests.
    private let rate: Set<String>
    private let credentials: RouteCredentials

    /// Creates the rules of a route.
    /// - Parameter claimHeaders: Those of the route's upstream.
    public init(_ route: Route, in configuration: GatewayConfiguration, claimHeaders: ClaimHeaders?) {
        accepted = Self.acceptances(of: route, in: configuration)
        known = configuration.sessionSources
        requirement = route.require
        // If no alternative is met, the verdict is that of the first one.
        claimNames = (route.require.claims + (route.require.anyOf.first?.claims ?? [])).map(\.name.description)
        rate = Set(configuration.rateLimits.filter(\.isEnforced).map(\.name)).intersection(route.rate)
        self.claimHeaders = claimHeaders
        credentials = route.credentials
        upstream = route.upstream ?? -1
        dependsOnClaims = claimHeaders != nil || route.require.dependsOnClaims
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

    /// The sessions that may use a route, in the order in which they are compared.
    private static func acceptances(of route: Route, in configuration: GatewayConfiguration) -> [Acceptance] {
        let isBearer = route.inject.contains(.bearer)
        let upstream = route.upstream ?? -1
        var accepted: [Acceptance] = []
        for identity in configuration.providers {
            let exchange = isBearer ? identity.exchanges.first { $0.upstream == upstream } : nil
            // An identity without a token for the upstream cannot use routes that inject `bearer`.
            guard !isBearer || exchange != nil || identity.tokensFor.contains(upstream) else { continue }
            accepted.append(
                Acceptance(
                    source: identity.source, token: exchange != nil ? .exchanged : isBearer ? .own : .none,
                    exchange: exchange, clockSkew: identity.clockSkew))
        }
        // Sessions that were signed in to with credentials may use a route without `bearer`, which sends no token, and
        // one whose upstream may get their token. At their own upstream they are the first of the list, which is
        // decided about without the rules.
        if let source = configuration.sessionSource,
            !isBearer || configuration.accounts.receivesToken(upstream)
        {
            let isFirst = configuration.accounts.upstream == route.upstream
            accepted.insert(
                Acceptance(source: source, token: isBearer ? .own : .none), at: isFirst ? 0 : accepted.count)
        }
        return accepted
    }

    /// Creates the rules of the gateway's own endpoints, which admit the sessions of all sources.
    init(admitting sources: some Sequence<SessionSource>) {
        accepted = sources.map { Acceptance(source: $0, token: .none) }
        known = []
        requirement = .none
        claimNames = []
        rate = []
        claimHeaders = nil
        credentials = .session
        upstream = -1
        dependsOnClaims = false
        access = RouteAccess(requiresAuthorization: true, inject: [], source: .matchingNone)
    }

    /// Decides whether a session may be used, and nothing else does. ``RouteAccess/source`` is a shortcut to the same
    /// result.
    /// - Parameter now: The time of the wall clock.
    package func admit(_ lookup: SessionLookup, now: WallTime) -> SessionAdmission {
        switch lookup {
        case .active(let session):
            guard let index = acceptance(of: session.source) else {
                return .denied(known.contains(session.source) ? .wrongIdentity : .unknownSource, session)
            }
            let unmet = unmetRequirement(of: session, skew: accepted[index].clockSkew, now: now)
            if let unmet { return .denied(unmet, session) }
            return .admitted(session, accepted[index].token)
        case .missing(let reason): return .missing(reason)
        case .notCached: return .notCached
        }
    }

    /// Why a session of an accepted source does not meet the requirements; `nil` if it does.
    ///
    /// The claims keep the verdict, so that the next request only compares a number and, if the rules have a maximum age,
    /// the time.
    private func unmetRequirement(
        of session: Session, skew: Duration, now: WallTime
    ) -> SessionAdmission.DenialReason? {
        if requirement.device, session.device == nil { return .unbound }
        guard requirement.judgesClaims || claimHeaders != nil else { return nil }
        let claims = session.claims
        guard let claims, let kept = claims.verdict(by: self) else { return judge(claims, skew: skew, now: now) }
        guard kept >= Self.leastMet else {
            return kept == Self.isStepUp ? .stepUp : .missingClaim(claimNames[Int(kept)])
        }
        guard requirement.isRecent(claims.authenticatedAt, now: now, skew: skew) else { return .stepUp }
        guard !requirement.anyOf.isEmpty else { return nil }
        let alternative = requirement.anyOf[Int(Self.isMet - kept)]
        // Another alternative may permit an older authentication.
        return alternative.isRecent(claims.authenticatedAt, now: now, skew: skew)
            ? nil : judge(claims, skew: skew, now: now)
    }

    /// The kept verdict that the claims meet the rules, apart from a maximum age. The index of the alternative that they
    /// meet is subtracted.
    private static let isMet = UInt8.max
    /// That of the last of 8 alternatives.
    private static let leastMet: UInt8 = 248
    /// The kept verdict that the user has to authenticate in another way. Those below it are the index of a claim that is missing.
    private static let isStepUp: UInt8 = 247

    /// Judges the claims of a session that may use the route otherwise.
    @inline(never)
    private func judge(_ claims: SessionClaims?, skew: Duration, now: WallTime) -> SessionAdmission.DenialReason? {
        let verdict = requirement.judge(
            claims: claims?.values ?? .object([:]), acr: claims?.acr, authenticatedAt: claims?.authenticatedAt,
            now: now, skew: skew)
        switch verdict {
        case .permitted: break
        case .missingClaim(let name):
            let index = claimNames.firstIndex(of: name)
            if let index, index < Self.isStepUp { claims?.keep(UInt8(index), by: self) }
            return .missingClaim(name)
        // A login at a provider does not authenticate a user who signed in with credentials.
        case .stepUp:
            guard let claims else { return .wrongIdentity }
            // Kept if an authentication at this moment would not suffice either: times are compared for each request.
            let whenRecent = requirement.judge(claims: claims.values, acr: claims.acr, authenticatedAt: now, now: now)
            if whenRecent == .stepUp { claims.keep(Self.isStepUp, by: self) }
            return .stepUp
        }
        if let claimHeaders, let name = claims?.fields(for: claimHeaders).unrepresentable { return .missingClaim(name) }
        guard let claims else { return nil }
        let alternative = requirement.anyOf.firstIndex {
            $0.judge(
                claims: claims.values, acr: claims.acr, authenticatedAt: claims.authenticatedAt, now: now, skew: skew)
                == .permitted
        }
        if let kept = UInt8(exactly: alternative ?? 0), kept <= Self.isMet - Self.leastMet {
            claims.keep(Self.isMet - kept, by: self)
        }
        return nil
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

    /// Whether the route may reject a request that a route with other rules forwards: it has a rate limit that the other
    /// one does not have, it requires a session and the other one does not, or a session may use the other one and not
    /// clearly this one too. The only definition of "stricter".
    func isStricter(than other: SessionRules) -> Bool { reasonStricter(than: other) != nil }

    /// Why the route is stricter than one with other rules: the first reason that applies; `nil` if it is not.
    package func reasonStricter(than other: SessionRules) -> StricterReason? {
        if access.requiresAuthorization {
            guard other.access.requiresAuthorization else { return .authorization }
            guard credentials.covers(other.credentials) else { return .credentials }
            guard other.accepted.allSatisfy({ acceptance(of: $0.source) != nil }) else { return .identities }
            guard other.requirement.implies(SessionRequirement(claims: requirement.claims)) else { return .claims }
            guard other.requirement.implies(requirement) else { return .requirement }
        }
        return rate.isSubset(of: other.rate) ? nil : .rateLimit
    }

    /// The index in ``accepted``.
    private func acceptance(of source: SessionSource) -> Int? {
        // No copies: an acceptance has references.
        for index in accepted.indices where accepted[index].source == source { return index }
        return nil
    }
}
