import CloakroomCore
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("Requests whose session needs a token refresh", .serialized)
struct TokenRefreshTests {
    private static let rejected = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
    private static let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"
    private static let challenge =
        #"Bearer error="insufficient_user_authentication", acr_values="urn:example:mfa", max_age="600""#

    /// A session with other tokens than before.
    private static func refreshed(_ session: Session, _ tokens: TokenSet) -> Session {
        session.refreshed(with: SessionUpdate(tokens: tokens))
    }

    private static let user = FakeSessions.make("Bearer stale", refreshToken: "r")
    private static let fresh = refreshed(
        user.1, TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: WallTime(seconds: 1)))
    private static let cookie = FakeSessions.cookie(user.0)
    private static let expired = FakeSessions.make(
        "Bearer stale", refreshToken: "r", accessTokenExpiresAt: WallTime(seconds: 1_000),
        obtainedAt: WallTime(seconds: 1))
    private static let expiredCookie = FakeSessions.cookie(expired.0)

    private static var now: WallTime { WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)) }

    /// A request of a user whose tokens are refreshed with an outcome.
    /// - Parameters:
    ///   - replies: The response of the upstream on each of its connections.
    ///   - calls: The causes of the refreshes that requests waited for.
    private static func row(
        _ description: String, _ replies: [String], of made: (SessionTicket, Session) = user,
        outcome: RefreshOutcome = .active(fresh), isUseless: Bool = false, _ step: Scenario.Step,
        sent: [Scenario.Expectation]? = nil, calls: [RefreshTrigger]? = nil, metrics: [String] = [],
        adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> Scenario {
        let refresher = FakeRefresher { _, _ in outcome }
        refresher.isUseless.store(isUseless, ordering: .relaxed)
        var setup = GatewaySetup().with(\.refresher, refresher).configuration(adjust)
        setup.scripts = replies.map { [.request, .send($0)] }
        setup.sessions.add(made)
        let id = made.1.id
        return Scenario(
            description, on: setup, step,
            .run { _ in
                guard let calls else { return }
                // After a response that is passed on, the session may be refreshed later.
                try await eventually("the refreshes") { refresher.calls.count >= calls.count }
                expect(refresher.calls, equals: calls.map { FakeRefresher.Call(session: id, cause: $0) })
            }, sent: sent, metrics: metrics)
    }

    private static let authorization = ["Authorization: Bearer stale", "Authorization: Bearer fresh"]

    private static let replayed = [
        row(
            "An upstream's 401 leads to one refresh and one replay; the client receives only the second response",
            [rejected, Reply.ok], .ok(Ask.get("/private/a?q=1", cookie)),
            sent: authorization.map { .init("GET /private/a?q=1 HTTP/1.1", has: [$0]) }, calls: [.rejected],
            metrics: [#"cloakroom_upstream_retries_total{outcome="sent",reason="rejected_token",upstream="api"} 1"#]),
        row(
            "A second consecutive 401 is passed to the client: a request is replayed at most once",
            [rejected, rejected, Reply.ok], .ask(Ask.get("/private/a", cookie), 401, text: "no"),
            sent: [.init(), .init()], calls: [.rejected]),
    ]

    private static let smallBodies = [1, 16_384].map { size in
        let body = String(String(repeating: "0123456789abcdef", count: 1_024).prefix(size))
        return row(
            "A small body is replayed completely", [rejected, Reply.ok],
            .ok(Ask.post("/private/a", cookie, body: body)), sent: [.init(text: body), .init(text: body)])
    }

    private static let passedOn = [
        row(
            "Identity rule 25: a 401 that demands another authentication is passed to the client (RFC 9470 §4)",
            [
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 2\r\n\r\nno", Reply.ok,
            ], .ask(Ask.get("/private/a", cookie), 401, has: ["WWW-Authenticate: \(challenge)"]), sent: [.init()],
            calls: []),
        row(
            "A request whose body is too large to buffer is not replayed; the session is refreshed for the next request",
            [rejected],
            .ask(Ask.post("/private/a", cookie, body: String(repeating: "x", count: 200_000)), 401, text: "no"),
            sent: [.init()], calls: [.rejected]),
        row(
            "After a recent refresh attempt the upstream's 401 is passed to the client, and the request is sent once",
            [rejected], isUseless: true, .ask(Ask.post("/private/a", cookie, body: "wrong password"), 401, text: "no"),
            sent: [.init()], calls: []),
        row(
            "The 401 of a route without bearer token is passed on: it does not concern an injected token", [rejected],
            .ask(Ask.get("/token/a", cookie), 401), calls: []),
        row(
            "A request is sent at most four times, retries and replays together; the session is refreshed all the same",
            [unavailable, unavailable, unavailable, rejected, Reply.ok], .ask(Ask.get("/private/a", cookie), 401),
            sent: [.init(), .init(), .init(), .init()], calls: [.rejected]
        ) {
            $0.upstreams[0].retry.attempts = 4
            $0.upstreams[0].retry.statuses = [503]
        },
    ]

    private static let expiries = [
        row(
            "On a route that requires no session a request is forwarded without token if the refresh ends its session",
            [Reply.ok], of: expired, outcome: .ended(.refreshRejected), .ok(Ask.get("/token/a", expiredCookie)),
            sent: [.init(has: ["Authorization"])]
        ) { $0.routes[1].inject = [.apiToken, .bearer] },
        row(
            "An expired token is refreshed before the upstream receives anything", [Reply.ok], of: expired,
            .ok(Ask.post("/private/a", expiredCookie, body: "hello")),
            sent: [.init(has: [authorization[1]], text: "hello")], calls: [.expired]),
        row(
            "A permanently rejected refresh is 401 refresh_rejected, clears the cookie, and nothing is sent upstream",
            [Reply.ok], of: expired, outcome: .ended(.refreshRejected),
            .ask(
                Ask.get("/private/a", expiredCookie), 401, reason: "refresh_rejected",
                has: ["Set-Cookie: __Host-cloakroom=;…Max-Age=0…"]), sent: []),
        deletedWithDomain(site: nil), deletedWithDomain(site: "shop"),
    ]

    /// The session is one of a site whose hosts share it, or of the default site.
    private static func deletedWithDomain(site: String?) -> Scenario {
        var ticket = expired.0
        ticket.site = site.map { SiteTag($0) } ?? .main
        return row(
            "Rule 101: a cookie with Domain is deleted with it", [Reply.ok], of: (ticket, expired.1),
            outcome: .ended(.refreshRejected),
            .ask(
                Ask.get("/private/a", expiredCookie.replacing("__Host-", with: "__Secure-")), 401,
                reason: "refresh_rejected",
                has: [
                    "Set-Cookie: __Secure-cloakroom=; Path=/; Domain=example.com; HttpOnly; Secure; SameSite=Strict;"
                        + " Max-Age=0"
                ]), sent: []
        ) {
            $0.session.cookie.name = "__Secure-cloakroom"
            guard let site else {
                $0.session.cookie.domain = "example.com"
                return
            }
            var shop = SiteConfiguration(name: site)
            (shop.hosts, shop.upstream, shop.domain) = (["gateway.test"], 0, "example.com")
            $0.sites = [SiteConfiguration($0.accounts), shop]
        }
    }

    private static func failure(
        _ description: String, _ outcome: RefreshOutcome, _ status: Int, _ code: String, retryAfter: Int
    ) -> Scenario {
        row(
            description, [rejected], outcome: outcome,
            .ask(Ask.get("/private/a", cookie), status, code, has: ["Retry-After: \(retryAfter)", "Set-Cookie"]))
    }

    private static let failures =
        [502, 504].map {
            failure(
                "A refresh that fails temporarily is an error with Retry-After, and never 401",
                .unavailable(status: $0, retryAfter: 7), $0, "unreachable", retryAfter: 7)
        } + [
            failure(
                "A refresh that the upstream rejects for the gateway's own fault is 502 with Retry-After, and never 401",
                .misconfigured(retryAfter: 3), 502, "identity_misconfigured", retryAfter: 3),
            failure(
                "A store outage during a refresh is 503, and never 401", .storeUnavailable(retryAfter: 2), 503,
                "store_unavailable", retryAfter: 2),
        ]

    @Test("Rule 59: a body that is forwarded while it arrives is kept only within limits.requestBuffers")
    func keptBody() async throws {
        let refresher = FakeRefresher { _, _ in .active(Self.fresh) }
        let setup = GatewaySetup([.head, .body(5), .send(Self.rejected)], [.request, .send(Reply.ok)])
            .with(\.refresher, refresher).configuration { $0.limits.requestBuffers = 0 }
        setup.sessions.add(Self.user)
        try await setup.run { gateway, client in
            client.send(Ask.ask("POST", "/private/a", [Self.cookie, "Content-Length: 5"]) + "h")
            _ = try await gateway.upstream.request()
            client.send("ello")
            try await expect(client.response().status, equals: 401)
            expect(gateway.upstream.requests.map(\.text), equals: ["hello"])
        }
    }

    @Test("Refreshes", arguments: replayed + smallBodies + passedOn + expiries + failures)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test(
        "A token that expires before the request is sent is refreshed again, at most three times", arguments: [2, 3, 4])
    func shortLife(rejections: Int) async throws {
        // The token does not expire within 30 s, so no refresh is due, but its age can explain the 401.
        let tokens = TokenSet(
            authorization: Secret("Bearer fresh"), refreshToken: Secret("r"),
            accessTokenExpiresAt: Self.now - .milliseconds(1), obtainedAt: Self.now - .seconds(1))
        try await Self.row(
            "short life", Array(repeating: Self.rejected, count: rejections) + [Reply.ok],
            outcome: .active(Self.refreshed(Self.user.1, tokens)),
            .ask(Ask.get("/private/a", Self.cookie), rejections < 4 ? 200 : 401),
            calls: Array(repeating: .rejected, count: min(rejections, 3))
        ).run()
    }

    /// The route `private` forwards to an upstream in `tokensFor`.
    @Sendable private static func foreign(_ configuration: inout GatewayConfiguration) {
        configuration.upstreams[0].refresh = IdentityEndpointConfiguration(path: "/auth/refresh")
        configuration.upstreams.append(
            UpstreamConfiguration(name: "orders", targets: configuration.upstreams[0].targets))
        configuration.accounts.tokensFor = [1]
        configuration.routes[2].action = .forward(upstream: 1, nil)
    }

    @Test(
        "Rule 85: a 401 of an upstream in tokensFor is forwarded, refreshes no token and ends no session",
        arguments: [31, 10])
    func foreign401EndsNoSession(age: Int64) async throws {
        let made = FakeSessions.make("Bearer stale", refreshToken: "r", obtainedAt: Self.now - .seconds(age))
        let other = FakeSessions.make("Bearer stale")
        let replies = Array(repeating: Self.rejected, count: 3)
        // The results that a refresh would have.
        for outcome in [.ended(.refreshRejected), .unavailable(status: 502, retryAfter: 7)] as [RefreshOutcome] {
            for session in [made, other] {
                try await Self.row(
                    "foreign", replies, of: session, outcome: outcome,
                    .ask(Ask.get("/private/a", FakeSessions.cookie(session.0)), 401, text: "no", has: ["Set-Cookie"]),
                    sent: [.init()], calls: [], adjust: Self.foreign
                ).run()
            }
        }
    }

    @Test("Shortly before a token expires it is refreshed in the background while requests continue to use it")
    func soon() async throws {
        // A lifetime of one hour with 30 s left: within the 1 minute window, but not in the last eighth.
        let made = FakeSessions.make(
            "Bearer stale", refreshToken: "r", accessTokenExpiresAt: Self.now + .seconds(30),
            obtainedAt: Self.now - .seconds(3_600))
        let refresher = FakeRefresher()
        let setup = GatewaySetup.serving.with(\.refresher, refresher)
        setup.sessions.add(made)
        try await Scenario(
            "soon", on: setup, .ok(Ask.get("/private/a", FakeSessions.cookie(made.0))),
            sent: [.init(has: [Self.authorization[0]])]
        ).run()
        expect(refresher.soon, equals: [made.1.id])
        expect(empty: refresher.calls)
    }

    @Test("The calls of a refresh are no overhead of the gateway: they are logged as identity_ms")
    func identityTime() async throws {
        let refresher = FakeRefresher { _, _ in
            // Longer than the request takes, so nothing remains for the gateway.
            IdentityCallTime.current?.add(nanoseconds: 1_000_000_000_000)
            return .active(Self.fresh)
        }
        let setup = GatewaySetup([.request, .send(Self.rejected)], [.request, .send(Reply.ok)])
            .with(\.refresher, refresher)
        setup.sessions.add(Self.user)
        try await Scenario(
            "identity time", on: setup, .ok(Ask.get("/private/a", Self.cookie)),
            metrics: [#"cloakroom_overhead_seconds_bucket{route="private",le="0.0001"} 1"#]
        ).run()
    }

    @Test("A client that disconnects during a refresh is released, and the next client is served")
    func clientGone() async throws {
        let gate = Gate()
        let refresher = FakeRefresher { _, _ in
            await gate.passed()
            return .active(Self.fresh)
        }
        let setup = GatewaySetup([.request, .send(Self.rejected)], [.request, .send(Reply.ok), .again])
            .with(\.refresher, refresher)
        setup.sessions.add(Self.user)
        try await setup.run { gateway in
            let leaving = try await gateway.client(sending: Ask.get("/private/a", Self.cookie))
            try await eventually("the refresh") { refresher.calls.count == 1 }
            try await leaving.close()
            gate.open()
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.get("/public/a")).text, equals: "ok")
            try await eventually("no waiting requests") {
                gateway.metrics.contains(
                    "http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0")
            }
        }
    }

    @Test("Rule 28: an event stream whose session is no longer cached ends when the store reports the session as ended")
    func eventStream() async throws {
        let gate = Gate()
        let setup = GatewaySetup([.request, .send(Reply.eventStream + "8\r\ndata: 1\n\r\n"), .wait(gate)])
        try await setup.steppedTime().configuration { $0.timeouts.tunnelIdle = .seconds(86_400) }.run { gateway in
            _ = try await gateway.client(sending: Ask.get("/private/events", Ask.cookie))
            _ = try await gateway.upstream.request()
            // A store outage ends no stream; the session is checked every second.
            setup.sessions.forget(load: .fail)
            try await eventually(
                "two checks",
                isTrue: {
                    try await gateway.advance(.seconds(1))
                    return setup.sessions.loads >= 2
                })
            expect(gateway.upstream.connections.first?.isClosed, equals: false)
            setup.sessions.forget(load: .response(.missing(.revoked)))
            try await eventually(
                "the end of the stream",
                isTrue: {
                    try await gateway.advance(.seconds(1))
                    return gateway.upstream.connections[0].isClosed
                })
            gate.open()
        }
    }
}
