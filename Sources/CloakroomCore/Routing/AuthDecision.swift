/// The decision about a request whose route and session are known.
public enum AuthDecision: Sendable, Equatable {
    /// Forward the request with this permit.
    case forward(UpstreamPermit)
    /// Respond with 401; the request is not forwarded.
    case unauthorized(UnauthorizedReason)
    /// Forward the request, and refresh the session's tokens in the background, because they expire soon.
    case forwardAndRefresh(UpstreamPermit, Session)
    /// The session's access token has expired: refresh the tokens, then decide again.
    case refresh(Session)
    /// The session holds tokens of a source that the configuration does not have: end it, then decide again without
    /// one. Its tokens are not sent to any upstream.
    case endSession(Session)
    /// The session is not cached locally: load it, then decide again.
    case loadSession
    /// The upstream receives another token than the session's own; see ``PendingExchange``.
    case exchange(PendingExchange)
    /// Respond with 403: the user does not have the claim of this name with a value that the route requires. The client
    /// does not learn which claim it is.
    case missingClaim(String, Session)
    /// Respond with 403: the session belongs to an identity that may not use the route.
    case wrongIdentity(Session)
    /// Respond with 403: the route requires a session that is bound to a device.
    case unbound(Session)
    /// Respond with 401, or redirect to a login: the route requires a stronger or more recent authentication.
    case stepUp(Session)

    /// Decides about a request for a route. Path, headers and client do not affect the decision.
    ///
    /// A session of the source in ``RouteAccess/source`` is decided about with one comparison. `rules` are read, and
    /// counted as a reference, only for other sessions.
    /// - Parameters:
    ///   - routeIndex: The route's index in its table.
    ///   - now: When the request was received.
    ///   - rules: The rules that `route` belongs to. Without them no other session is accepted.
    ///   - lookup: Looks up the session; not called if the route does not use sessions.
    public static func decide(
        _ route: RouteAccess, at routeIndex: Int, now: WallTime, rules: @autoclosure () -> SessionRules? = nil,
        session lookup: @autoclosure () -> SessionLookup
    ) -> AuthDecision {
        guard route.usesSession else {
            return .forward(UpstreamPermit(route: routeIndex, inject: route.inject))
        }
        switch lookup() {
        case .active(let session):
            guard let permit = UpstreamPermit(route: routeIndex, of: route, session: session) else {
                return decideByRules(rules(), about: session, route, at: routeIndex, now: now)
            }
            // Only requests that include the access token need a valid one.
            guard route.inject.contains(.bearer) else { return .forward(permit) }
            return due(permit, session, at: now)
        case .missing(let reason):
            guard !route.requiresAuthorization else { return .unauthorized(reason) }
            return .forward(UpstreamPermit(route: routeIndex, inject: route.inject))
        case .notCached:
            return .loadSession
        }
    }

    @inline(__always)
    private static func due(_ permit: UpstreamPermit, _ session: Session, at now: WallTime) -> AuthDecision {
        switch session.update.urgency(at: now) {
        case .none: .forward(permit)
        case .background: .forwardAndRefresh(permit, session)
        case .required: .refresh(session)
        }
    }

    /// Decides about a request whose session has just been refreshed. The tokens are used however soon they expire:
    /// otherwise the request would loop if the upstream issued tokens that expire at once.
    ///
    /// The claims may have changed with the tokens, so the session is judged again.
    public static func decide(
        _ route: RouteAccess, at routeIndex: Int, refreshed session: Session, rules: SessionRules? = nil,
        now: WallTime
    ) -> AuthDecision {
        if let permit = UpstreamPermit(route: routeIndex, of: route, session: session) { return .forward(permit) }
        switch decideByRules(rules, about: session, route, at: routeIndex, now: now, isRefreshed: true) {
        case .forwardAndRefresh(let permit, _): return .forward(permit)
        case let decision: return decision
        }
    }

