import AsyncHTTPClient
import Crypto
import Foundation
import MockAPI
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

/// The provider without a script: a correct one.
@Suite struct MockProviderTests {
    @Test("the discovery document names the issuer and its endpoints")
    func discovery() async throws {
        struct Document: Decodable {
            let issuer: String
            let authorization_endpoint: String
            let token_endpoint: String
            let jwks_uri: String
            let code_challenge_methods_supported: [String]
            let token_endpoint_auth_methods_supported: [String]
            let authorization_response_iss_parameter_supported: Bool
        }
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let document = try await visitor.send(.GET, "/.well-known/openid-configuration").decode(Document.self)
            expect(document.issuer, equals: provider.issuer)
            expect(document.issuer, equals: "http://127.0.0.1:\(provider.port)")
            expect(document.authorization_endpoint, equals: provider.issuer + "/authorize")
            expect(document.token_endpoint, equals: provider.issuer + "/token")
            expect(document.jwks_uri, equals: provider.issuer + "/jwks")
            expect(document.code_challenge_methods_supported, equals: ["S256"])
            expect(
                document.token_endpoint_auth_methods_supported, equals: ["client_secret_basic", "client_secret_post"])
            expect(document.authorization_response_iss_parameter_supported)
        }
    }

    @Test("a sign-in returns a signed ID token for the client", arguments: ProviderAlgorithm.allCases)
    func signIn(_ algorithm: ProviderAlgorithm) async throws {
        var settings = MockProviderSettings()
        settings.algorithm = algorithm
        try await MockProvider.withServer(settings) { provider in
            let visitor = ProviderVisitor(provider: provider)
            let callback = try await visitor.authorize(["acr_values": "gold silver"])
            expect(callback["state"], equals: "s1")
            expect(callback["iss"], equals: provider.issuer)
            let tokens: ProviderTokens = try await visitor.redeem(callback["code"] ?? "").decode()
            expect(tokens.token_type == "Bearer" && tokens.expires_in == 300)
            let token = try DecodedToken(tokens.id_token ?? "")
            expect(token.header, equals: ["typ": "JWT", "alg": algorithm.rawValue, "kid": "key-1"])
            try await expect(visitor.isSigned(tokens.id_token ?? ""))
            try await expect(visitor.isSigned(tokens.access_token))
            expect(token.claim("iss"), equals: provider.issuer)
            expect(token.claim("aud"), equals: "cloakroom")
            expect(token.claim("sub"), equals: "jo")
            expect(token.claim("nonce"), equals: "n1")
            expect(token.claim("acr"), equals: "gold")
            expect(token.claim("groups"), equals: ["staff", "a, b"])
            expect(token.claim("sid"), equals: provider.logins.last?.sessionID)
            let now = Date().timeIntervalSince1970
            for (name, offset) in [("iat", 0.0), ("auth_time", 0), ("exp", 300)] {
                #expect(abs((token.claim(name) ?? 0) - now - offset) < 60, "\(name)")
            }
            let hash = Base64Text.encode(SHA256.hash(data: Data(tokens.access_token.utf8)).prefix(16))
            switch algorithm {
            case .es384: expect(token.claim("at_hash", as: String.self)?.count, equals: 32)
            case .edDSA: expect(token.claim("at_hash", as: String.self), equals: nil)
            default: expect(token.claim("at_hash"), equals: hash)
            }
        }
    }

    @Test("a code is for one use, one redirect URI and one verifier; a second use revokes its tokens")
    func codes() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            for (name, value) in [("code_verifier", "x"), ("redirect_uri", "http://127.0.0.1:1/other")] {
                var form = [
                    "grant_type": "authorization_code", "code": try await visitor.authorize()["code"] ?? "",
                    "redirect_uri": visitor.redirectURI, "code_verifier": visitor.verifier,
                ]
                form[name] = value
                let response = try await visitor.post("/token", form)
                expect(response.status, equals: 400, "\(name)")
                expect(String(buffer: response.body), equals: #"{"error":"invalid_grant"}"#)
            }
            let code = try await visitor.authorize()["code"] ?? ""
            let tokens: ProviderTokens = try await visitor.redeem(code).decode()
            try await expect(visitor.redeem(code).status, equals: 400)
            try await expect(visitor.refresh(tokens.refresh_token).status, equals: 400)
            let bearer = [("Authorization", "Bearer \(tokens.access_token)")]
            try await expect(visitor.send(.GET, "/userinfo", bearer).status, equals: 401)
        }
    }

    @Test("an authorization request without PKCE, scope or a known client is rejected")
    func invalidRequests() async throws {
        var settings = MockProviderSettings()
        settings.redirectURIs = ["http://127.0.0.1:1/auth/callback"]
        try await MockProvider.withServer(settings) { provider in
            let visitor = ProviderVisitor(provider: provider)
            for (change, code) in [
                (["code_challenge": nil], "invalid_request"), (["code_challenge_method": "plain"], "invalid_request"),
                (["scope": "profile"], "invalid_scope"), (["response_type": "token"], "unsupported_response_type"),
            ] as [([String: String?], String)] {
                let callback = try await visitor.authorize(change)
                expect(callback["error"] == code && callback["code"] == nil && callback["iss"] == provider.issuer)
            }
            for change in [["client_id": "other"], ["redirect_uri": "http://127.0.0.1:1/other"]] {
                await #expect(throws: ProviderVisitor.Unexpected.self) { try await visitor.authorize(change) }
            }
            expect(empty: provider.logins)
        }
    }

    @Test("refresh tokens rotate, and reuse ends the family")
    func rotation() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let first = try await visitor.signIn()
            let second: ProviderTokens = try await visitor.refresh(first.refresh_token).decode()
            expect(second.refresh_token != first.refresh_token && second.access_token != first.access_token)
            let (old, new) = (try DecodedToken(first.id_token ?? ""), try DecodedToken(second.id_token ?? ""))
            for name in ["sub", "sid", "nonce"] {
                expect(new.claim(name, as: String.self), equals: old.claim(name, as: String.self), "\(name)")
            }
            expect(new.claim("auth_time", as: Int.self), equals: old.claim("auth_time", as: Int.self))
            try await expect(visitor.refresh(first.refresh_token).status, equals: 400)
            try await expect(visitor.refresh(second.refresh_token).status, equals: 400)
            let traffic = provider.observations.snapshot()
            expect(traffic.refreshes == 1 && traffic.reuseDetections == 1)
        }
    }

    @Test("tokens are exchanged by audience, and only active ones")
    func exchange() async throws {
        struct Exchanged: Decodable {
            let access_token: String
            let issued_token_type: String
        }
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let tokens = try await visitor.signIn()
            var form = [
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": tokens.access_token,
                "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
                "audience": "https://billing.example.com",
            ]
            let exchanged: Exchanged = try await visitor.post("/token", form).decode()
            expect(exchanged.issued_token_type, equals: "urn:ietf:params:oauth:token-type:access_token")
            try expect(DecodedToken(exchanged.access_token).claim("aud"), equals: "https://billing.example.com")
            try expect(DecodedToken(tokens.access_token).claim("aud"), equals: "https://api.example.com")
            _ = try await visitor.post("/revoke", ["token": tokens.access_token])
            try await expect(visitor.post("/token", form).status, equals: 400)
            form["subject_token_type"] = nil
            expect(String(buffer: try await visitor.post("/token", form).body), equals: #"{"error":"invalid_request"}"#)
        }
    }

    @Test("userinfo is for active access tokens; revocation of a refresh token ends it")
    func userInfoAndRevocation() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let tokens = try await visitor.signIn()
            let bearer = [("Authorization", "Bearer \(tokens.access_token)")]
            let document = try await visitor.send(.GET, "/userinfo", bearer)
            expect(String(buffer: document.body).contains(#""sub":"jo""#))
            try await expect(visitor.post("/revoke", ["token": tokens.refresh_token]).status, equals: 200)
            try await expect(visitor.post("/revoke", ["token": "unknown"]).status, equals: 200)
            try await expect(visitor.refresh(tokens.refresh_token).status, equals: 400)
            try await expect(visitor.send(.GET, "/userinfo").status, equals: 401)
        }
    }

    @Test("a pushed request is used once, and only with the client's authentication")
    func pushed() async throws {
        struct Pushed: Decodable {
            let request_uri: String
            let expires_in: Int
        }
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            try await expect(visitor.post("/par", visitor.parameters, authorization: .some(nil)).status, equals: 401)
            let response = try await visitor.post("/par", visitor.parameters)
            expect(response.status, equals: 201)
            let pushed: Pushed = try response.decode()
            let path =
                "/authorize?client_id=cloakroom&request_uri=" + ProviderVisitor.encode(pushed.request_uri)
            let first = try await visitor.send(.GET, path)
            expect(first.status, equals: 303)
            expect(provider.logins.last?.parameters["nonce"], equals: "n1")
            try await expect(visitor.send(.GET, path).status, equals: 400)
        }
    }

    @Test("end_session returns to the client with its state")
    func endSession() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let target = ProviderVisitor.encode("http://127.0.0.1:1/")
            let response = try await visitor.send(.GET, "/end_session?post_logout_redirect_uri=\(target)&state=x%20y")
            expect(response.headers.first(name: "Location"), equals: "http://127.0.0.1:1/?state=x%20y")
            try await expect(visitor.send(.GET, "/end_session").status, equals: 200)
        }
    }

    @Test("a stopped provider that listens again keeps its keys and tokens")
    func restart() async throws {
        var settings = MockProviderSettings()
        settings.port = try await MockProvider.withServer { $0.port }
        let provider = try MockProvider(settings: settings)
        let tokens = try await provider.whileServing { running in
            let visitor = ProviderVisitor(provider: running)
            return try await visitor.signIn()
        }
        try await provider.whileServing { running async throws in
            let visitor = ProviderVisitor(provider: running)
            try await expect(visitor.isSigned(tokens.id_token ?? ""))
            try await expect(visitor.refresh(tokens.refresh_token).status, equals: 200)
        }
    }
}
