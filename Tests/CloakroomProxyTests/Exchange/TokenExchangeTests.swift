import CloakroomCore
import Synchronization
import TestSupport
import Testing

@Suite("Requests whose upstream receives an exchanged token", .serialized)
struct TokenExchangeTests {
    private static let rejected = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"

    private static func setup(
        _ made: (SessionTicket, Session), exchanger: FakeExchanger, refresher: FakeRefresher = FakeRefresher(),
        scripts: [ScriptedUpstream.Step]..., adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let sessions = FakeSessions()
        sessions.add(made)
        var setup = GatewaySetup().with(\.sessions, sessions).with(\.exchanger, exchanger)
            .with(\.refresher, refresher)
        setup.scripts = scripts
        return setup.configuration { configuration in
            configuration.addCompany {
                $0.tokensFor = []
                $0.exchanges = [.init(upstream: 0, audience: "api")]
            }
            adjust(&configuration)
        }
    }

    @Test("Identity rule 26: the upstream gets the exchanged token and never the session's own")
    func exchanged() async throws {
        let made = Company.session()
        let exchanger = FakeExchanger()
        try await Self.setup(made, exchanger: exchanger, scripts: [.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            let ask = Ask.get("/private/a?q", FakeSessions.cookie(made.0))
            #expect(try await client.exchange(ask).text == "ok")
            #expect(exchanger.calls == [FakeExchanger.Call(session: made.1.id, version: 1, upstream: 0)])
            exchanger.cache("cached")
            #expect(try await client.exchange(ask).text == "ok")
            #expect(exchanger.calls.count == 1)
            let requests = gateway.upstream.requests
            #expect(requests.map { $0["Authorization"] } == ["Bearer exchanged", "Bearer cached"])
            #expect(!requests.contains { $0.head.contains(Canary.accessToken) })
        }
    }

    @Test("A response that repeats the exchanged token does not reach the client with it")
    func reflected() async throws {
        let made = Company.session()
        let reply = "HTTP/1.1 200 OK\r\nX-Debug: Bearer exchanged\r\nContent-Length: 2\r\n\r\nok"
        try await Self.setup(made, exchanger: FakeExchanger(), scripts: [.request, .send(reply)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            #expect(response.text == "ok")
            #expect(response["X-Debug"] == nil)
        }
    }

    @Test(
        "A failed exchange is a failure of the gateway, and the session continues",
        arguments: [
            (ExchangeOutcome.unavailable(status: 502, retryAfter: 3), 502, "unreachable"),
            (.unavailable(status: 503, retryAfter: 3), 503, "unreachable"),
            (.misconfigured(retryAfter: 3), 502, "identity_misconfigured"),
            (.storeUnavailable(retryAfter: 3), 503, "store_unavailable"),
        ])
    func failed(outcome: ExchangeOutcome, status: Int, code: String) async throws {
        let made = Company.session()
        try await Self.setup(made, exchanger: FakeExchanger { _ in outcome }).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            #expect(response.status == status)
            #expect(response.code == code)
            #expect(response["Retry-After"] == "3")
            #expect(response["Set-Cookie"] == nil)
            #expect(gateway.upstream.requests.isEmpty)
        }
    }

    @Test("A session that ends meanwhile is 401, or a redirect to the login for a navigation")
    func ended() async throws {
        let made = Company.session()
        let exchanger = FakeExchanger { _ in .ended(.refreshRejected) }
        let setup = Self.setup(made, exchanger: exchanger) { $0.changePrivate { $0.onMissingSession = .login } }
        try await setup.run { gateway in
            let client = try await gateway.client()
            let cookie = FakeSessions.cookie(made.0)
            let plain = try await client.exchange(Ask.get("/private/a", cookie))
            #expect(plain.status == 401)
            #expect(plain.problemReason == "refresh_rejected")
            #expect(plain["Set-Cookie"]?.contains("Max-Age=0") == true)
            let navigation = try await client.exchange(Ask.get("/private/a", cookie, "Accept: text/html"))
            #expect(navigation.status == 303)
            #expect(navigation["Location"] == "/auth/page?returnTo=%2Fprivate%2Fa")
            #expect(navigation["Set-Cookie"]?.contains("Max-Age=0") == true)
            #expect(navigation["Cache-Control"] == "no-store")
        }
    }

    @Test("An expired access token is refreshed before it is exchanged")
    func refreshedFirst() async throws {
        let made = Company.session(accessEnds: Company.longAgo)
        let tokens = TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: Timestamp(seconds: 1))
        let fresh = made.1.refreshed(with: SessionUpdate(tokens: tokens))
        let exchanger = FakeExchanger()
        let refresher = FakeRefresher { _, _ in .active(fresh) }
        let setup = Self.setup(
            made, exchanger: exchanger, refresher: refresher, scripts: [.request, .send(Reply.ok)])
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            #expect(response.text == "ok")
            #expect(refresher.calls == [FakeRefresher.Call(session: made.1.id, cause: .expired)])
            #expect(exchanger.calls == [FakeExchanger.Call(session: made.1.id, version: 2, upstream: 0)])
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == ["Bearer exchanged"])
        }
    }

    @Test(
        "If the upstream rejects the exchanged token, the session is refreshed, exchanged and the request replayed once"
    )
    func replay() async throws {
        let made = Company.session(accessEnds: Timestamp(seconds: 4_000_000_000))
        let tokens = TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: Timestamp(seconds: 1))
        let fresh = made.1.refreshed(with: SessionUpdate(tokens: tokens))
        let exchanger = FakeExchanger { session in .active(Secret("Bearer exchanged-\(session.version)")) }
        let refresher = FakeRefresher { _, _ in .active(fresh) }
        let setup = Self.setup(
            made, exchanger: exchanger, refresher: refresher, scripts: [.request, .send(Self.rejected)],
            [.request, .send(Reply.ok)])
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.post("/private/a", FakeSessions.cookie(made.0), body: "abc"))
            #expect(response.text == "ok")
            #expect(
                gateway.upstream.requests.map { $0["Authorization"] } == ["Bearer exchanged-1", "Bearer exchanged-2"])
            #expect(gateway.upstream.requests.map(\.text) == ["abc", "abc"])
            #expect(exchanger.dropped == ["Bearer exchanged-1"])
        }
    }

    @Test(
        "If the upstream rejects the exchanged token of a session that cannot be refreshed, it is exchanged again",
        arguments: [true, false])
    func exchangedAgain(hasRefreshToken: Bool) async throws {
        // With a refresh token, but a refresh a moment ago.
        let made = Company.session(accessEnds: hasRefreshToken ? Timestamp(milliseconds: .max / 2) : nil)
        let exchanger = FakeExchanger { _ in .active(Secret("Bearer new")) }
        exchanger.cache("old")
        let refresher = FakeRefresher { _, _ in .ended(.refreshRejected) }
        refresher.isUseless.store(hasRefreshToken, ordering: .relaxed)
        let setup = Self.setup(
            made, exchanger: exchanger, refresher: refresher, scripts: [.request, .send(Self.rejected)],
            [.request, .send(Reply.ok)])
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.post("/private/a", FakeSessions.cookie(made.0), body: "abc"))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == ["Bearer old", "Bearer new"])
            #expect(exchanger.dropped == ["Bearer old"])
            #expect(exchanger.calls.count == 1)
            // Its own token was not rejected, so that the session does not end.
            #expect(refresher.calls.isEmpty)
        }
    }

    @Test("The client gets the 401 of an upstream that rejects the next token too, and no third one is exchanged")
    func rejectedAgain() async throws {
        let made = Company.session()
        let exchanger = FakeExchanger()
        let refresher = FakeRefresher { _, _ in .ended(.refreshRejected) }
        let setup = Self.setup(
            made, exchanger: exchanger, refresher: refresher, scripts: [.request, .send(Self.rejected)],
            [.request, .send(Self.rejected), .again])
        try await setup.run { gateway in
            let client = try await gateway.client()
            let ask = Ask.get("/private/a", FakeSessions.cookie(made.0))
            #expect(try await client.exchange(ask).status == 401)
            #expect(exchanger.calls.count == 2)
            exchanger.hasJustDropped.store(true, ordering: .relaxed)
            exchanger.cache("kept")
            let response = try await client.exchange(ask)
            #expect(response.status == 401)
            #expect(response["Set-Cookie"] == nil)
            #expect(exchanger.calls.count == 2)
            #expect(refresher.calls.isEmpty)
        }
    }

    @Test("A client that leaves while its token is exchanged causes no request")
    func clientLeaves() async throws {
        let made = Company.session()
        let (asked, gate) = (Gate(), Gate())
        let exchanger = FakeExchanger { _ in
            asked.open()
            await gate.passed()
            return .active(Secret("Bearer exchanged"))
        }
        try await Self.setup(made, exchanger: exchanger, scripts: [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            try await eventually("the exchange") { asked.isOpen }
            try await client.close()
            try await gateway.metric(
                #"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            gate.open()
            #expect(try await gateway.client().exchange(Ask.get("/nowhere")).status == 404)
            #expect(gateway.upstream.requests.isEmpty)
        }
    }

    @Test("Identity rule 25: an upstream's step-up challenge is passed on and causes no refresh")
    func stepUpOfUpstreamIsNoRefresh() async throws {
        let pair = Company.session()
        let challenge = #"Bearer realm="a", error="insufficient_user_authentication", acr_values="mfa""#
        let reply =
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"b\"\r\nwww-authenticate: \(challenge)\r\n"
            + "Content-Length: 2\r\n\r\nno"
        let refresher = FakeRefresher()
        let sessions = FakeSessions()
        sessions.add(pair)
        let setup = GatewaySetup([.request, .send(reply), .again]).with(\.sessions, sessions)
            .with(\.refresher, refresher).configuration { $0.addCompany() }
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.0)))
            #expect(response.status == 401)
            #expect(response.values("WWW-Authenticate").contains(challenge))
            #expect(refresher.calls.isEmpty)
            #expect(gateway.upstream.requests.count == 1)
        }
    }
}
