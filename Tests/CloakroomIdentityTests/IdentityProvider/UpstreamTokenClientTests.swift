import CloakroomCore
import CloakroomIdentity
import FoundationEssentials
import MockAPI
import TestSupport
import Testing

@Suite("The token client with the real mock API", .timeLimit(.minutes(3)))
struct UpstreamTokenClientTests {
    private var now: WallTime { WallTime(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test("exchanges credentials for tokens and fetches the user")
    func signIn() async throws {
        try await Upstreams.withMock { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: "00-a-b-01", now: now)
            expect(signedIn.tokens.refreshToken != nil)
            let end = try require(signedIn.tokens.accessTokenExpiresAt)
            expect(end > now + .seconds(200) && end <= now + .seconds(310))
            let user = String(decoding: signedIn.user.json, as: UTF8.self)
            expect(user.hasPrefix("{") && user.contains(#""email":"jo@example.com""#))

            let seen = mock.observations.snapshot().recent
            expect(seen.map(\.path), equals: ["/auth", "/user"])
            for request in seen {
                expect(request.values(of: "X-API-TOKEN"), equals: [Upstreams.apiToken])
                expect(request.values(of: "traceparent"), equals: ["00-a-b-01"])
                expect(request.values(of: "Accept"), equals: ["application/json"])
                expect(request.values(of: "Authorization").count, equals: 1)
            }
            let bearer = Secret(try require(seen.last?.values(of: "Authorization").first))
            expect(bearer, equals: signedIn.tokens.authorization)
        }
    }

    @Test(
        "revokes the tokens if the user cannot be fetched with them",
        arguments: [(401, .invalidResponse), (404, .misconfigured(.notFound)), (429, .busy)]
            as [(Int, TokenClientError.Kind)])
    func revokesAfterUser(status: Int, kind: TokenClientError.Kind) async throws {
        try await Upstreams.withMock { mock, client in
            mock.faults.failNext("GET", "/user", statuses: [status])
            await #expect(throws: TokenClientError(kind, in: .user)) {
                try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            }
            expect(mock.observations.snapshot().recent.map(\.path), equals: ["/auth", "/user", "/auth/revoke"])
        }
    }

    @Test("supports the older dialect: no refresh token, no lifetime, no revocation")
    func olderDialect() async throws {
        try await Upstreams.withMock(change: { $0.signIn?.path = "/api/v1/signin" }) { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            expect(signedIn.tokens.refreshToken, equals: nil)
            expect(signedIn.tokens.accessTokenExpiresAt, equals: nil)
            try await client.revoke(signedIn.tokens, traceparent: nil)
            expect(mock.observations.snapshot().count("POST", "/auth/revoke"), equals: 0)
        }
    }

    @Test("revokes tokens, and succeeds if they are revoked already")
    func revoke() async throws {
        try await Upstreams.withMock { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            try await client.revoke(signedIn.tokens, traceparent: "00-a-b-01")
            try await client.revoke(signedIn.tokens, traceparent: nil)
            let calls = mock.observations.snapshot().recent.filter { $0.path == "/auth/revoke" }
            let bearer = Secret(bytes: Array("Bearer ".utf8) + (signedIn.tokens.refreshToken?.bytes ?? []))
            expect(calls.count, equals: 2)
            expect(Secret(try require(calls.first?.values(of: "Authorization").first)), equals: bearer)
            mock.faults.failNext("POST", "/auth/revoke", statuses: [500])
            await #expect(throws: TokenClientError(.unreachable, in: .revoke, isUnjudged: true)) {
                try await client.revoke(signedIn.tokens, traceparent: nil)
            }
        }
    }

    @Test("creates the user from the address if the upstream has no user endpoint")
    func noUserCall() async throws {
        try await Upstreams.withMock(change: { $0.user = nil }) { mock, client in
            let signedIn = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: now)
            expect(signedIn.user.json, equals: Array(#"{"email":"jo@example.com"}"#.utf8))
            expect(mock.observations.snapshot().total, equals: 1)
        }
    }
}
