import CloakroomIdentity
import FoundationEssentials
import MockAPI
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The token client with other dialects of the mock API", .timeLimit(.minutes(3)))
struct TokenEndpointTests {
    typealias Configuration = IdentityEndpointConfiguration

    private static let client = Configuration.Client(id: "mock:client", secret: Secret("canary secret+%"))

    private func withMock<R: Sendable>(
        _ change: (inout UpstreamConfiguration) -> Void,
        body: (RunningMockAPI, UpstreamTokenClient) async throws -> R
    ) async throws -> R {
        let users = [MockUser(email: "jo", password: "pä:ss &=+%", name: "Jo")]
        return try await Upstreams.withMock(users, change: change, body: body)
    }

    private static func useOAuth(_ configuration: inout UpstreamConfiguration, client: Configuration.Client = client) {
        configuration.signIn = Configuration(path: "/oauth/token", credentials: .oauth, client: client)
        configuration.refresh = configuration.signIn
        configuration.revoke = Configuration(path: "/oauth/revoke", credentials: .oauth, client: client)
    }

    private static func useLogin(_ configuration: inout UpstreamConfiguration) {
        let success = Configuration.SuccessMember(path: "ok")
        configuration.signIn = Configuration(
            path: "/login", credentials: .form, members: .init(name: "username", password: "secret"),
            fixedMembers: [.init(name: "realm", value: "main")], accessToken: "session.key",
            refreshToken: "session.again", success: success, errorCode: "code")
        configuration.refresh = Configuration(
            path: "/login/again", credentials: .form, members: .init(refreshToken: "token"),
            accessToken: "session.key", refreshToken: "session.again", success: success, errorCode: "code",
            endsOn: ["token_expired"])
        configuration.revoke = nil
    }

    private func jo(_ password: String = "pä:ss &=+%") throws -> Credentials {
        try Credentials(name: "jo", kind: .text, password: Secret(password))
    }

