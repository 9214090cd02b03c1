import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rules 17 and 18 of the design of identities, with a server.
@Suite("The refresh of a provider's tokens", .timeLimit(.minutes(3)))
struct ProviderRefreshTests {
    private static let successor = ("refresh_token", #""canary-successor-0123456789""# as String?)

    @Test("replaces the tokens, and a response without an ID token changes nothing else")
    func success() async throws {
        try await ProviderFixture.run { fixture in
            fixture.issue([Self.successor, ("access_token", #""canary-2""#)])
            fixture.advance(by: .seconds(290))
            let update = try await fixture.refresh(fixture.session())
            expect(update.tokens?.authorization, equals: Secret("Bearer canary-2"))
            expect(update.tokens?.refreshToken, equals: Secret("canary-successor-0123456789"))
            expect(update.tokens?.accessTokenExpiresAt, equals: ProviderFixture.start + .seconds(590))
            expect(update.provenance, equals: nil)
            expect(update.endsBy, equals: nil)
            let request = try require(fixture.tokenRequests.first)
            expect(
                request.form, equals: ["grant_type": "refresh_token", "refresh_token": ProviderFixture.refreshToken])
            expect(request.field("Authorization"), equals: "Basic Y2xvYWtyb29tOmNhbmFyeS1jbGllbnQtc2VjcmV0")
        }
    }

    @Test("keeps the refresh token if the response has none, and reports the end of the provider's session")
    func keepsToken() async throws {
        try await ProviderFixture.run { fixture in
            fixture.issue([("refresh_token", nil), ("refresh_expires_in", "1800")])
            let update = try await fixture.refresh(fixture.session())
            expect(update.tokens?.refreshToken, equals: Secret(ProviderFixture.refreshToken))
            expect(update.endsBy, equals: ProviderFixture.start + .seconds(1_800))
        }
    }

    @Test("The refresh token is sent once, on a connection of its own", arguments: [ScriptedServer.Act.close, .reset])
    func once(act: ScriptedServer.Act) async throws {
        try await ProviderFixture.run { fixture in
            fixture.server.handle("POST /token", [act, .bytesThenClose(ProviderFixture.tokens())])
            let before = fixture.server.connectionCount
            await #expect(throws: TokenClientError(.unreachable, in: .refresh)) {
                try await fixture.refresh(fixture.session())
            }
            expect(fixture.tokenRequests.count, equals: 1)
            expect(fixture.server.connectionCount, equals: before + 1)
        }
    }

    @Test(
        "Identity rule 18: only a code of endsOn rejects the refresh token (RFC 6749 §5.2)",
        arguments: [
            ("400 Bad", #"{"error":"invalid_grant"}"#, .rejected), ("401 No", #"{"error":"invalid_grant"}"#, .rejected),
            ("401 No", #"{"error":"invalid_client"}"#, .misconfigured(.invalidClient)),
            ("400 Bad", #"{"error":"invalid_client"}"#, .misconfigured(.invalidClient)),
            ("400 Bad", #"{"error":"unauthorized_client"}"#, .misconfigured(.unauthorizedClient)),
            ("400 Bad", #"{"error":"invalid_request"}"#, .misconfigured(.invalidRequest)),
            ("400 Bad", #"{"error":"unsupported_grant_type"}"#, .misconfigured(.unsupportedGrantType)),
            ("400 Bad", #"{"error":"invalid_scope"}"#, .misconfigured(.invalidScope)),
            ("401 No", "", .misconfigured(.requestRejected)), ("400 Bad", "", .misconfigured(.requestRejected)),
            ("400 Bad", "<html>", .misconfigured(.requestRejected)),
            ("400 Bad", #"{"error":"other"}"#, .misconfigured(.requestRejected)),
            ("403 No", #"{"error":"invalid_grant"}"#, .misconfigured(.forbidden)),
            ("404 No", "", .misconfigured(.notFound)), ("429 Slow", "", .busy), ("500 Error", "", .unreachable),
            ("503 Away", #"{"error":"invalid_grant"}"#, .unreachable), ("302 Found", "", .invalidResponse),
            ("200 OK", "{}", .invalidResponse), ("200 OK", #"{"error":"invalid_grant"}"#, .invalidResponse),
        ] as [(String, String, TokenClientError.Kind)])
    func wrongClientSecretEndsNothing(status: String, body: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run { fixture in
            await expect(fixture.refreshError(of: ScriptedServer.json(body, status: status))?.kind, equals: kind)
            expect(fixture.tokenRequests.count, equals: 1)
        }
    }

    @Test("Identity rule 18: other codes, and any 400, end sessions only if they are configured")
    func endsOn() async throws {
        let empty = ScriptedServer.json("", status: "400 Bad")
        try await ProviderFixture.run(change: { $0.endsOn = ["invalid_grant", "invalid_request"] }) { fixture in
            let invalid = ProviderFixture.error("invalid_request")
            await expect(fixture.refreshError(of: invalid)?.kind, equals: .rejected)
            await expect(fixture.refreshError(of: empty)?.kind, equals: .misconfigured(.requestRejected))
        }
        try await ProviderFixture.run(change: { $0.endsOn = ["any400"] }) { fixture in
            await expect(fixture.refreshError(of: empty)?.kind, equals: .rejected)
            let client = ProviderFixture.error("invalid_client", status: "401 No")
            await expect(fixture.refreshError(of: client)?.kind, equals: .misconfigured(.invalidClient))
            // The rest of the body might name another cause.
            let cut = "HTTP/1.1 400 Bad\r\nContent-Length: 40\r\n\r\n{"
            await expect(fixture.refreshError(of: cut)?.kind, equals: .invalidResponse)
        }
    }

    @Test("A frozen provider ends nothing, within the time limit")
    func frozen() async throws {
        try await ProviderFixture.run(timeout: .milliseconds(400)) { fixture in
            fixture.server.handle("POST /token", [.silence])
            await #expect(throws: TokenClientError(.timedOut, in: .refresh)) {
                try await fixture.refresh(fixture.session())
            }
        }
    }

    @Test("Without metadata or keys no refresh token is spent", arguments: [ProviderFixture.discovery, "GET /jwks"])
    func unavailable(document: String) async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.respond(to: document, with: ScriptedServer.json("", status: "503 Away"))
        } body: { fixture in
            await expect(
                fixture.refreshError(of: ProviderFixture.tokens()),
                equals: TokenClientError(.unreachable, in: .refresh, isUnjudged: true))
            expect(empty: fixture.tokenRequests)
        }
    }

    @Test(
        "A wait for the metadata that takes most of the time spends no refresh token: the lease could end before the call"
    )
    func longWait() async throws {
        try await ProviderFixture.run(timeout: .seconds(1), isReady: false) { server, issuer in
            server.handle(ProviderFixture.discovery, [.silence])
        } body: { fixture in
            let start = ContinuousClock.now
            await expect(fixture.refreshError(of: ProviderFixture.tokens())?.isUnjudged, equals: true)
            #expect(ContinuousClock.now - start < .seconds(4))
            expect(empty: fixture.tokenRequests)
        }
    }

    @Test("A session without a refresh token or without provenance is not refreshed")
    func notRefreshable() async throws {
        try await ProviderFixture.run { fixture in
            await expect(
                fixture.refreshError(of: ProviderFixture.tokens(), fixture.session(refreshToken: nil)),
                equals: TokenClientError(.invalidResponse, in: .refresh))
            expect(empty: fixture.tokenRequests)
        }
    }

    // MARK: - ID tokens (OpenID Connect Core §12.2)

    @Test("Claims follow the ID token of a refresh; the time and the nonce of the sign-in stay")
    func claimsFollow() async throws {
        try await ProviderFixture.run { fixture in
            let token = try fixture.idToken([
                ("name", #""Joanna""#), ("groups", #"["b"]"#), ("acr", #""pwd""#), ("nonce", nil),
                ("auth_time", "1799999990"),
            ])
            fixture.issue([("id_token", token)])
            let session = fixture.session {
                $0.acr = "mfa"
                $0.authenticatedAt = WallTime(seconds: 1_799_999_990)
                $0.providerSession = "s-1"
            }
            let updated = try await require(fixture.refresh(session).provenance)
            expect(String(decoding: updated.claims, as: UTF8.self), equals: #"{"name":"Joanna","groups":["b"]}"#)
            expect(updated.acr, equals: "pwd")
            expect(updated.idToken?.bytes, equals: Array(token.utf8.dropFirst().dropLast()))
            expect(updated.authenticatedAt, equals: session.provenance?.authenticatedAt)
            expect(updated.nonceHash, equals: session.provenance?.nonceHash)
            expect(updated.providerSession, equals: "s-1")
        }
    }

    @Test(
        "subMayNotChange: an ID token of another user rejects the refresh, and its tokens are to be revoked",
        arguments: ["ann", "Jo"])
    func subMayNotChange(subject: String) async throws {
        try await ProviderFixture.run { fixture in
            for successor in [Self.successor, ("refresh_token", nil)] {
                let token = try fixture.idToken([("sub", "\"\(subject)\"")])
                let response = ProviderFixture.tokens([
                    successor, ("access_token", #""canary-of-other""#), ("id_token", token),
                ])
                let error = try await require(fixture.refreshError(of: response))
                expect(error.kind, equals: .rejected)
                expect(error.foreign?.authorization, equals: Secret("Bearer canary-of-other"))
                let isReplaced = successor.1 != nil
                expect(
                    error.foreign?.refreshToken,
                    equals: Secret(isReplaced ? "canary-successor-0123456789" : ProviderFixture.refreshToken))
            }
            expect(fixture.events.contains(.rejected(.token(.otherSubject), in: .refresh)))
        }
    }

    @Test(
        "An ID token of another issuer, client, login or time discards the whole response",
        arguments: [
            ("iss", #""https://evil.example.com""#, .wrongIssuer), ("aud", #""other""#, .wrongAudience),
            ("nonce", #""other""#, .wrongNonce), ("auth_time", "1799999991", .otherAuthenticationTime),
            ("exp", "1799999000", .expired), ("at_hash", #""AAAAAAAAAAAAAAAAAAAAAA""#, .wrongAccessTokenHash),
        ] as [(String, String, TokenRejection)])
    func otherIDToken(name: String, value: String, rejection: TokenRejection) async throws {
        try await ProviderFixture.run { fixture in
            let token = try fixture.idToken([(name, value)])
            let session = fixture.session { $0.authenticatedAt = WallTime(seconds: 1_799_999_990) }
            await expect(
                fixture.refreshError(of: ProviderFixture.tokens([("id_token", token)]), session),
                equals: TokenClientError(.invalidResponse, in: .refresh))
            expect(fixture.events.contains(.rejected(.token(rejection), in: .refresh)))
        }
    }

    @Test("An ID token with a forged signature, or without one, discards the whole response")
    func forgedIDToken() async throws {
        try await ProviderFixture.run { fixture in
            let none = Base64URL.encode(Array(#"{"alg":"none"}"#.utf8)) + "."
            let unsigned = "\"" + none + Base64URL.encode(fixture.claims().payload) + ".\""
            for (token, rejection) in [
                (try fixture.idToken(key: try ScriptedKey(.es256)), TokenRejection.invalidSignature),
                (unsigned, .algorithmNotAllowed),
            ] {
                await expect(
                    fixture.refreshError(of: ProviderFixture.tokens([("id_token", token)])),
                    equals: TokenClientError(.invalidResponse, in: .refresh))
                expect(fixture.events.contains(.rejected(.token(rejection), in: .refresh)))
            }
        }
    }

    @Test("An ID token with an unknown key counts as absent: the refresh token was spent for this response")
    func unknownKey() async throws {
        try await ProviderFixture.run { fixture in
            for attempt in 0..<2 {
                let other = try ScriptedKey(.es256, id: "key-\(attempt + 2)")
                let claims =
                    #"{"iss":"\#(fixture.issuer)","aud":"cloakroom","sub":"jo","exp":1800000300,"iat":1800000000}"#
                let token = String(decoding: try other.token(claims), as: UTF8.self)
                fixture.issue([Self.successor, ("id_token", "\"\(token)\"")])
                let update = try await fixture.refresh(fixture.session())
                expect(update.tokens?.refreshToken, equals: Secret("canary-successor-0123456789"))
                expect(update.provenance, equals: nil)
                expect(fixture.events.contains(.rejected(.token(.unknownKey), in: .refresh)))
            }
        }
    }

    @Test("Claims that became too large are none: the session continues without their rights")
    func claimsTooLarge() async throws {
        try await ProviderFixture.run(change: { $0.keep.bytes = 20 }) { fixture in
            let token = try fixture.idToken([("name", "\"\(String(repeating: "a", count: 100))\"")])
            fixture.issue([("id_token", token)])
            try await expect(fixture.refresh(fixture.session()).provenance?.claims, equals: Array("{}".utf8))
            expect(fixture.events.contains(.rejected(.claimsTooLarge, in: .refresh)))
        }
    }

    // MARK: - Userinfo

    @Test("Claims from userinfo are fetched again after a refresh, and not taken from the ID token")
    func userInfo() async throws {
        try await ProviderFixture.run(change: { $0.userSource = .userInfo }) { fixture in
            let session = fixture.session()
            fixture.issue([("id_token", try fixture.idToken())])
            try await expect(fixture.refresh(session).provenance?.claims, equals: session.provenance?.claims)
            fixture.server.respond(to: "GET /userinfo", with: ScriptedServer.json(#"{"sub":"jo","name":"Joanna"}"#))
            let update = try await fixture.updatedUser(of: session)
            expect(update?.provenance?.claims, equals: Array(#"{"name":"Joanna"}"#.utf8))
            expect(update?.tokens, equals: nil)
            fixture.server.respond(to: "GET /userinfo", with: ScriptedServer.json(#"{"sub":"ann","name":"Ann"}"#))
            await #expect(throws: TokenClientError(.rejected, in: .user)) {
                try await fixture.updatedUser(of: session)
            }
            fixture.server.respond(to: "GET /userinfo", with: ScriptedServer.json("[]"))
            await #expect(throws: TokenClientError(.invalidResponse, in: .user)) {
                try await fixture.updatedUser(of: session)
            }
        }
    }

    @Test("Claims from the ID token need no userinfo")
    func noUserInfo() async throws {
        try await ProviderFixture.run { fixture in
            let updated = try await fixture.updatedUser(of: fixture.session())
            expect(updated, equals: nil)
            expect(empty: fixture.requests("GET /userinfo"))
        }
    }
}
