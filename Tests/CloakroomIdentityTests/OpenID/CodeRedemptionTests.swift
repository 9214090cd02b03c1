import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// Rules 6 and 16 of the design of identities, with a server.
@Suite("The exchange of a code", .timeLimit(.minutes(3)))
struct CodeRedemptionTests {
    @Test("sends the code with the verifier and the redirect URI, and returns what the provider states")
    func success() async throws {
        try await ProviderFixture.run { fixture in
            let token = try fixture.idToken([
                ("sid", #""s-1""#), ("auth_time", "1799999990.5"), ("acr", #""mfa""#), ("email", #""jo@example.com""#),
                ("groups", #"["a","b"]"#), ("secret_claim", "1"),
            ])
            fixture.issue([("id_token", token), ("refresh_expires_in", "1800")])
            let result = try await fixture.redeem()
            let form = try require(fixture.tokenRequests.first).form
            expect(
                form,
                equals: [
                    "grant_type": "authorization_code", "code": "canary-code",
                    "redirect_uri": ProviderFixture.redirectURI,
                    "code_verifier": String(decoding: fixture.login.verifierText.bytes, as: UTF8.self),
                ])
            expect(
                fixture.tokenRequests.first?.field("Authorization"),
                equals: "Basic Y2xvYWtyb29tOmNhbmFyeS1jbGllbnQtc2VjcmV0")
            expect(result.tokens.authorization, equals: Secret("Bearer \(ProviderFixture.accessToken)"))
            expect(result.tokens.refreshToken, equals: Secret(ProviderFixture.refreshToken))
            expect(result.tokens.accessTokenExpiresAt, equals: ProviderFixture.start + .seconds(300))
            expect(result.endsBy, equals: ProviderFixture.start + .seconds(1_800))
            let provenance = result.provenance
            expect(provenance.identity, equals: "company")
            expect(provenance.issuer, equals: fixture.issuer)
            expect(provenance.subject, equals: "jo")
            expect(provenance.providerSession, equals: "s-1")
            expect(provenance.authenticatedAt, equals: WallTime(milliseconds: 1_799_999_990_500))
            expect(provenance.acr, equals: "mfa")
            expect(provenance.nonceHash, equals: IDTokenRules.hash(Array(fixture.login.nonceText.utf8)))
            expect(
                String(decoding: provenance.claims, as: UTF8.self),
                equals: #"{"name":"Jo","email":"jo@example.com","groups":["a","b"]}"#)
            expect(provenance.idToken?.bytes, equals: Array(token.utf8.dropFirst().dropLast()))
            expect(result.user.account, equals: AccountName(issuer: fixture.issuer, subject: "jo"))
            expect(result.user.json, equals: Array("{}".utf8))
        }
    }

    @Test("Client authentication in the form and by assertion replaces the field")
    func authentication() async throws {
        try await ProviderFixture.run(change: { $0.client.authentication = .post(Secret("a b+c")) }) { fixture in
            _ = await fixture.rejection(of: ProviderFixture.tokens())
            let request = try require(fixture.tokenRequests.first)
            expect(request.field("Authorization"), equals: nil)
            expect(request.form["client_id"], equals: "cloakroom")
            expect(request.form["client_secret"], equals: "a b+c")
        }
    }

    @Test("RFC 6749 §2.3.1: id and secret are form-encoded before they become Basic credentials")
    func encodedCredentials() async throws {
        try await ProviderFixture.run { configuration in
            configuration.client = IdentityClientConfiguration(
                id: "app:one", authentication: .basic(Secret("p+w %")))
        } body: { fixture in
            _ = await fixture.rejection(of: ProviderFixture.tokens())
            let expected = Data("app%3Aone:p%2Bw+%25".utf8).base64EncodedString()
            expect(fixture.tokenRequests.first?.field("Authorization"), equals: "Basic \(expected)")
        }
    }

    @Test("The ID token is not kept without a hint for the provider's logout", arguments: [true, false])
    func noHint(isLogoutEnabled: Bool) async throws {
        try await ProviderFixture.run(
            change: { $0.logout = .init(isEnabled: isLogoutEnabled, sendsHint: !isLogoutEnabled) }
        ) { fixture in
            fixture.issue([("id_token", try fixture.idToken())])
            try await expect(fixture.redeem().provenance.idToken, equals: nil)
        }
    }

    @Test(
        "The code is sent once, also if the connection breaks, and on a connection of its own",
        arguments: [ScriptedServer.Act.close, .reset, .bytesThenClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")])
    func once(act: ScriptedServer.Act) async throws {
        try await ProviderFixture.run { fixture in
            fixture.server.handle("POST /token", [act, .bytesThenClose(ProviderFixture.tokens())])
            let before = fixture.server.connectionCount
            await #expect(throws: TokenClientError.self) { try await fixture.redeem() }
            expect(fixture.tokenRequests.count, equals: 1)
            expect(fixture.server.connectionCount, equals: before + 1)
        }
    }

    @Test(
        "A response that never arrives, or too slowly, ends with the time limit",
        arguments: [
            ScriptedServer.Act.silence, .bytes("HTTP/1.1 200 OK\r\nContent-Le"),
            .bytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
        ])
    func slow(act: ScriptedServer.Act) async throws {
        try await ProviderFixture.run(timeout: .milliseconds(400)) { fixture in
            fixture.server.handle("POST /token", [act])
            let start = ContinuousClock.now
            await #expect(throws: TokenClientError(.unreachable, in: .code)) { try await fixture.redeem() }
            #expect(ContinuousClock.now - start < .seconds(5))
            expect(fixture.tokenRequests.count, equals: 1)
        }
    }

    @Test(
        "A response without tokens is an error by its status and its code",
        arguments: [
            (ProviderFixture.error("invalid_grant"), .denied("invalid_grant")),
            (ProviderFixture.error("invalid_client", status: "401 No"), .misconfigured(.invalidClient)),
            (ProviderFixture.error("unauthorized_client"), .misconfigured(.unauthorizedClient)),
            (ScriptedServer.json("", status: "400 Bad"), .misconfigured(.requestRejected)),
            (ScriptedServer.json("", status: "403 No"), .misconfigured(.forbidden)),
            (ScriptedServer.json("", status: "404 No"), .misconfigured(.notFound)),
            (ScriptedServer.json("", status: "429 Slow"), .unreachable),
            (ScriptedServer.json("", status: "500 Error"), .unreachable),
            ("HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", .failed(.invalidResponse)),
            (ScriptedServer.json("<html>"), .failed(.invalidResponse)),
            (ScriptedServer.json("{}"), .failed(.invalidResponse)),
            (ScriptedServer.json(""), .failed(.invalidResponse)),
            (ScriptedServer.json("[]"), .failed(.invalidResponse)),
            (
                ScriptedServer.json(#"{"access_token":"a","token_type":"Bearer","access_token":"b","id_token":"a.b"}"#),
                .failed(.invalidResponse)
            ),
            (ScriptedServer.json(String(repeating: " ", count: 65_537)), .failed(.invalidResponse)),
            (ProviderFixture.tokens([("token_type", #""DPoP""#)]), .failed(.invalidResponse)),
            (ProviderFixture.tokens([("token_type", nil)]), .failed(.invalidResponse)),
            (ProviderFixture.tokens([("access_token", #""a b""#)]), .failed(.invalidResponse)),
            (ProviderFixture.tokens([("access_token", nil)]), .failed(.invalidResponse)),
            (ProviderFixture.tokens([("id_token", "5")]), .failed(.invalidResponse)),
            (ProviderFixture.tokens(), .failed(.noIDToken)),
            (ProviderFixture.tokens([("id_token", #""a.b""#)]), .failed(.token(.notCompact))),
        ] as [(String, TokenClientError.Kind)])
    func rejected(response: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run { fixture in
            await expect(fixture.rejection(of: response), equals: TokenClientError(kind, in: .code))
            expect(fixture.tokenRequests.count, equals: 1)
            expect(empty: fixture.requests("POST /elsewhere"))
        }
    }

    @Test(
        "Each claim of the ID token that is wrong fails the login",
        arguments: [
            ("iss", #""https://evil.example.com""#, .wrongIssuer), ("aud", #""other""#, .wrongAudience),
            ("exp", "1799999000", .expired), ("iat", "1799999000", .issuedTooEarly), ("nonce", nil, .wrongNonce),
            ("at_hash", #""AAAAAAAAAAAAAAAAAAAAAA""#, .wrongAccessTokenHash),
            ("events", #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#, .wrongType),
        ] as [(String, String?, TokenRejection)])
    func wrongClaims(name: String, value: String?, rejection: TokenRejection) async throws {
        try await ProviderFixture.run { fixture in
            let error = await fixture.rejection(ofIDToken: try fixture.idToken([(name, value)]))
            expect(error, equals: TokenClientError(.failed(.token(rejection)), in: .code))
            expect(fixture.events.contains(.rejected(.token(rejection), in: .code)))
        }
    }

    @Test("auth_time is required where max_age was requested")
    func authenticationTime() async throws {
        try await ProviderFixture.run { fixture in
            let response = ProviderFixture.tokens([("id_token", try fixture.idToken())])
            let error = await fixture.rejection(of: response, needsAuthenticationTime: true)
            expect(error?.kind, equals: .failed(.token(.missingAuthenticationTime)))
            await expect(fixture.rejection(of: response), equals: nil)
        }
    }

    @Test("A forged signature fails the login, and no algorithm can be chosen that is not configured")
    func forged() async throws {
        try await ProviderFixture.run { fixture in
            let forged = try fixture.idToken(key: try ScriptedKey(.es256))
            await expect(fixture.rejection(ofIDToken: forged)?.kind, equals: .failed(.token(.invalidSignature)))
            let payload = Base64URL.encode(fixture.claims().payload)
            let none = Base64URL.encode(Array(#"{"alg":"none"}"#.utf8)) + ".\(payload)."
            await expect(
                fixture.rejection(ofIDToken: "\"\(none)\"")?.kind, equals: .failed(.token(.algorithmNotAllowed)))
        }
    }

    @Test("Tokens of a login that fails afterwards are not revoked: a provider could end an earlier session with them")
    func notRevoked() async throws {
        try await ProviderFixture.run { fixture in
            await expect(fixture.rejection(of: ProviderFixture.tokens())?.kind, equals: .failed(.noIDToken))
            expect(empty: fixture.requests("POST /revoke"))
        }
    }

    @Test(
        "A lifetime of the session at the provider is optional, and 0 is none", arguments: ["0", "-1", #""x""#, "null"])
    func endsBy(value: String) async throws {
        try await ProviderFixture.run { fixture in
            fixture.issue([("id_token", try fixture.idToken()), ("refresh_expires_in", value)])
            try await expect(fixture.redeem().endsBy, equals: nil)
        }
    }

    // MARK: - Claims

    @Test("Kept claims that are larger than the limit fail the login")
    func claimsTooLarge() async throws {
        try await ProviderFixture.run(change: { $0.keep = .init(claims: ["name"], bytes: 20) }) { fixture in
            let exact = try fixture.idToken([("name", "\"\(String(repeating: "a", count: 9))\"")])
            await expect(fixture.rejection(ofIDToken: exact), equals: nil)
            let large = try fixture.idToken([("name", "\"\(String(repeating: "a", count: 10))\"")])
            await expect(
                fixture.rejection(ofIDToken: large), equals: TokenClientError(.failed(.claimsTooLarge), in: .code))
        }
    }

    @Test("Identity rule 22: a kept number is that of the document, or none, and no field can then contain the claim")
    func inexactNumbers() async throws {
        try await ProviderFixture.run(change: { $0.keep = .init(claims: ["id", "ids"], bytes: 200) }) { fixture in
            for number in ["9007199254740992", "9007199254740993", "-12345678901234567890", "1e999", "1e-999"] {
                fixture.issue([("id_token", try fixture.idToken([("id", number), ("ids", "[7,0.5,\(number)]")]))])
                let provenance = try await fixture.redeem().provenance
                expect(String(decoding: provenance.claims, as: UTF8.self), equals: #"{"id":{},"ids":[7,0.5,{}]}"#)
                var upstream = UpstreamConfiguration(name: "api", targets: [])
                upstream.claimHeaders = [ClaimHeader("X-ID", claim: "id")]
                expect(ClaimHeaders.unrepresentableClaim(of: provenance, upstreams: [upstream]), equals: "id")
            }
        }
    }

    @Test("Claims that contain a token fail the login: claims are sent to clients, tokens are not")
    func claimsWithToken() async throws {
        try await ProviderFixture.run { fixture in
            let token = try fixture.idToken([("name", "\"x \(ProviderFixture.refreshToken)\"")])
            await expect(fixture.rejection(ofIDToken: token)?.kind, equals: .failed(.invalidResponse))
        }
    }

    @Test("The user's data come from userinfo if configured, with the access token")
    func userInfo() async throws {
        try await ProviderFixture.run(change: { $0.userSource = .userInfo }) { fixture in
            fixture.issue([("id_token", try fixture.idToken())])
            fixture.server.respond(
                to: "GET /userinfo", with: ScriptedServer.json(#"{"sub":"jo","name":"Jo","email_verified":true}"#))
            let claims = try await fixture.redeem().provenance.claims
            expect(String(decoding: claims, as: UTF8.self), equals: #"{"name":"Jo","email_verified":true}"#)
            expect(
                fixture.requests("GET /userinfo").first?.field("Authorization"),
                equals: "Bearer \(ProviderFixture.accessToken)")
        }
    }

    @Test(
        "Data of another subject, or without one, fail the login (Core §5.3.2)",
        arguments: [
            (ScriptedServer.json(#"{"sub":"Jo","name":"Jo"}"#), .failed(.otherSubject)),
            (ScriptedServer.json(#"{"name":"Jo"}"#), .failed(.otherSubject)),
            (ScriptedServer.json(#"{"sub":["jo"]}"#), .failed(.otherSubject)),
            (ScriptedServer.json("a.b.c"), .failed(.invalidResponse)),
            (ScriptedServer.json("", status: "401 No"), .failed(.invalidResponse)),
            (ProviderFixture.error("invalid_token", status: "401 No"), .failed(.invalidResponse)),
            (ScriptedServer.json("", status: "503 Away"), .unreachable),
        ] as [(String, TokenClientError.Kind)])
    func rejectedUserInfo(response: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run(change: { $0.userSource = .userInfo }) { fixture in
            fixture.server.respond(to: "GET /userinfo", with: response)
            let error = await fixture.rejection(ofIDToken: try fixture.idToken())
            expect(error, equals: TokenClientError(kind, in: .user))
        }
    }
}
