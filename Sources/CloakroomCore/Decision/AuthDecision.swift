/// What to do with a request once its route and its session are known.
public enum AuthDecision: Sendable, Equatable {
    /// Send it to the upstream: here is the permit.
    case forward(UpstreamPermit)
    /// Answer 401; the upstream sees nothing of it.
    case unauthorized(UnauthorizedReason)
    /// Send it to the upstream, and have the session's tokens renewed meanwhile: they are good for a while yet.
    case forwardAndRefresh(UpstreamPermit, Session)
    /// The session's tokens have ended: have them renewed, then decide again.
    case refresh(Session)
    /// The session holds tokens of another source than the route's upstream: have it ended, then decide again without
    /// one. Nothing of it is sent anywhere.
    case endSession(Session)
    /// The local table cannot tell: load the session, then decide again.
    case loadSession

    /// Decides about a request for a route. The path, the headers and the client have no say in it.
    /// - Parameters:
    ///   - routeIndex: The route's index in its table.
    ///   - now: When the request came.
    ///   - lookup: What is known of the session; not asked for where the route has no use for one.
    public static func decide(
        _ route: Route, at routeIndex: Int, now: Timestamp, session lookup: @autoclosure () -> SessionLookup
    ) -> AuthDecision {
        decide(route.access, at: routeIndex, now: now, session: lookup())
    }

    /// The same for a route of which only its rules are at hand.
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
            // Only who sends the access token needs a good one.
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
    /// Leave for a request whose session has just been renewed. It goes on with what there is, however long that lasts:
    /// otherwise an upstream whose tokens end at once would keep it for ever.
    /// - Returns: `nil` if the session's tokens come from another source than the route's upstream.
    public static func permit(
        _ route: RouteAccess, at routeIndex: Int, refreshed session: Session
    ) -> UpstreamPermit? {
        UpstreamPermit(route: routeIndex, of: route, session: session)
    }
}

/// Who may ask for a route, and with what a request goes on: all of a route that the decision needs.
public struct RouteAccess: Sendable, Equatable {
    /// Whether a request needs a session.
    public var requiresAuthorization: Bool
    /// What is added to the request on its way to the upstream.
    public var inject: Injection
    /// The source whose tokens the route's upstream may get: sessions of another one do not open the route.
    public var source: SessionSource

    /// Notes the rules of a route.
    public init(requiresAuthorization: Bool, inject: Injection, source: SessionSource = .unknown) {
        self.requiresAuthorization = requiresAuthorization
        self.inject = inject
        self.source = source
    }

    /// Whether it matters who asks.
    public var usesSession: Bool {
        requiresAuthorization || inject.contains(.bearer)
    }
}

extension Route {
    /// Who may ask for it, and with what a request goes on.
    public var access: RouteAccess {
        RouteAccess(requiresAuthorization: requiresAuthorization, inject: inject)
    }

    /// The same in a plan whose sessions come from a source.
    /// - Parameter source: ``GatewayConfiguration/sessionSource``. Configuration lets only routes to that upstream use sessions.
    public func access(source: SessionSource?) -> RouteAccess {
        RouteAccess(
            requiresAuthorization: requiresAuthorization, inject: inject, source: source ?? .unknown)
    }

    /// Whether it matters who asks.
    public var usesSession: Bool { access.usesSession }
}

/// Leave to send one request to an upstream. Only ``AuthDecision`` makes one, and nothing reaches an upstream without:
/// that makes "protected" a property of the types.
public struct UpstreamPermit: Sendable, Equatable {
    /// Index of the route that it was made for.
    public let route: Int
    private let inject: Injection
    private let session: Session?

    /// For a request without a session.
    fileprivate init(route: Int, inject: Injection) {
        self.route = route
        self.inject = inject
        session = nil
    }

    /// The only way to a permit with a session.
    /// - Returns: `nil` unless the session's tokens come from the route's source.
    @inline(__always)
    fileprivate init?(route: Int, of access: RouteAccess, session: Session) {
        guard session.source == access.source else { return nil }
        self.route = route
        inject = access.inject
        self.session = session
    }

    /// The value of `Authorization` to set; `nil` where none is to be set.
    public var authorization: Secret? {
        inject.contains(.bearer) ? session?.authorization : nil
    }

    /// Whether the upstream's API token is to be set.
    public var includesAPIToken: Bool { inject.contains(.apiToken) }

    /// Whether there is a session behind it.
    public var hasSession: Bool { session != nil }

    /// The name of the session, for logs.
    public var sessionID: SessionID? { session?.id }

    /// When the session ends at the latest; `nil` without one.
    public var sessionEnd: Timestamp? { session?.expiresAt }

    /// The session whose access token is sent; `nil` where none is.
    public var bearerSession: Session? { inject.contains(.bearer) ? session : nil }

    /// Same route, same session.
    public static func == (left: UpstreamPermit, right: UpstreamPermit) -> Bool {
        left.route == right.route && left.inject == right.inject && left.session === right.session
    }
}

extension AuthDecision {
    /// Sessions are the same only if they are one object.
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
