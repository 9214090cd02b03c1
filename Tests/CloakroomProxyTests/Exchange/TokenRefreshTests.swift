import CloakroomCore
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("Requests whose session needs a token refresh", .serialized)
struct TokenRefreshTests {
    private static let rejected = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
    private static let stale = "Bearer stale"
    private static let fresh = "Bearer fresh"

    /// A session, and the same session with other tokens.
    private static func pair() -> (ticket: SessionTicket, stale: Session, fresh: Session) {
        let (ticket, session) = FakeSessions.make(Self.stale, refreshToken: "r")
        let tokens = TokenSet(authorization: Secret(Self.fresh), obtainedAt: Timestamp(seconds: 1))
        return (ticket, session, session.refreshed(with: SessionUpdate(tokens: tokens)))
    }

    /// A gateway whose only session has stale tokens until it is refreshed.
    private static func setup(
        _ scripts: [ScriptedUpstream.Step]..., pair: (ticket: SessionTicket, stale: Session, fresh: Session)
    ) -> (GatewaySetup, FakeRefresher) {
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let refresher = FakeRefresher { _, _ in .active(pair.fresh) }
        var setup = GatewaySetup().with(\.sessions, sessions).with(\.refresher, refresher)
        setup.scripts = scripts
        return (setup, refresher)
    }

    @Test("An upstream's 401 leads to one refresh and one replay; the client receives only the second response")
    func replay() async throws {
        let pair = Self.pair()
        let (setup, refresher) = Self.setup(
            [.request, .send(Self.rejected)], [.request, .send(Reply.ok)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a?q=1", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 200)
            #expect(response.text == "ok")
            let requests = gateway.upstream.requests
            #expect(requests.map { $0["Authorization"] } == [Self.stale, Self.fresh])
            #expect(Set(requests.map(\.line)) == ["GET /private/a?q=1 HTTP/1.1"])
            #expect(refresher.calls == [FakeRefresher.Call(session: pair.stale.id, cause: .rejected)])
            try await gateway.metric(
                #"cloakroom_upstream_retries_total{outcome="sent",reason="rejected_token",upstream="api"} 1"#)
        }
    }

    @Test("The calls of a refresh are no overhead of the gateway: they are logged as identity_ms")
    func identityTime() async throws {
        let pair = Self.pair()
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let refresher = FakeRefresher { _, _ in
            // Longer than the request takes, so nothing remains for the gateway.
            IdentityCallTime.current?.add(nanoseconds: 1_000_000_000_000)
            return .active(pair.fresh)
        }
        var setup = GatewaySetup().with(\.sessions, sessions).with(\.refresher, refresher)
        setup.scripts = [[.request, .send(Self.rejected)], [.request, .send(Reply.ok)]]
        try await setup.run { gateway in
            let response = try await gateway.client().exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.text == "ok")
            try await gateway.metric(#"cloakroom_overhead_seconds_bucket{route="private",le="0.0001"} 1"#)
        }
    }

    @Test(
        "Identity rule 25: a 401 that demands another authentication is passed to the client (RFC 9470 §4)")
    func stepUpOfUpstreamIsNoRefresh() async throws {
        let pair = Self.pair()
        let challenge = #"Bearer error="insufficient_user_authentication", acr_values="urn:example:mfa", max_age="600""#
        let stepUp = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 2\r\n\r\nno"
        let (setup, refresher) = Self.setup([.request, .send(stepUp)], [.request, .send(Reply.ok)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 401)
            #expect(response["WWW-Authenticate"] == challenge)
            #expect(gateway.upstream.requests.count == 1)
            #expect(refresher.calls.isEmpty)
        }
    }

    @Test("A second consecutive 401 is passed to the client: a request is replayed at most once")
    func rejectedTwice() async throws {
        let pair = Self.pair()
        let (setup, refresher) = Self.setup(
            [.request, .send(Self.rejected)], [.request, .send(Self.rejected)], [.request, .send(Reply.ok)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 401)
            #expect(response.text == "no")
            #expect(refresher.calls.count == 1)
            #expect(gateway.upstream.requests.count == 2)
        }
    }

    @Test("A small body is replayed completely", arguments: [1, 16_384])
    func smallBody(size: Int) async throws {
        let pair = Self.pair()
        let (setup, _) = Self.setup([.request, .send(Self.rejected)], [.request, .send(Reply.ok)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let body = String(repeating: "0123456789abcdef", count: 1_024).prefix(size)
            let response = try await client.exchange(
                Ask.post("/private/a", FakeSessions.cookie(pair.ticket), body: String(body)))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.map(\.text) == [String(body), String(body)])
        }
    }

    @Test("A request whose body is too large to buffer is not replayed; the session is refreshed for the next request")
    func largeBody() async throws {
        let pair = Self.pair()
        let (setup, refresher) = Self.setup([.request, .send(Self.rejected)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let body = String(repeating: "x", count: 200_000)
            let response = try await client.exchange(
                Ask.post("/private/a", FakeSessions.cookie(pair.ticket), body: body))
            #expect(response.status == 401)
            #expect(response.text == "no")
            #expect(gateway.upstream.requests.count == 1)
            try await eventually("the refresh") { refresher.calls.count == 1 }
        }
    }

    @Test("After a recent refresh attempt the upstream's 401 is passed to the client, and the request is sent once")
    func uselessRefresh() async throws {
        let pair = Self.pair()
        let (setup, refresher) = Self.setup([.request, .send(Self.rejected)], pair: pair)
        refresher.isUseless.store(true, ordering: .relaxed)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Ask.post("/private/a", FakeSessions.cookie(pair.ticket), body: "wrong password"))
            #expect(response.status == 401)
            #expect(response.text == "no")
            #expect(refresher.calls.isEmpty)
            #expect(gateway.upstream.requests.count == 1)
        }
    }

    @Test("On a route that requires no session a request is forwarded without token if the refresh ends its session")
    func publicRoute() async throws {
        let (ticket, session) = FakeSessions.make(
            Self.stale, refreshToken: "r", accessTokenExpiresAt: Timestamp(seconds: 1_000),
            obtainedAt: Timestamp(seconds: 1)
        )
        let sessions = FakeSessions()
        sessions.add((ticket, session))
        let setup = GatewaySetup([.request, .send(Reply.ok)]).with(\.sessions, sessions)
            .with(\.refresher, FakeRefresher { _, _ in .ended(.refreshRejected) })
            .configuration { configuration in configuration.routes[1].inject = [.apiToken, .bearer] }
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/token/a", FakeSessions.cookie(ticket)))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == [nil])
        }
    }

