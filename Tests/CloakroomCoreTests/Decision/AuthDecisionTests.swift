import CloakroomCore
import Testing

@Suite("The decision about a request")
struct AuthDecisionTests {
    private func route(_ inject: Injection, requiresAuthorization: Bool) throws -> Route {
        Route(
            name: "a", methods: ["GET"], pattern: try PathPattern("/a"), requiresAuthorization: requiresAuthorization,
            inject: inject)
    }

    private let now = Timestamp(seconds: 5)

    /// - Parameter accessEnds: When its access token does; renewable if there is such a time.
    private func session(
        _ token: String = "secret", accessEnds: Timestamp? = nil, source: SessionSource = .unknown
    ) -> Session {
        Session(
            key: SessionKey(1, 2, 3, 0),
            user: UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@b.c")),
            tokens: TokenSet(
                authorization: Secret("Bearer \(token)"), refreshToken: accessEnds.map { _ in Secret("refresh") },
                accessTokenExpiresAt: accessEnds, obtainedAt: Timestamp(seconds: 0)),
            source: source, createdAt: Timestamp(seconds: 0), expiresAt: Timestamp(seconds: 9),
            lastUsedAt: Timestamp(seconds: 0))
    }

    private func permit(_ decision: AuthDecision) throws -> UpstreamPermit {
        guard case .forward(let permit) = decision else { throw NoPermit() }
        return permit
    }

    private struct NoPermit: Error {}

    @Test(
        "Rule 20: a protected route without a usable session is answered with 401 and its reason",
        arguments: UnauthorizedReason.allCases)
    func protected(reason: UnauthorizedReason) throws {
        for inject in [[], .apiToken, .bearer, [.apiToken, .bearer]] as [Injection] {
            let route = try route(inject, requiresAuthorization: true)
            #expect(AuthDecision.decide(route, at: 0, now: now, session: .missing(reason)) == .unauthorized(reason))
        }
    }

    @Test(
        "Rules 8 and 12: nothing that a client sends, no header and no bearer of its own, is asked about: only the session is"
    )
    func onlySessionCounts() throws {
        // The decision takes a route and what is known of the session; there is no other way in.
        let decide: (Route, Int, SessionLookup) -> AuthDecision = {
            AuthDecision.decide($0, at: $1, now: now, session: $2)
        }
        let route = try route([.bearer], requiresAuthorization: true)
        #expect(decide(route, 0, .missing(.noSession)) == .unauthorized(.noSession))
        let permit = try permit(decide(route, 0, .active(session("ours"))))
        #expect(permit.authorization == Secret("Bearer ours"))
    }

