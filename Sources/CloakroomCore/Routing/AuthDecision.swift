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
    /// The session holds tokens of another source than the route's upstream: end it, then decide again without one. Its
    /// tokens are not sent to any upstream.
    case endSession(Session)
    /// The session is not cached locally: load it, then decide again.
    case loadSession

    /// Decides about a request for a route. Path, headers and client do not affect the decision.
    /// - Parameters:
    ///   - routeIndex: The route's index in its table.
    ///   - now: When the request was received.
    ///   - lookup: Looks up the session; not called if the route does not use sessions.
    public static func decide(
        _ route: Route, at routeIndex: Int, now: Timestamp, session lookup: @autoclosure () -> SessionLookup
    ) -> AuthDecision {
        decide(route.access, at: routeIndex, now: now, session: lookup())
    }

    /// Decides about a request, given only the access rules of its route.
    public static func decide(
        _ route: RouteAccess, at routeIndex: Int, now: Timestamp, session lookup: @autoclosure () -> SessionLookup
    ) -> AuthDecision {
        guard route.usesSession else {
            return .forward(UpstreamPermit(route: routeIndex, inject: route.inject))
        }
        switch lookup() {
        case .active(let session):
            guard let permit = UpstreamPermit(route: routeIndex, of: route, session: session) else {
                return .endSession(session)
            }
            // Only requests that include the access token need a valid one.
            guard route.inject.contains(.bearer) else { return .forward(permit) }
            return switch session.update.urgency(at: now) {
            case .none: .forward(permit)
            case .background: .forwardAndRefresh(permit, session)
            case .required: .refresh(session)
            }
        case .missing(let reason):
            guard !route.requiresAuthorization else { return .unauthorized(reason) }
            return .forward(UpstreamPermit(route: routeIndex, inject: route.inject))
        case .notCached:
            return .loadSession
        }
    }
}

extension AuthDecision {
    /// Creates the permit for a request whose session has just been refreshed. The tokens are used however soon they
    /// expire: otherwise the request would loop if the upstream issued tokens that expire at once.
    /// - Returns: `nil` if the session's tokens come from another source than the route's upstream.
    public static func permit(
        _ route: RouteAccess, at routeIndex: Int, refreshed session: Session
    ) -> UpstreamPermit? {
        UpstreamPermit(route: routeIndex, of: route, session: session)
    }
}

/// The access rules of a route: all properties of a route that the decision needs.
public struct RouteAccess: Sendable, Equatable {
    /// Whether a request needs a session.
    public var requiresAuthorization: Bool
    /// The fields that are added to the forwarded request.
    public var inject: Injection
    /// The source whose tokens the route's upstream may receive: sessions of another source are not accepted.
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
    /// The access rules of the route.
    public var access: RouteAccess {
        RouteAccess(requiresAuthorization: requiresAuthorization, inject: inject)
    }

    /// Returns the access rules in a configuration whose sessions have the given source.
    /// - Parameter source: ``GatewayConfiguration/sessionSource``. The configuration allows only routes to that upstream to use
    ///   sessions.
    public func access(source: SessionSource?) -> RouteAccess {
        RouteAccess(
            requiresAuthorization: requiresAuthorization, inject: inject, source: source ?? .unknown)
    }

    /// Whether the decision depends on the session.
    public var usesSession: Bool { access.usesSession }
}

/// The permission to send one request to an upstream. Only ``AuthDecision`` creates permits, and no request is
/// forwarded without one: access control is therefore enforced by the type system.
public struct UpstreamPermit: Sendable, Equatable {
    /// Index of the route that the permit is for.
    public let route: Int
    private let inject: Injection
    private let session: Session?

    /// Creates a permit for a request without a session.
    fileprivate init(route: Int, inject: Injection) {
        self.route = route
        self.inject = inject
        session = nil
    }

    /// Creates a permit with a session; there is no other way to do so.
    /// - Returns: `nil` unless the session's tokens come from the route's source.
    @inline(__always)
    fileprivate init?(route: Int, of access: RouteAccess, session: Session) {
        guard session.source == access.source else { return nil }
        self.route = route
        inject = access.inject
        self.session = session
    }

    /// The value of `Authorization` to set; `nil` for none.
    public var authorization: Secret? {
        inject.contains(.bearer) ? session?.authorization : nil
    }

    /// Whether the upstream's API token has to be set.
    public var includesAPIToken: Bool { inject.contains(.apiToken) }

    /// Whether the permit has a session.
    public var hasSession: Bool { session != nil }

    /// Counts a request of the session; see ``Session/beginRequest(limit:)``.
    /// - Returns: Whether the limit allows it; `true` without a session.
    public func beginRequest(limit: Int) -> Bool { session?.beginRequest(limit: limit) ?? true }

    /// A request that was counted has ended.
    public func endRequest() { session?.endRequest() }

    /// The identifier of the session, for logs.
    public var sessionID: SessionID? { session?.id }

    /// The latest end of the session; `nil` without one.
    public var sessionEnd: Timestamp? { session?.expiresAt }

    /// The session whose access token is sent; `nil` for none.
    public var bearerSession: Session? { inject.contains(.bearer) ? session : nil }

    /// Whether route and session are the same.
    public static func == (left: UpstreamPermit, right: UpstreamPermit) -> Bool {
        left.route == right.route && left.inject == right.inject && left.session === right.session
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
        default: false
        }
    }
}