    /// Decides about a session by all rules of the route. Not inlined, so that it costs other sessions nothing.
    @inline(never)
    private static func decideByRules(
        _ rules: SessionRules?, about session: Session, _ route: RouteAccess, at routeIndex: Int, now: WallTime,
        isRefreshed: Bool = false
    ) -> AuthDecision {
        guard let rules else { return .endSession(session) }
        // The provider may state other claims with new tokens.
        var isOutdated: Bool { !isRefreshed && session.update.urgency(at: now) == .required }
        switch rules.admit(.active(session), now: now) {
        case .missing(let reason):
            return decide(route, at: routeIndex, now: now, session: .missing(reason))
        case .notCached:
            return .loadSession
        case .denied(.unknownSource, _):
            return .endSession(session)
        // Where a session is optional, one that may not use the route is like none.
        case .denied where !route.requiresAuthorization:
            return .forward(UpstreamPermit(route: routeIndex, inject: route.inject))
        case .denied(.wrongIdentity, _):
            return .wrongIdentity(session)
        case .denied(.unbound, _):
            return .unbound(session)
        case .denied(.stepUp, _):
            // With new claims another alternative may be met.
            return rules.hasAlternatives && isOutdated ? .refresh(session) : .stepUp(session)
        case .denied(.missingClaim(let name), _):
            return isOutdated ? .refresh(session) : .missingClaim(name, session)
        case .admitted(_, .exchanged):
            return .exchange(
                PendingExchange(
                    session: session, upstream: rules.upstream, route: routeIndex, inject: route.inject,
                    isRefreshed: isRefreshed))
        case .admitted(_, .own):
            let permit = UpstreamPermit(route: routeIndex, inject: route.inject, grant: .session(session))
            return isRefreshed ? .forward(permit) : due(permit, session, at: now)
        case .admitted(_, .none):
            let permit = UpstreamPermit(
                route: routeIndex, inject: route.inject.subtracting(.bearer), grant: .session(session))
            // Requests without a token use the session's claims for as long as it lives: these are refreshed with its
            // tokens, but no request waits for that.
            guard rules.dependsOnClaims, session.update.urgency(at: now) != .none else { return .forward(permit) }
            return .forwardAndRefresh(permit, session)
        }
    }
}

/// A request that is permitted once there is a token for its upstream, which the provider exchanges for the session's
/// access token (RFC 8693). Only ``AuthDecision`` creates one.
public struct PendingExchange: Sendable, Equatable {
    /// The session whose access token is exchanged.
    public let session: Session
    /// Index of the upstream that the token has to be for.
    public let upstream: Int
    /// Index of the route.
    public let route: Int
    fileprivate let inject: Injection
    fileprivate let isRefreshed: Bool

    /// Continues with the result of the search for a token.
    ///
    /// The session is refreshed when its own token is due, however long the exchanged one is valid: that its user was
    /// disabled or has lost a claim is noticed only then.
    /// - Parameter token: The value of `Authorization` for ``upstream``, if a valid one is cached.
    /// - Returns: `forward` or `forwardAndRefresh`, `refresh` if the token to be exchanged has expired, or otherwise
    ///   `exchange`.
    public func decide(cached token: Secret?, now: WallTime) -> AuthDecision {
        let urgency = isRefreshed ? .none : session.update.urgency(at: now)
        guard let token else { return urgency == .required ? .refresh(session) : .exchange(self) }
        let permit = permit(with: token)
        return urgency == .none ? .forward(permit) : .forwardAndRefresh(permit, session)
    }

    /// The permit with an exchanged token.
    /// - Parameter token: The value of `Authorization`, obtained for ``session`` and ``upstream``.
    public func permit(with token: Secret) -> UpstreamPermit {
        UpstreamPermit(
            route: route, inject: inject, grant: .exchanged(UpstreamPermit.Exchanged(session, authorization: token)))
    }

    /// Sessions are equal only if they are the same object.
    public static func == (left: Self, right: Self) -> Bool {
        left.session === right.session && left.upstream == right.upstream && left.route == right.route
            && left.inject == right.inject
    }
}

/// The permission to send one request to an upstream. Only ``AuthDecision`` creates permits, and no request is
/// forwarded without one: access control is therefore enforced by the type system.
///
/// A permit contains at most one token, the one that the route's upstream may receive.
public struct UpstreamPermit: Sendable, Equatable {
    /// What the request is permitted with. One word, as if it were an optional session: a permit is copied several times
    /// a request.
    fileprivate enum Grant: Sendable {
        case none
        case session(Session)
        case exchanged(Exchanged)
    }

    /// A session with a token that was exchanged for its own.
    fileprivate final class Exchanged: Sendable {
        let session: Session
        let authorization: Secret

        init(_ session: Session, authorization: Secret) {
            self.session = session
            self.authorization = authorization
        }
    }

    /// Index of the route that the permit is for.
    public let route: Int
    private var inject: Injection
    /// Whether the permit has a session. Stored, because it is read for each response.
    public let hasSession: Bool
    private let grant: Grant

    /// Creates a permit, by default for a request without a session.
    @inline(__always)
    fileprivate init(route: Int, inject: Injection, grant: Grant = .none) {
        self.route = route
        self.inject = inject
        // No upstream has the key of the client.
        if case .session(let session) = grant, session.device?.isOfToken == true { self.inject.remove(.bearer) }
        if case .none = grant { hasSession = false } else { hasSession = true }
        self.grant = grant
    }