    @Test("Rule 20: what is not known is loaded, never forwarded")
    func unknown() throws {
        #expect(
            AuthDecision.decide(try route([], requiresAuthorization: true), at: 0, now: now, session: .notCached)
                == .loadSession)
        #expect(
            AuthDecision.decide(try route(.bearer, requiresAuthorization: false), at: 0, now: now, session: .notCached)
                == .loadSession)
    }

    @Test("A live session opens a protected route; the token goes along only where the route asks for it")
    func live() throws {
        let session = session()
        let bearer = try permit(
            AuthDecision.decide(
                try route([.bearer, .apiToken], requiresAuthorization: true), at: 7, now: now, session: .active(session)
            ))
        #expect(bearer.route == 7)
        #expect(bearer.authorization == session.tokens.authorization)
        #expect(bearer.includesAPIToken)
        #expect(bearer.hasSession)
        #expect(bearer.sessionID == SessionID(1))
        #expect(bearer.bearerSession === session)
        let plain = try permit(
            AuthDecision.decide(try route([], requiresAuthorization: true), at: 7, now: now, session: .active(session)))
        #expect(plain.authorization == nil)
        #expect(!plain.includesAPIToken)
        #expect(plain.hasSession)
        #expect(plain.bearerSession == nil)
    }

    @Test("A token shortly before its end goes along while it is renewed, and one at its end is renewed first")
    func refresh() throws {
        let route = try route([.bearer], requiresAuthorization: true)
        let now = Timestamp(seconds: 50)
        // 50 of 55 seconds have passed: the last fifth has begun, its last eighth has not.
        let soon = session(accessEnds: Timestamp(seconds: 55))
        guard
            case .forwardAndRefresh(let permit, let session) = AuthDecision.decide(
                route, at: 0, now: now, session: .active(soon))
        else { throw NoPermit() }
        #expect(permit.authorization == soon.authorization)
        #expect(session === soon)
        let over = self.session(accessEnds: now)
        #expect(AuthDecision.decide(route, at: 0, now: now, session: .active(over)) == .refresh(over))
        let early = self.session(accessEnds: Timestamp(seconds: 600))
        #expect(
            try self.permit(AuthDecision.decide(route, at: 0, now: now, session: .active(early))).bearerSession
                === early)
    }

    @Test("Rule 37: a token that ended is not renewed for that within 30 seconds after it was given")
    func minimumInterval() throws {
        let route = try route([.bearer], requiresAuthorization: true)
        let over = session(accessEnds: Timestamp(seconds: 1))
        #expect(
            try permit(AuthDecision.decide(route, at: 0, now: now, session: .active(over))).bearerSession === over)
        let later = Timestamp(seconds: 30)
        #expect(AuthDecision.decide(route, at: 0, now: later, session: .active(over)) == .refresh(over))
    }

    @Test(
        "Rule 34: a session of another source opens no route, gives no permit, and is ended", arguments: [true, false])
    func otherSource(requiresAuthorization: Bool) throws {
        let (a, b) = (SessionSource(upstream: "a"), SessionSource(upstream: "b"))
        let accessEnds = [nil, Timestamp(milliseconds: 5_500), now, Timestamp(seconds: 60)]
        for inject in [.bearer, [.apiToken, .bearer], []] as [Injection] {
            let route = try route(inject, requiresAuthorization: requiresAuthorization)
            guard route.usesSession else { continue }
            for source in [b, .unknown] {
                for end in accessEnds {
                    let session = session(accessEnds: end, source: source)
                    let access = route.access(source: a)
                    #expect(
                        AuthDecision.decide(access, at: 0, now: now, session: .active(session)) == .endSession(session))
                    #expect(AuthDecision.permit(access, at: 0, refreshed: session) == nil)
                }
            }
            let own = session(source: a)
            #expect(
                try permit(AuthDecision.decide(route.access(source: a), at: 0, now: now, session: .active(own)))
                    .hasSession)
        }
    }

    @Test("A route that sends no access token does not care when it ends")
    func refreshWithoutBearer() throws {
        let over = session(accessEnds: Timestamp(seconds: 1))
        let decision = AuthDecision.decide(
            try route([.apiToken], requiresAuthorization: true), at: 0, now: now, session: .active(over))
        #expect(try permit(decision).hasSession)
    }

    @Test("A session that has just been renewed goes on with what it got, even if that has ended already")
    func afterRefresh() throws {
        let over = session("at once over", accessEnds: Timestamp(seconds: 1))
        let access = try route([.bearer], requiresAuthorization: true).access
        let permit = try #require(AuthDecision.permit(access, at: 3, refreshed: over))
        #expect(permit.authorization == over.authorization)
        #expect(permit.route == 3)
    }

    @Test("A public route that has no use for a session never looks it up", arguments: [Injection(), .apiToken])
    func publicRoute(inject: Injection) throws {
        var looks = 0
        func look() -> SessionLookup {
            looks += 1
            return .active(session())
        }
        let permit = try permit(
            AuthDecision.decide(try route(inject, requiresAuthorization: false), at: 3, now: now, session: look()))
        #expect(looks == 0)
        #expect(permit.route == 3)
        #expect(!permit.hasSession)
        #expect(permit.authorization == nil)
        #expect(permit.includesAPIToken == inject.contains(.apiToken))
        #expect(permit.sessionID == nil)
    }

    @Test("A public route with a bearer sends it if there is a session, and goes without if there is none")
    func publicBearer() throws {
        let route = try route(.bearer, requiresAuthorization: false)
        #expect(route.usesSession)
        let with = try permit(AuthDecision.decide(route, at: 0, now: now, session: .active(session())))
        #expect(with.authorization != nil)
        for reason in UnauthorizedReason.allCases {
            let without = try permit(AuthDecision.decide(route, at: 0, now: now, session: .missing(reason)))
            #expect(without.authorization == nil)
            #expect(!without.hasSession)
        }
    }

    @Test("Rule 27: only a route that was found can be decided about: a route table that finds none gives none")
    func unlisted() throws {
        let table = RouteTable(
            GatewayConfiguration(listeners: [], upstreams: [], routes: [try route([], requiresAuthorization: false)]))
        func match(_ method: String, _ path: String) -> RouteTable.Match {
            table.match(method: Array(method.utf8).span, path: Array(path.utf8).span)
        }
        #expect(match("GET", "/b") == .notFound)
        #expect(match("PUT", "/a") == .methodNotAllowed(allow: "GET, HEAD"))
    }

    @Test("Permits are the same for the same route and the same session, and for no other")
    func permitEquality() throws {
        let route = try route(.bearer, requiresAuthorization: true)
        let (one, other) = (session(), session())
        func permit(_ index: Int, _ session: Session) throws -> UpstreamPermit {
            try self.permit(AuthDecision.decide(route, at: index, now: now, session: .active(session)))
        }
        #expect(try permit(0, one) == permit(0, one))
        #expect(try permit(0, one) != permit(1, one))
        #expect(try permit(0, one) != permit(0, other))
    }

    @Test("Rule 22: a permit shows no token")
    func redaction() throws {
        let permit = try permit(
            AuthDecision.decide(
                try route(.bearer, requiresAuthorization: true), at: 0, now: now, session: .active(session("canary"))))
        var dumped = ""
        dump(permit, to: &dumped)
        for text in ["\(permit)", String(reflecting: permit), dumped] { #expect(!text.contains("canary")) }
    }
}
