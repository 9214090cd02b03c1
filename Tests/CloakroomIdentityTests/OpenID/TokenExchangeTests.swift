import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 26 of the design of identities, with a server.
@Suite("The exchange of an access token", .timeLimit(.minutes(3)))
struct TokenExchangeTests {
    private static let type = "urn:ietf:params:oauth:token-type:access_token"

    private static func configure(_ configuration: inout IdentityConfiguration) {
        configuration.exchanges = [
            .init(upstream: 1, audience: "https://billing.example.com", scope: "read write"),
            .init(upstream: 2, resource: "https://files.example.com/api"),
        ]
    }

    private static func response(_ changes: [(String, String?)] = []) -> String {
        ProviderFixture.tokens(
            [("access_token", #""canary-exchanged""#), ("issued_token_type", "\"\(type)\"")] + changes)
    }

    private func exchange(_ fixture: ProviderFixture, for upstream: Int = 1) async throws(TokenClientError)
        -> ExchangedToken
    {
        try await fixture.provider.exchange(fixture.session(), for: upstream, traceparent: nil)
    }

    @Test("sends the access token and the configured target (RFC 8693 §2.1)")
    func request() async throws {
        try await ProviderFixture.run(change: Self.configure) { fixture in
            fixture.server.respond(to: "POST /token", with: Self.response())
            let token = try await exchange(fixture)
            expect(token.authorization, equals: Secret("Bearer canary-exchanged"))
            expect(token.expiresAt, equals: ProviderFixture.start + .seconds(300))
            _ = try await exchange(fixture, for: 2)
            let common = [
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": ProviderFixture.accessToken, "subject_token_type": Self.type,
                "requested_token_type": Self.type,
            ]
            let forms = fixture.tokenRequests.map(\.form)
            expect(
                forms,
                equals: [
                    common.merging(["audience": "https://billing.example.com", "scope": "read write"]) { $1 },
                    common.merging(["resource": "https://files.example.com/api"]) { $1 },
                ])
        }
    }

    @Test("An upstream without an exchange causes no call")
    func unknown() async throws {
        try await ProviderFixture.run(change: Self.configure) { fixture in
            await #expect(throws: TokenClientError(.misconfigured(.requestRejected), in: .exchange)) {
                try await exchange(fixture, for: 0)
            }
            expect(empty: fixture.tokenRequests)
        }
    }

    @Test(
        "Any other token than an access token for Bearer is rejected (RFC 8693 §2.2.1)",
        arguments: [
            (response([("issued_token_type", nil)]), .failed(.otherTokenType)),
            (
                response([("issued_token_type", #""urn:ietf:params:oauth:token-type:refresh_token""#)]),
                .failed(.otherTokenType)
            ),
            (response([("token_type", #""N_A""#)]), .failed(.invalidResponse)),
            (response([("access_token", nil)]), .failed(.invalidResponse)),
            (ProviderFixture.error("invalid_grant"), .denied("invalid_grant")),
            (ProviderFixture.error("invalid_target"), .denied("invalid_target")),
            (ProviderFixture.error("invalid_request"), .misconfigured(.invalidRequest)),
            (ScriptedServer.json("", status: "503 Away"), .unreachable),
        ] as [(String, TokenClientError.Kind)])
    func rejected(response: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run(change: Self.configure) { fixture in
            fixture.server.respond(to: "POST /token", with: response)
            await #expect(throws: TokenClientError(kind, in: .exchange)) { try await exchange(fixture) }
        }
    }
}
