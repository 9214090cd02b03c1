import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The decision about a request")
struct AuthDecisionTests {
    private func route(_ inject: Injection, requiresAuthorization: Bool) throws -> Route {
        Route(
            name: "a", methods: ["GET"], pattern: try PathPattern("/a"), requiresAuthorization: requiresAuthorization,
            inject: inject)
    }

    private let now = WallTime(seconds: 5)

    /// - Parameter accessEnds: When the access token expires; refreshable if it is not `nil`.
    private func session(
        _ token: String = "secret", accessEnds: WallTime? = nil, source: SessionSource = .unknown
    ) -> Session {
        Session(
            key: SessionKey(1, 2, 3, 0),
            user: UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@b.c")),
            tokens: TokenSet(
                authorization: Secret("Bearer \(token)"), refreshToken: accessEnds.map { _ in Secret("refresh") },
                accessTokenExpiresAt: accessEnds, obtainedAt: WallTime(seconds: 0)),
            source: source, createdAt: SessionTime(seconds: 0), expiresAt: SessionTime(seconds: 9),
            lastUsedAt: SessionTime(seconds: 0))
    }

    private func permit(_ decision: AuthDecision) throws -> UpstreamPermit {
        guard case .forward(let permit) = decision else { throw NoPermit() }
        return permit
    }

    private struct NoPermit: Error {}

    @Test(
        "Rule 20: a protected route without a valid session gets 401 with a reason",
        arguments: UnauthorizedReason.allCases)
    func protected(reason: UnauthorizedReason) throws {
        for inject in [[], .apiToken, .bearer, [.apiToken, .bearer]] as [Injection] {
            let route = try route(inject, requiresAuthorization: true)
            expect(
                AuthDecision.decide(route, at: 0, now: now, session: .missing(reason)), equals: .unauthorized(reason))
        }
    }

    @Test(
        "Rules 8 and 12: only the session affects the decision, no header or bearer token that a client sends"
    )
    func onlySessionCounts() throws {
        // The decision takes a route and the result of the session lookup; no part of the request is an input.
        let decide: (Route, Int, SessionLookup) -> AuthDecision = {
            AuthDecision.decide($0, at: $1, now: now, session: $2)
        }
        let route = try route([.bearer], requiresAuthorization: true)
        expect(decide(route, 0, .missing(.noSession)), equals: .unauthorized(.noSession))
        let permit = try permit(decide(route, 0, .active(session("ours"))))
        expect(permit.authorization, equals: Secret("Bearer ours"))
    }

    @Test("Rule 20: a session that is not cached is loaded, and the request is not forwarded before")
    func unknown() throws {
        expect(
            AuthDecision.decide(try route([], requiresAuthorization: true), at: 0, now: now, session: .notCached),
            equals: .loadSession)
        expect(
            AuthDecision.decide(try route(.bearer, requiresAuthorization: false), at: 0, now: now, session: .notCached),
            equals: .loadSession)
    }

    @Test("Rule 37: an expired token is not refreshed within 30 seconds after it was issued")
    func minimumInterval() throws {
        let route = try route([.bearer], requiresAuthorization: true)
        let over = session(accessEnds: WallTime(seconds: 1))
        try expect(
            permit(AuthDecision.decide(route, at: 0, now: now, session: .active(over))).bearerSession === over)
        let later = WallTime(seconds: 30)
        expect(AuthDecision.decide(route, at: 0, now: later, session: .active(over)), equals: .refresh(over))
    }

    @Test(
        "Rule 34: a session of another source gets no access and no permit, and is ended", arguments: [true, false])
    func otherSource(requiresAuthorization: Bool) throws {
        let (a, b) = (SessionSource(upstream: "a"), SessionSource(upstream: "b"))
        let accessEnds = [nil, WallTime(milliseconds: 5_500), now, WallTime(seconds: 60)]
        for inject in [.bearer, [.apiToken, .bearer], []] as [Injection] {
            let route = try route(inject, requiresAuthorization: requiresAuthorization)
            guard route.usesSession else { continue }
            for source in [b, .unknown] {
                for end in accessEnds {
                    let session = session(accessEnds: end, source: source)
                    let access = RouteAccess(
                        requiresAuthorization: requiresAuthorization, inject: inject, source: a)
                    expect(
                        AuthDecision.decide(access, at: 0, now: now, session: .active(session)),
                        equals: .endSession(session))
                    expect(
                        AuthDecision.decide(access, at: 0, refreshed: session, now: now), equals: .endSession(session))
                }
            }
            let own = session(source: a)
            let access = RouteAccess(requiresAuthorization: requiresAuthorization, inject: inject, source: a)
            try expect(permit(AuthDecision.decide(access, at: 0, now: now, session: .active(own))).hasSession)
        }
    }

    @Test("A route that sends no access token ignores token expiry")
    func refreshWithoutBearer() throws {
        let over = session(accessEnds: WallTime(seconds: 1))
        let decision = AuthDecision.decide(
            try route([.apiToken], requiresAuthorization: true), at: 0, now: now, session: .active(over))
        try expect(permit(decision).hasSession)
    }

    @Test("A public route without session injection never looks up the session", arguments: [Injection(), .apiToken])
    func publicRoute(inject: Injection) throws {
        var looks = 0
        func look() -> SessionLookup {
            looks += 1
            return .active(session())
        }
        let permit = try permit(
            AuthDecision.decide(try route(inject, requiresAuthorization: false), at: 3, now: now, session: look()))
        expect(looks, equals: 0)
        expect(permit.route, equals: 3)
        expect(!permit.hasSession)
        expect(permit.authorization, equals: nil)
        expect(permit.includesAPIToken, equals: inject.contains(.apiToken))
        expect(permit.sessionID, equals: nil)
    }

    @Test("Rule 27: a decision requires a matched route; without a match there is none")
    func unlisted() throws {
        let table = RouteTable(
            GatewayConfiguration(listeners: [], upstreams: [], routes: [try route([], requiresAuthorization: false)]))
        func match(_ method: String, _ path: String) -> RouteTable.Match {
            table.match(method: Array(method.utf8).span, path: Array(path.utf8).span)
        }
        expect(match("GET", "/b"), equals: .notFound)
        expect(match("PUT", "/a"), equals: .methodNotAllowed(allow: "GET, HEAD"))
    }

    @Test("Permits are equal only for the same route and the same session")
    func permitEquality() throws {
        let route = try route(.bearer, requiresAuthorization: true)
        let (one, other) = (session(), session())
        func permit(_ index: Int, _ session: Session) throws -> UpstreamPermit {
            try self.permit(AuthDecision.decide(route, at: index, now: now, session: .active(session)))
        }
        try expect(permit(0, one), equals: permit(0, one))
        try expect(permit(0, one) != permit(1, one))
        try expect(permit(0, one) != permit(0, other))
    }

    @Test("Rule 22: a permit does not print its token")
    func redaction() throws {
        let permit = try permit(
            AuthDecision.decide(
                try route(.bearer, requiresAuthorization: true), at: 0, now: now, session: .active(session("canary"))))
        var dumped = ""
        dump(permit, to: &dumped)
        for text in ["\(permit)", String(reflecting: permit), dumped] { expect(!text.contains("canary")) }
    }
}

extension AuthDecision {
    /// Decides about a request for a route without a configuration.
    fileprivate static func decide(
        _ route: Route, at routeIndex: Int, now: WallTime, session lookup: @autoclosure () -> SessionLookup
    ) -> AuthDecision {
        decide(route.access, at: routeIndex, now: now, session: lookup())
    }
}