    /// Creates a permit with a session that the access rules accept by themselves.
    /// - Returns: `nil` unless the session's tokens come from the route's source.
    @inline(__always)
    fileprivate init?(route: Int, of access: RouteAccess, session: Session) {
        guard session.source == access.source else { return nil }
        self.init(route: route, inject: access.inject, grant: .session(session))
    }

    /// The session; `nil` without one.
    package var session: Session? {
        switch grant {
        case .none: nil
        case .session(let session): session
        case .exchanged(let exchanged): exchanged.session
        }
    }

    /// The value of `Authorization` to set; `nil` for none.
    public var authorization: Secret? {
        guard inject.contains(.bearer) else { return nil }
        return switch grant {
        case .none: nil
        case .session(let session): session.authorization
        case .exchanged(let exchanged): exchanged.authorization
        }
    }

    /// Counts a request of the session; see ``Session/beginRequest(limit:)``.
    /// - Returns: Whether the limit allows it; `true` without a session.
    public func beginRequest(limit: Int) -> Bool {
        switch grant {
        case .none: true
        case .session(let session): session.beginRequest(limit: limit)
        case .exchanged(let exchanged): exchanged.session.beginRequest(limit: limit)
        }
    }

    /// A request that was counted has ended.
    public func endRequest() { session?.endRequest() }

    /// The identifier of the session, for logs.
    public var sessionID: SessionID? { session?.id }

    /// The source of the session; `nil` without one.
    public var sessionSource: SessionSource? { session?.source }

    /// The latest end of the session; `nil` without one.
    public var sessionEnd: SessionTime? { session?.expiresAt }

    /// Whether the upstream's API token has to be set.
    public var includesAPIToken: Bool { inject.contains(.apiToken) }

    /// Whether a token is sent.
    public var hasBearer: Bool { hasSession && inject.contains(.bearer) }

    /// The session whose access token, or a token exchanged for it, is sent; `nil` for none.
    public var bearerSession: Session? { inject.contains(.bearer) ? session : nil }

    /// The value of `Authorization` if it is a token that was exchanged for the session's own; otherwise `nil`.
    public var exchangedToken: Secret? {
        if case .exchanged(let exchanged) = grant { exchanged.authorization } else { nil }
    }

    /// Whether the session has been refreshed since the permit was given.
    /// - Parameter session: The session as it is now.
    public func isOutdated(by session: Session) -> Bool {
        self.session.map { $0.version < session.version } ?? false
    }

    /// What the upstream receives of the permit.
    public struct Credentials: Sendable {
        /// Whether the upstream's API token has to be set.
        public let includesAPIToken: Bool
        /// The value of `Authorization` to set; `nil` for none.
        public let authorization: Secret?
        /// Complete field lines with the claims of the session's user, and the assertion; `nil` for none.
        public let claimLines: [UInt8]?
    }

    /// What the upstream receives of the permit. Determined once for a request.
    /// - Parameters:
    ///   - claimHeaders: Those of the upstream; `nil` for none.
    ///   - moment: The site of the request, and the time. Only called for an assertion.
    public func credentials(
        _ claimHeaders: ClaimHeaders?, at moment: () -> (site: Int, now: WallTime)
    ) -> Credentials {
        var lines: [UInt8]?
        if let claimHeaders, let session {
            lines = session.claims?.lines(for: claimHeaders, of: session.key, at: moment)
        }
        return Credentials(includesAPIToken: includesAPIToken, authorization: authorization, claimLines: lines)
    }

    /// Whether route, session and token are the same.
    public static func == (left: UpstreamPermit, right: UpstreamPermit) -> Bool {
        left.route == right.route && left.inject == right.inject && left.session === right.session
            && left.authorization == right.authorization
    }
}

extension AuthDecision {
    /// Sessions are equal only if they are the same object.
    public static func == (left: AuthDecision, right: AuthDecision) -> Bool {
        switch (left, right) {
        case (.forward(let one), .forward(let other)): one == other
        case (.unauthorized(let one), .unauthorized(let other)): one == other
        case (.forwardAndRefresh(let one, let session), .forwardAndRefresh(let other, let another)):
            one == other && session === another
        case (.refresh(let one), .refresh(let other)): one === other
        case (.endSession(let one), .endSession(let other)): one === other
        case (.loadSession, .loadSession): true
        case (.exchange(let one), .exchange(let other)): one == other
        case (.missingClaim(let one, let session), .missingClaim(let other, let another)):
            one == other && session === another
        case (.wrongIdentity(let one), .wrongIdentity(let other)): one === other
        case (.stepUp(let one), .stepUp(let other)), (.unbound(let one), .unbound(let other)): one === other
        default: false
        }
    }
}
