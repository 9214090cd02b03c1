import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The end of a session at its provider", .timeLimit(.minutes(3)))
struct ProviderLogoutTests {
    private func revokeError(_ fixture: ProviderFixture, _ tokens: TokenSet) async -> TokenClientError? {
        await thrown { () throws(TokenClientError) in try await fixture.provider.revoke(tokens, traceparent: nil) }
    }

    /// The URL of the sign-out of a session.
    private func url(_ fixture: ProviderFixture, idToken: String = "a.b.c") throws -> String? {
        let provenance = try require(fixture.session { $0.idToken = Secret(idToken) }.provenance)
        return fixture.provider.endSessionURL(provenance, publicURL: "https://app.example.com")
    }

    @Test("RFC 7009 §2.1: the refresh token is revoked, else the access token")
    func revoked() async throws {
        try await ProviderFixture.run { fixture in
            fixture.server.respond(to: "POST /revoke", with: ScriptedServer.json(""))
            try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
            try await fixture.provider.revoke(fixture.session(refreshToken: nil).tokens, traceparent: nil)
            let requests = fixture.requests("POST /revoke")
            expect(
                requests.map(\.form),
                equals: [
                    ["token": ProviderFixture.refreshToken, "token_type_hint": "refresh_token"],
                    ["token": ProviderFixture.accessToken, "token_type_hint": "access_token"],
                ])
            expect(requests.allSatisfy { $0.field("Authorization")?.hasPrefix("Basic ") == true })
        }
    }

    @Test(
        "Only success is success; an unavailable provider is unreachable",
        arguments: [
            (ScriptedServer.json("", status: "503 Away"), .unreachable),
            (ProviderFixture.error("invalid_client", status: "401 No"), .misconfigured(.invalidClient)),
            (ProviderFixture.error("unsupported_token_type"), .denied("unsupported_token_type")),
        ] as [(String, TokenClientError.Kind)])
    func notRevoked(response: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run { fixture in
            fixture.server.respond(to: "POST /revoke", with: response)
            await expect(revokeError(fixture, fixture.session().tokens), equals: TokenClientError(kind, in: .revoke))
        }
    }

