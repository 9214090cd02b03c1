import CloakroomCore
import Synchronization
import TestSupport
import Testing

@Suite("Requests whose upstream receives an exchanged token", .serialized)
struct TokenExchangeTests {
    private static let rejected = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
    private static let user = Company.session()
    private static let cookie = FakeSessions.cookie(user.0)
    private static let ask = Ask.get("/private/a", cookie)

    /// - Parameter replies: The response of the upstream on each of its connections; the last one repeats it.
    private static func setup(
        _ exchanger: FakeExchanger = FakeExchanger(), of made: (SessionTicket, Session) = user,
        refresher: FakeRefresher = FakeRefresher(), replies: [String] = [Reply.ok],
        adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        var setup = GatewaySetup().with(\.exchanger, exchanger).with(\.refresher, refresher)
        setup.scripts = replies.map { [.request, .send($0)] }
        setup.scripts[replies.count - 1].append(.again)
        setup.sessions.add(made)
        return setup.configuration { configuration in
            configuration.addCompany {
                $0.tokensFor = []
                $0.exchanges = [.init(upstream: 0, audience: "api")]
            }
            adjust(&configuration)
        }
    }

    private static func failed(_ outcome: ExchangeOutcome, _ status: Int, _ code: String) -> Scenario {
        Scenario(
            "A failed exchange is a failure of the gateway, and the session continues",
            on: setup(FakeExchanger { _ in outcome }),
            .ask(ask, status, code, has: ["Retry-After: 3", "Set-Cookie"]), sent: [])
    }

    private static let rows = [
        failed(.unavailable(status: 502, retryAfter: 3), 502, "unreachable"),
        failed(.unavailable(status: 503, retryAfter: 3), 503, "unreachable"),
        failed(.misconfigured(retryAfter: 3), 502, "identity_misconfigured"),
        failed(.storeUnavailable(retryAfter: 3), 503, "store_unavailable"),
        Scenario(
            "A response that repeats the exchanged token does not reach the client with it",
            on: setup(replies: ["HTTP/1.1 200 OK\r\nX-Debug: Bearer exchanged\r\nContent-Length: 2\r\n\r\nok"]),
            .ok(ask, has: ["X-Debug"])),
        Scenario(
            "A session that ends meanwhile is 401, or a redirect to the login for a navigation",
            on: setup(FakeExchanger { _ in .ended(.refreshRejected) }) {
                $0.changePrivate { $0.onMissingSession = .login }
            }, .ask(ask, 401, reason: "refresh_rejected", has: ["Set-Cookie: …Max-Age=0…"]),
            .ask(
                Ask.get("/private/a", cookie, "Accept: text/html"), 303,
                has: [
                    "Location: /auth/page?returnTo=%2Fprivate%2Fa", "Set-Cookie: …Max-Age=0…",
                    "Cache-Control: no-store",
                ])),
    ]

    @Test("Exchanges", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Identity rule 26: the upstream gets the exchanged token and never the session's own")
    func exchanged() async throws {
        let exchanger = FakeExchanger()
        try await Scenario(
            "exchanged", on: Self.setup(exchanger), .ok(Self.ask),
            .run { _ in
                expect(exchanger.calls, equals: [FakeExchanger.Call(session: Self.user.1.id, version: 1, upstream: 0)])
                exchanger.cache("cached")
            }, .ok(Self.ask),
            sent: ["exchanged", "cached"].map {
                .init(has: ["Authorization: Bearer \($0)"], lacks: [Canary.accessToken])
            }
        ).run()
        expect(exchanger.calls.count, equals: 1)
    }

    /// A refresher with other tokens of a session.
    private static func refreshing(_ session: Session) -> FakeRefresher {
        let tokens = TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: WallTime(seconds: 1))
        let fresh = session.refreshed(with: SessionUpdate(tokens: tokens))
        return FakeRefresher { _, _ in .active(fresh) }
    }

    @Test("An expired access token is refreshed before it is exchanged")
    func refreshedFirst() async throws {
        let made = Company.session(accessEnds: Company.longAgo)
        let (exchanger, refresher) = (FakeExchanger(), Self.refreshing(made.1))
        try await Scenario(
            "refreshed first", on: Self.setup(exchanger, of: made, refresher: refresher),
            .ok(Ask.get("/private/a", FakeSessions.cookie(made.0))),
            sent: [.init(has: ["Authorization: Bearer exchanged"])]
        ).run()
        expect(refresher.calls, equals: [FakeRefresher.Call(session: made.1.id, cause: .expired)])
        expect(exchanger.calls, equals: [FakeExchanger.Call(session: made.1.id, version: 2, upstream: 0)])
    }