    @Test("The 401 of a route without bearer token is passed on: it does not concern an injected token")
    func withoutBearer() async throws {
        let pair = Self.pair()
        let (setup, refresher) = Self.setup([.request, .send(Self.rejected)], pair: pair)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/token/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 401)
            #expect(refresher.calls.isEmpty)
        }
    }

    @Test("An expired token is refreshed before the upstream receives anything")
    func expired() async throws {
        let (ticket, session) = FakeSessions.make(
            Self.stale, refreshToken: "r", accessTokenExpiresAt: Timestamp(seconds: 1_000),
            obtainedAt: Timestamp(seconds: 1)
        )
        let pair = Self.pair()
        let (base, refresher) = Self.setup([.request, .send(Reply.ok)], pair: pair)
        base.sessions.add((ticket, session))
        try await base.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.post("/private/a", FakeSessions.cookie(ticket), body: "hello"))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == [Self.fresh])
            #expect(gateway.upstream.requests.map(\.text) == ["hello"])
            #expect(refresher.calls == [FakeRefresher.Call(session: session.id, cause: .expired)])
        }
    }

    @Test(
        "A token that expires before the request is sent is refreshed again, at most three times", arguments: [2, 3, 4])
    func shortLife(rejections: Int) async throws {
        let pair = Self.pair()
        // The token does not expire within 30 s, so no refresh is due, but its age can explain the 401.
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let tokens = TokenSet(
            authorization: Secret(Self.fresh), refreshToken: Secret("r"), accessTokenExpiresAt: now - .milliseconds(1),
            obtainedAt: now - .seconds(1))
        let short = pair.stale.refreshed(with: SessionUpdate(tokens: tokens))
        let rejected = Array(repeating: [ScriptedUpstream.Step.request, .send(Self.rejected)], count: rejections)
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let refresher = FakeRefresher { _, _ in .active(short) }
        var setup = GatewaySetup().with(\.sessions, sessions).with(\.refresher, refresher)
        setup.scripts = rejected + [[.request, .send(Reply.ok)]]
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == (rejections < 4 ? 200 : 401))
            #expect(refresher.calls.count == min(rejections, 3))
        }
    }

    @Test("A request is sent at most four times, retries and replays together; the session is refreshed all the same")
    func sends() async throws {
        let pair = Self.pair()
        let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"
        let (setup, refresher) = Self.setup(
            [.request, .send(unavailable)], [.request, .send(unavailable)], [.request, .send(unavailable)],
            [.request, .send(Self.rejected)], [.request, .send(Reply.ok)], pair: pair)
        try await setup.configuration {
            $0.upstreams[0].retry = RetryConfiguration(attempts: 4, statuses: [503])
        }
        .run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 401)
            #expect(gateway.upstream.requests.count == 4)
            try await eventually("the refresh") { refresher.calls.count == 1 }
        }
    }

    @Test("Shortly before a token expires it is refreshed in the background while requests continue to use it")
    func soon() async throws {
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        // A lifetime of one hour with 30 s left: within the 1 minute window, but not in the last eighth.
        let (ticket, session) = FakeSessions.make(
            Self.stale, refreshToken: "r", accessTokenExpiresAt: now + .seconds(30), obtainedAt: now - .seconds(3_600))
        let (setup, refresher) = Self.setup([.request, .send(Reply.ok)], pair: Self.pair())
        setup.sessions.add((ticket, session))
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(ticket)))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == [Self.stale])
            #expect(refresher.soon == [session.id])
            #expect(refresher.calls.isEmpty)
        }
    }

    @Test("A permanently rejected refresh is 401 refresh_rejected, clears the cookie, and nothing is sent upstream")
    func rejected() async throws {
        let (ticket, session) = FakeSessions.make(
            Self.stale, refreshToken: "r", accessTokenExpiresAt: Timestamp(seconds: 1_000),
            obtainedAt: Timestamp(seconds: 1)
        )
        let sessions = FakeSessions()
        sessions.add((ticket, session))
        let setup = GatewaySetup([.request, .send(Reply.ok)]).with(\.sessions, sessions)
            .with(\.refresher, FakeRefresher { _, _ in .ended(.refreshRejected) })
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(ticket)))
            #expect(response.status == 401)
            #expect(response.problemReason == "refresh_rejected")
            #expect(response["Set-Cookie"]?.hasPrefix("__Host-cloakroom=;") == true)
            #expect(response["Set-Cookie"]?.contains("Max-Age=0") == true)
            #expect(gateway.upstream.received == 0)
        }
    }

    @Test("A refresh that fails temporarily is an error with Retry-After, and never 401", arguments: [502, 504])
    func unavailable(status: Int) async throws {
        let pair = Self.pair()
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let setup = GatewaySetup([.request, .send(Self.rejected)]).with(\.sessions, sessions)
            .with(\.refresher, FakeRefresher { _, _ in .unavailable(status: status, retryAfter: 7) })
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == status)
            #expect(response.code == "unreachable")
            #expect(response["Retry-After"] == "7")
            #expect(response.values("Set-Cookie").isEmpty)
        }
    }

    @Test("A refresh that the upstream rejects for the gateway's own fault is 502 with Retry-After, and never 401")
    func misconfigured() async throws {
        let pair = Self.pair()
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let setup = GatewaySetup([.request, .send(Self.rejected)]).with(\.sessions, sessions)
            .with(\.refresher, FakeRefresher { _, _ in .misconfigured(retryAfter: 3) })
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 502)
            #expect(response.code == "identity_misconfigured")
            #expect(response["Retry-After"] == "3")
            #expect(response.values("Set-Cookie").isEmpty)
        }
    }

    @Test("A store outage during a refresh is 503, and never 401")
    func storeAway() async throws {
        let pair = Self.pair()
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let setup = GatewaySetup([.request, .send(Self.rejected)]).with(\.sessions, sessions)
            .with(\.refresher, FakeRefresher { _, _ in .storeUnavailable(retryAfter: 2) })
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            #expect(response.status == 503)
            #expect(response.code == "store_unavailable")
            #expect(response["Retry-After"] == "2")
        }
    }

    @Test("A client that disconnects during a refresh is released, and the next client is served")
    func clientGone() async throws {
        let pair = Self.pair()
        let gate = Gate()
        let sessions = FakeSessions()
        sessions.add((pair.ticket, pair.stale))
        let refresher = FakeRefresher { _, _ in
            await gate.passed()
            return .active(pair.fresh)
        }
        let setup = GatewaySetup([.request, .send(Self.rejected)], [.request, .send(Reply.ok), .again])
            .with(\.sessions, sessions).with(\.refresher, refresher)
        try await setup.run { gateway in
            let leaving = try await gateway.client()
            leaving.send(Ask.get("/private/a", FakeSessions.cookie(pair.ticket)))
            try await eventually("the refresh") { refresher.calls.count == 1 }
            try await leaving.close()
            gate.open()
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get("/public/a")).text == "ok")
            try await eventually("no waiting requests") {
                gateway.metrics.contains(
                    "http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0")
            }
        }
    }

    @Test("Rule 28: an event stream whose session is no longer cached ends when the store reports the session as ended")
    func eventStream() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        let gate = Gate()
        let setup = GatewaySetup([.request, .send(head + "8\r\ndata: 1\n\r\n"), .wait(gate)]).with(\.sessions, sessions)
        try await setup.steppedTime().configuration { $0.timeouts.tunnelIdle = .seconds(86_400) }.run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/private/events", cookie))
            _ = try await gateway.upstream.request()
            // A store outage ends no stream; the session is checked every second.
            sessions.forget(load: .fail)
            try await eventually(
                "two checks",
                isTrue: {
                    try await gateway.advance(.seconds(1))
                    return sessions.loads >= 2
                })
            #expect(gateway.upstream.connections.first?.isClosed == false)
            sessions.forget(load: .response(.missing(.revoked)))
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