    private var now: WallTime { WallTime(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test(
        "signs in, refreshes and revokes at a token endpoint with either client authentication",
        arguments: Configuration.Client.Authentication.allCases)
    func oauth(authentication: Configuration.Client.Authentication) async throws {
        var client = Self.client
        client.authentication = authentication
        try await withMock {
            Self.useOAuth(&$0, client: client)
        } body: { mock, tokenClient in
            let signedIn = try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            #expect(signedIn.user.account == AccountName(userID: try id(of: signedIn), source: source))
            #expect(signedIn.user.name == AccountName(text: "jo"))
            #expect(signedIn.tokens.accessTokenExpiresAt != nil)
            let refreshed = try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            #expect(refreshed.refreshToken != signedIn.tokens.refreshToken)
            try await tokenClient.revoke(refreshed, traceparent: nil)
            await #expect(throws: TokenClientError(.rejected, in: .refresh)) {
                try await tokenClient.refresh(refreshed, traceparent: nil, now: now)
            }
            // An unknown token is revoked already: RFC 7009 §2.2.
            try await tokenClient.revoke(refreshed, traceparent: nil)
            #expect(mock.observations.snapshot().count("POST", "/oauth/token") == 3)
        }
    }

    private var source: SessionSource { SessionSource(upstream: "api") }

    private func id(of signedIn: SignInResult) throws -> String {
        struct User: Decodable { let id: String }
        return try JSONDecoder().decode(User.self, from: Data(signedIn.user.json)).id
    }

    @Test("Rule 36: a wrong client secret ends nothing and rejects no password (wrongClientSecretEndsNothing)")
    func wrongClientSecret() async throws {
        var wrong = Self.client
        wrong.secret = Secret("other")
        try await withMock {
            Self.useOAuth(&$0, client: wrong)
        } body: { _, tokenClient in
            await #expect(throws: TokenClientError(.misconfigured(.invalidClient), in: .signIn)) {
                try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            }
            let tokens = TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("canary-refresh"), obtainedAt: now)
            await #expect(throws: TokenClientError(.misconfigured(.invalidClient), in: .refresh)) {
                try await tokenClient.refresh(tokens, traceparent: nil, now: now)
            }
            await #expect(throws: TokenClientError.self) { try await tokenClient.revoke(tokens, traceparent: nil) }
        }
    }

    @Test("a token endpoint rejects a wrong password and an unknown refresh token with invalid_grant")
    func rejections() async throws {
        try await withMock {
            Self.useOAuth(&$0)
        } body: { _, tokenClient in
            await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await tokenClient.signIn(try jo("wrong"), traceparent: nil, now: now)
            }
            let tokens = TokenSet(authorization: Secret("Bearer a"), refreshToken: Secret("unknown"), obtainedAt: now)
            await #expect(throws: TokenClientError(.rejected, in: .refresh)) {
                try await tokenClient.refresh(tokens, traceparent: nil, now: now)
            }
        }
    }

    @Test("a form with names, static members and a success rule of its own signs in and refreshes")
    func ownForm() async throws {
        try await withMock {
            Self.useLogin(&$0)
        } body: { _, tokenClient in
            let signedIn = try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            let refreshed = try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            #expect(refreshed.authorization != signedIn.tokens.authorization)
            await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await tokenClient.signIn(try jo("wrong"), traceparent: nil, now: now)
            }
            await #expect(throws: TokenClientError(.rejected, in: .refresh)) {
                try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            }
        }
        // Without the static member the response is no success either, and its code ends no session.
        try await withMock {
            Self.useLogin(&$0)
            $0.refresh?.members.refreshToken = "other"
        } body: { _, tokenClient in
            let signedIn = try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            await #expect(throws: TokenClientError(.misconfigured(.requestRejected), in: .refresh)) {
                try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            }
        }
    }

    @Test(
        "with OAuth an error page, an empty error, a redirect and a truncated body end no session",
        arguments: [
            ("400 Bad Request", "", TokenClientError.Kind.misconfigured(.requestRejected)),
            ("401 Unauthorized", "<html>", .misconfigured(.requestRejected)),
            ("403 Forbidden", #"{"error":"invalid_grant"}"#, .misconfigured(.forbidden)),
            ("302 Found", #"{"error":"invalid_grant"}"#, .invalidResponse),
            ("200 OK", #"{"error":"invalid_grant"}"#, .invalidResponse),
            ("200 OK", #"{"access_token":"a","token_type":"DPoP"}"#, .invalidResponse),
            ("503 Service Unavailable", #"{"error":"invalid_grant"}"#, .unreachable),
        ] as [(String, String, TokenClientError.Kind)])
    func noEnd(status: String, body: String, kind: TokenClientError.Kind) async throws {
        try await Upstreams.withScript([ScriptedServer.response(status, body)]) {
            Self.useOAuth(&$0)
        } body: { tokenClient, upstream in
            let tokens = TokenSet(authorization: Secret("Bearer a"), refreshToken: Secret("r"), obtainedAt: now)
            await #expect(throws: TokenClientError(kind, in: .refresh, isUnjudged: status.hasPrefix("5"))) {
                try await tokenClient.refresh(tokens, traceparent: nil, now: now)
            }
            let request = try #require(upstream.requests.first)
            #expect(upstream.requests.count == 1)
            #expect(request.contains("\r\nContent-Type: application/x-www-form-urlencoded\r\n"))
            #expect(request.hasSuffix("\r\n\r\ngrant_type=refresh_token&refresh_token=r"))
        }
    }

    @Test("a name with a colon is rejected without a call if the upstream takes Basic credentials")
    func colon() async throws {
        try await withMock { _ in
        } body: { mock, tokenClient in
            await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await tokenClient.signIn(
                    try Credentials(name: "jo:x", kind: .text, password: Secret("y")), traceparent: nil, now: now)
            }
            #expect(mock.observations.snapshot().total == 0)
        }
    }
}