    @Test(
        "If the upstream rejects the exchanged token, the session is refreshed, exchanged and the request replayed once"
    )
    func replay() async throws {
        let made = Company.session(accessEnds: WallTime(seconds: 4_000_000_000))
        let exchanger = FakeExchanger { session in .active(Secret("Bearer exchanged-\(session.version)")) }
        try await Scenario(
            "replay",
            on: Self.setup(
                exchanger, of: made, refresher: Self.refreshing(made.1), replies: [Self.rejected, Reply.ok]),
            .ok(Ask.post("/private/a", FakeSessions.cookie(made.0), body: "abc")),
            sent: (1...2).map { .init(has: ["Authorization: Bearer exchanged-\($0)"], text: "abc") }
        ).run()
        expect(exchanger.dropped, equals: ["Bearer exchanged-1"])
    }

    @Test(
        "If the upstream rejects the exchanged token of a session that cannot be refreshed, it is exchanged again",
        arguments: [true, false])
    func exchangedAgain(hasRefreshToken: Bool) async throws {
        // With a refresh token, but a refresh a moment ago.
        let made = Company.session(accessEnds: hasRefreshToken ? WallTime(milliseconds: .max / 2) : nil)
        let exchanger = FakeExchanger { _ in .active(Secret("Bearer new")) }
        exchanger.cache("old")
        let refresher = FakeRefresher { _, _ in .ended(.refreshRejected) }
        refresher.isUseless.store(hasRefreshToken, ordering: .relaxed)
        try await Scenario(
            "exchanged again",
            on: Self.setup(exchanger, of: made, refresher: refresher, replies: [Self.rejected, Reply.ok]),
            .ok(Ask.post("/private/a", FakeSessions.cookie(made.0), body: "abc")),
            sent: ["old", "new"].map { .init(has: ["Authorization: Bearer \($0)"]) }
        ).run()
        expect(exchanger.dropped, equals: ["Bearer old"])
        expect(exchanger.calls.count, equals: 1)
        // Its own token was not rejected, so that the session does not end.
        expect(empty: refresher.calls)
    }

    @Test("The client gets the 401 of an upstream that rejects the next token too, and no third one is exchanged")
    func rejectedAgain() async throws {
        let exchanger = FakeExchanger()
        let refresher = FakeRefresher { _, _ in .ended(.refreshRejected) }
        try await Scenario(
            "rejected again", on: Self.setup(exchanger, refresher: refresher, replies: [Self.rejected, Self.rejected]),
            .ask(Self.ask, 401),
            .run { _ in
                expect(exchanger.calls.count, equals: 2)
                exchanger.hasJustDropped.store(true, ordering: .relaxed)
                exchanger.cache("kept")
            }, .ask(Self.ask, 401, has: ["Set-Cookie"])
        ).run()
        expect(exchanger.calls.count, equals: 2)
        expect(empty: refresher.calls)
    }

    @Test("A client that leaves while its token is exchanged causes no request")
    func clientLeaves() async throws {
        let (asked, gate) = (Gate(), Gate())
        let exchanger = FakeExchanger { _ in
            asked.open()
            await gate.passed()
            return .active(Secret("Bearer exchanged"))
        }
        try await Self.setup(exchanger).run { gateway, client in
            client.send(Self.ask)
            try await eventually("the exchange") { asked.isOpen }
            try await client.close()
            try await gateway.metric(
                #"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            gate.open()
            try await expect(gateway.client().exchange(Ask.get("/nowhere")).status, equals: 404)
            expect(empty: gateway.upstream.requests)
        }
    }

    @Test("Rule 24: a session that is ended while its token is exchanged sends no request with it")
    func endedMeanwhile() async throws {
        for load in [FakeSessions.Load.response(.missing(.revoked)), .fail] {
            let (asked, gate) = (Gate(), Gate())
            let exchanger = FakeExchanger { _ in
                asked.open()
                await gate.passed()
                return .active(Secret("Bearer exchanged"))
            }
            let setup = Self.setup(exchanger)
            try await setup.run { gateway, client in
                client.send(Self.ask)
                try await eventually("the exchange") { asked.isOpen }
                setup.sessions.forget(load: load)
                gate.open()
                let response = try await client.response()
                if case .fail = load {
                    expect(response.status, equals: 503)
                } else {
                    expect(response.status, equals: 401)
                }
                expect(empty: gateway.upstream.requests)
            }
        }
    }

    @Test("Identity rule 25: an upstream's step-up challenge is passed on and causes no refresh")
    func stepUpOfUpstreamIsNoRefresh() async throws {
        let challenge = #"Bearer realm="a", error="insufficient_user_authentication", acr_values="mfa""#
        let reply =
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"b\"\r\nwww-authenticate: \(challenge)\r\n"
            + "Content-Length: 2\r\n\r\nno"
        let refresher = FakeRefresher()
        let setup = GatewaySetup.replying(reply).with(\.refresher, refresher).configuration { $0.addCompany() }
        setup.sessions.add(Self.user)
        try await Scenario(
            "step-up", on: setup, .ask(Self.ask, 401, has: ["…WWW-Authenticate: \(challenge)"]), sent: [.init()]
        ).run()
        expect(empty: refresher.calls)
    }
}
