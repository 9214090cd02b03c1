import Crypto
import Foundation
import MockAPI
import NIOHTTP1
import TestSupport
import Testing

/// One test for each deviation that other tests rely on. Each of these tokens must be invalid in exactly one respect.
@Suite struct TokenForgeryTests {
    /// The ID token of a sign-in with a script.
    private func token(
        _ settings: MockProviderSettings = MockProviderSettings(), _ script: (inout ProviderScript) -> Void,
        body: (ProviderVisitor, String) async throws -> Void
    ) async throws {
        try await MockProvider.withServer(settings) { provider in
            provider.script(script)
            let visitor = ProviderVisitor(provider: provider)
            try await body(visitor, try await visitor.signIn().id_token ?? "")
        }
    }

    @Test("claims are replaced, removed, added twice, and moved in time; the signature stays valid")
    func claims() async throws {
        try await token { script in
            script.idToken.claims.set = ["iss": #""https://other.example""#, "aud": "[]", "azp": "1.5"]
            script.idToken.claims.without = ["nonce", "at_hash"]
            script.idToken.claims.extra = #""sub":"mia""#
            script.idToken.times = ["exp": -3_600, "auth_time": 0.5]
        } body: { visitor, text async throws in
            try await expect(visitor.isSigned(text))
            let token = try DecodedToken(text)
            expect(token.payload.contains(#""iss":"https://other.example""#))
            expect(token.payload.contains(#""aud":[]"#) && token.payload.contains(#""azp":1.5"#))
            expect(!token.payload.contains("nonce") && !token.payload.contains("at_hash"))
            expect(token.payload.contains(#""sub":"jo""#) && token.payload.hasSuffix(#","sub":"mia"}"#))
            let now = Date().timeIntervalSince1970
            #expect(abs((token.claim("exp") ?? 0) - now + 3_600) < 60)
            let time: Double = token.claim("auth_time") ?? 0
            expect(abs(time - now) < 60 && time != time.rounded())
        }
    }

    @Test("auth_time can be 0, and the header can be changed; the signature stays valid")
    func header() async throws {
        try await token { script in
            script.idToken.claims.set["auth_time"] = "0"
            script.idToken.header.set = ["typ": #""at+jwt""#, "jku": #""https://evil.example/jwks""#]
            script.idToken.header.without = ["kid"]
        } body: { visitor, text async throws in
            let token = try DecodedToken(text)
            expect(token.header, equals: ["typ": "at+jwt", "alg": "ES256", "jku": "https://evil.example/jwks"])
            expect(token.claim("auth_time"), equals: 0)
            try await expect(visitor.isSigned(text))
        }
    }

    @Test("none: the algorithm is none and the signature empty")
    func none() async throws {
        try await token {
            $0.idToken.signature = .none
        } body: { _, text async throws in
            expect(text.hasSuffix("."))
            try expect(DecodedToken(text).header["alg"], equals: "none")
        }
    }

    @Test("publicKeyAsSecret: HS256 with the published key")
    func publicKeyAsSecret() async throws {
        try await token {
            $0.idToken.signature = .publicKeyAsSecret
        } body: { visitor, text async throws in
            let token = try DecodedToken(text)
            expect(token.header["alg"] == "HS256" && token.header["kid"] == "key-1")
            let key = try await visitor.keys()[0]
            let point =
                (Base64Text.decode((key["x"] ?? "")[...]) ?? Data())
                + (Base64Text.decode((key["y"] ?? "")[...]) ?? Data())
            let pem = try P256.Signing.PublicKey(rawRepresentation: point).pemRepresentation
            expect(token.isAuthenticated(with: pem))
        }
    }

    @Test("otherKey: a signature by another key", arguments: ProviderAlgorithm.allCases)
    func otherKey(_ algorithm: ProviderAlgorithm) async throws {
        var settings = MockProviderSettings()
        settings.algorithm = algorithm
        try await token(settings) {
            $0.idToken.signature = .otherKey
        } body: { visitor, text async throws in
            try await expect(!visitor.isSigned(text))
            try expect(DecodedToken(text).header, equals: ["typ": "JWT", "alg": algorithm.rawValue, "kid": "key-1"])
        }
    }

    @Test("logout tokens have the event, and can be forged as ID tokens can")
    func logoutTokens() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let text = try provider.logoutToken(subject: "jo", sessionID: "s")
            try await expect(visitor.isSigned(text))
            let token = try DecodedToken(text)
            expect(token.header["typ"], equals: "logout+jwt")
            expect(token.payload.contains(#""events":{"http://schemas.openid.net/event/backchannel-logout":{}}"#))
            expect(
                token.claim("sub") == "jo" && token.claim("sid") == "s" && token.claim("nonce", as: String.self) == nil)
            try expect(DecodedToken(try provider.logoutToken(subject: "jo")).claim("sid", as: String.self), equals: nil)
            provider.script {
                $0.logoutToken.claims.set["nonce"] = #""n""#
                $0.logoutToken.claims.without = ["jti"]
            }
            let forged = try DecodedToken(try provider.logoutToken(sessionID: "s"))
            expect(forged.claim("nonce") == "n" && forged.claim("jti", as: String.self) == nil)
        }
    }
}
