import CloakroomCore
import CloakroomIdentity
import FoundationEssentials
import MockAPI
import Testing

@Suite("The token client with the real mock API", .timeLimit(.minutes(3)))
struct UpstreamTokenClientTests {
    private func withMock<R: Sendable>(
        _ change: (inout UpstreamConfiguration) -> Void = { _ in }, timeout: Duration = .seconds(10),
        body: (RunningMockAPI, UpstreamTokenClient) async throws -> R
    ) async throws -> R {
        let settings = MockAPISettings(
            apiToken: Upstreams.apiToken,
            users: [
                MockUser(email: "jo@example.com", password: "canary-password", name: "Jo"),
                MockUser(email: "renée@example.com", password: "pä:ss 🔑", name: "Renée"),
            ])
        return try await MockAPI.withServer(settings) { mock in
            var configuration = Upstreams.configuration(port: mock.port)
            change(&configuration)
            return try await Upstreams.withClient(configuration, timeout: timeout) { try await body(mock, $0) }
        }
    }

    private var now: Timestamp { Timestamp(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test("exchanges credentials for tokens and fetches the user")
    func signIn() async throws {
        try await withMock { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: "00-a-b-01", now: now)
            #expect(signedIn.tokens.refreshToken != nil)
            let end = try #require(signedIn.tokens.accessTokenExpiresAt)
            #expect(end > now + .seconds(200) && end <= now + .seconds(310))
            let user = String(decoding: signedIn.user.json, as: UTF8.self)
            #expect(user.hasPrefix("{") && user.contains(#""email":"jo@example.com""#))

            let seen = mock.observations.snapshot().recent
            #expect(seen.map(\.path) == ["/auth", "/user"])
            for request in seen {
                #expect(request.values(of: "X-API-TOKEN") == [Upstreams.apiToken])
                #expect(request.values(of: "traceparent") == ["00-a-b-01"])
                #expect(request.values(of: "Accept") == ["application/json"])
                #expect(request.values(of: "Authorization").count == 1)
            }
            let bearer = Secret(try #require(seen.last?.values(of: "Authorization").first))
            #expect(bearer == signedIn.tokens.authorization)
        }
    }

    @Test("sends names and passwords in UTF-8")
    func utf8() async throws {
        try await withMock { _, client in
            let credentials = try Upstreams.credentials("renée@example.com", "pä:ss 🔑")
            let user = try await client.signIn(credentials, traceparent: nil, now: now).user
            #expect(String(decoding: user.json, as: UTF8.self).contains("renée@example.com"))
        }
    }

    @Test("Rule 21: names the account by its canonical spelling")
    func account() async throws {
        try await withMock { _, client in
            let first = try await client.signIn(try Upstreams.credentials("jo@example.com"), traceparent: nil, now: now)
            let second = try await client.signIn(
                try Upstreams.credentials("JO@Example.com"), traceparent: nil, now: now)
            let other = try await client.signIn(
                try Upstreams.credentials("renée@example.com", "pä:ss 🔑"), traceparent: nil, now: now)
            #expect(first.user.account == second.user.account)
            #expect(first.user.account != other.user.account)
            #expect(first.tokens != second.tokens)
        }
    }

    @Test("reports rejected for wrong credentials, and sends no further request")
    func wrongPassword() async throws {
        try await withMock { mock, client in
            await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await client.signIn(
                    try Upstreams.credentials("jo@example.com", "wrong"), traceparent: nil, now: now)
            }
            #expect(mock.observations.snapshot().recent.map(\.path) == ["/auth"])
        }
    }

    @Test("does not report wrong credentials for a wrong API key if 403 is not listed as a rejection")
    func wrongAPIKey() async throws {
        try await withMock { configuration in
            configuration.apiToken = APIToken(value: Secret("other"))
            configuration.signIn?.rejectedStatuses = [401]
        } body: { _, client in
            await #expect(throws: TokenClientError(.misconfigured(.forbidden), in: .signIn)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
            return
        }
    }

    @Test(
        "distinguishes a failing upstream from an invalid response",
        arguments: [
            (500, .unreachable), (503, .unreachable), (429, .busy), (400, .misconfigured(.requestRejected)),
            (403, .misconfigured(.forbidden)), (404, .misconfigured(.notFound)),
            (422, .misconfigured(.requestRejected)),
        ] as [(Int, TokenClientError.Kind)])
    func statuses(status: Int, userKind: TokenClientError.Kind) async throws {
        // For a sign-in these statuses mean a wrong password, unless the configuration differs.
        let kind = [400, 403, 422].contains(status) ? TokenClientError.Kind.rejected : userKind
        try await withMock { mock, client in
            mock.faults.failNext("POST", "/auth", statuses: [status])
            await #expect(throws: TokenClientError(kind, in: .signIn, isUnjudged: status >= 500)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
            mock.faults.failNext("GET", "/user", statuses: [status])
            await #expect(throws: TokenClientError(userKind, in: .user, isUnjudged: status >= 500)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
        }
    }

    @Test(
        "revokes the tokens if the user cannot be fetched with them",
        arguments: [(401, .invalidResponse), (404, .misconfigured(.notFound)), (429, .busy)]
            as [(Int, TokenClientError.Kind)])
    func revokesAfterUser(status: Int, kind: TokenClientError.Kind) async throws {
        try await withMock { mock, client in
            mock.faults.failNext("GET", "/user", statuses: [status])
            await #expect(throws: TokenClientError(kind, in: .user)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
            #expect(mock.observations.snapshot().recent.map(\.path) == ["/auth", "/user", "/auth/revoke"])
        }
    }

    @Test("supports the older dialect: no refresh token, no lifetime, no revocation")
    func olderDialect() async throws {
        try await withMock { configuration in
            configuration.signIn = IdentityEndpointConfiguration(path: "/api/v1/signin", credentials: .basic)
        } body: { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            #expect(signedIn.tokens.refreshToken == nil)
            #expect(signedIn.tokens.accessTokenExpiresAt == nil)
            try await client.revoke(signedIn.tokens, traceparent: nil)
            #expect(mock.observations.snapshot().count("POST", "/auth/revoke") == 0)
        }
    }

    @Test("revokes tokens, and succeeds if they are revoked already")
    func revoke() async throws {
        try await withMock { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            try await client.revoke(signedIn.tokens, traceparent: "00-a-b-01")
            try await client.revoke(signedIn.tokens, traceparent: nil)
            let calls = mock.observations.snapshot().recent.filter { $0.path == "/auth/revoke" }
            let bearer = Secret(bytes: Array("Bearer ".utf8) + (signedIn.tokens.refreshToken?.bytes ?? []))
            #expect(calls.count == 2)
            #expect(Secret(try #require(calls.first?.values(of: "Authorization").first)) == bearer)
            mock.faults.failNext("POST", "/auth/revoke", statuses: [500])
            await #expect(throws: TokenClientError(.unreachable, in: .revoke, isUnjudged: true)) {
                try await client.revoke(signedIn.tokens, traceparent: nil)
            }
        }
    }

    @Test("creates the user from the address if the upstream has no user endpoint")
    func noUserCall() async throws {
        try await withMock { configuration in
            configuration.user = nil
        } body: { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            #expect(signedIn.user.json == Array(#"{"email":"jo@example.com"}"#.utf8))
            #expect(mock.observations.snapshot().total == 1)
        }
    }

    @Test("waits no longer than the configured timeout")
    func slow() async throws {
        try await withMock(timeout: .milliseconds(200)) { mock, client in
            mock.faults.setLatency(.seconds(20))
            let start = ContinuousClock.now
            await #expect(throws: TokenClientError(.timedOut, in: .signIn)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
            #expect(ContinuousClock.now - start < .seconds(10))
            mock.faults.setLatency(.zero)
        }
    }
}