    @Test("Without an endpoint nothing is revoked; without metadata that is a failure")
    func noEndpoint() async throws {
        try await ProviderFixture.run(metadata: [("revocation_endpoint", nil)]) { fixture in
            await expect(revokeError(fixture, fixture.session().tokens), equals: nil)
            expect(fixture.server.requests.count, equals: 2)
        }
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.handle(ProviderFixture.discovery, [.close])
        } body: { fixture in
            await expect(
                revokeError(fixture, fixture.session().tokens), equals: TokenClientError(.unreachable, in: .revoke))
        }
    }

    @Test("A sign-out waits for the first metadata, for two seconds at most, and continues at the provider then")
    func firstMetadata() async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.respond(to: "POST /revoke", with: ScriptedServer.json(""))
        } body: { fixture in
            try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
            expect(fixture.requests("POST /revoke").count, equals: 1)
            try expect(url(fixture) != nil)
        }
        try await ProviderFixture.run(timeout: .seconds(30), isReady: false) { server, _ in
            server.handle(ProviderFixture.discovery, [.silence])
        } body: { fixture in
            let start = ContinuousClock.now
            await expect(
                revokeError(fixture, fixture.session().tokens), equals: TokenClientError(.unreachable, in: .revoke))
            // The fetch itself takes five seconds.
            expect((.seconds(2) ..< .milliseconds(4_500)).contains(ContinuousClock.now - start))
        }
    }

    // MARK: - The URL of the sign-out

    @Test("The sign-out continues at the provider, with the ID token, the client and where to return (RPL §2)")
    func url() async throws {
        try await ProviderFixture.run(change: { $0.logout.returnTo = "/bye" }) { fixture in
            let url = try require(url(fixture))
            expect(url.hasPrefix(fixture.issuer + "/logout?"))
            expect(
                url.form,
                equals: [
                    "id_token_hint": "a.b.c", "client_id": "cloakroom",
                    "post_logout_redirect_uri": "https://app.example.com/bye",
                ])
        }
    }

    @Test("A hint that would make the URL too long is omitted")
    func longHint() async throws {
        try await ProviderFixture.run { fixture in
            let url = try require(url(fixture, idToken: String(repeating: "a", count: 8_000)))
            expect(url.form["id_token_hint"], equals: nil)
            expect(url.form["client_id"], equals: "cloakroom")
        }
    }

    @Test("There is no URL without the endpoint, without metadata, or if the configuration disables it")
    func noURL() async throws {
        try await ProviderFixture.run(metadata: [("end_session_endpoint", nil)]) { fixture in
            let url = try url(fixture)
            expect(url, equals: nil)
        }
        try await ProviderFixture.run(change: { $0.logout.isEnabled = false }) { fixture in
            let url = try url(fixture)
            expect(url, equals: nil)
        }
        try await ProviderFixture.run(change: { $0.logout.sendsHint = false }) { fixture in
            let url = try url(fixture)
            try expect(require(url).form["id_token_hint"], equals: nil)
        }
    }

    // MARK: - Logout tokens

    @Test("A logout token of the provider is verified, and an ID token is none")
    func logoutToken() async throws {
        try await ProviderFixture.run { fixture in
            let token = try fixture.logoutToken()
            let verified = try await fixture.provider.verifyLogoutToken(token, from: "", now: fixture.now)
            expect((verified.session, verified.subject) == ("s-1", "jo"))
            expect(verified.issuer, equals: fixture.issuer)
            let idToken = try fixture.key.token(String(decoding: fixture.claims().payload, as: UTF8.self))
            await #expect(throws: TokenClientError(.failed(.token(.invalidEvents)), in: .keys)) {
                try await fixture.provider.verifyLogoutToken(idToken, from: "", now: fixture.now)
            }
            await #expect(throws: TokenClientError(.failed(.token(.issuedTooEarly)), in: .keys)) {
                try await fixture.provider.verifyLogoutToken(token, from: "", now: fixture.now + .seconds(121))
            }
        }
    }

    @Test("Identity rule 20: what is no logout token with any signature is rejected without keys, and takes no place")
    func rejectedFirst() async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.respond(to: "GET /jwks", with: ProviderFixture.error("x", status: "503 Away"))
        } body: { fixture in
            func failure(_ token: [UInt8]) async -> TokenClientError.Kind? {
                await thrown { () throws(TokenClientError) in
                    try await fixture.provider.verifyLogoutToken(token, from: "192.0.2.1", now: fixture.now)
                }?.kind
            }
            let now = fixture.now.milliseconds / 1_000
            let rows: [([(String, String?)], TokenRejection)] = [
                ([("iss", #""x""#)], .wrongIssuer), ([("aud", #""x""#)], .wrongAudience),
                ([("exp", "\(now - 60)")], .expired), ([("iat", "\(now - 121)")], .issuedTooEarly),
                ([("iat", "\(now + 60)")], .issuedInFuture), ([("events", nil)], .invalidEvents),
                ([("events", "{}")], .invalidEvents), ([("nonce", "null")], .nonceInLogoutToken),
                ([("jti", nil)], .invalidTokenID), ([("sub", nil), ("sid", nil)], .noSubjectOrSession),
                ([("x", "\"\(String(repeating: "x", count: OpenIDProvider.maxLogoutToken))\"")], .tooLong),
            ]
            for (changes, rejection) in rows {
                await expect(
                    failure(try fixture.logoutToken(changes)), equals: .failed(.token(rejection)), "\(changes)")
            }
            let other = try fixture.logoutToken(header: #"{"alg":"ES256","kid":"key-1","typ":"at+jwt"}"#)
            await expect(failure(other), equals: .failed(.token(.wrongType)))
            // Whatever else is valid, its signature is decisive.
            await expect(failure(try fixture.logoutToken()), equals: .unreachable)
        }
    }

    @Test("Garbage at the back-channel causes no call", arguments: ["", "a", "a.b.c", "....", "a.b.c.d.e"])
    func garbage(text: String) async throws {
        try await ProviderFixture.run { fixture in
            await #expect(throws: TokenClientError.self) {
                try await fixture.provider.verifyLogoutToken(Array(text.utf8), from: "", now: fixture.now)
            }
            expect(fixture.server.requests.count, equals: 2)
        }
    }
}
