import Crypto
import Foundation
import MockAPI
import NIOHTTP1
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
            #expect(try await visitor.isSigned(text))
            let token = try DecodedToken(text)
            #expect(token.payload.contains(#""iss":"https://other.example""#))
            #expect(token.payload.contains(#""aud":[]"#) && token.payload.contains(#""azp":1.5"#))
            #expect(!token.payload.contains("nonce") && !token.payload.contains("at_hash"))
            #expect(token.payload.contains(#""sub":"jo""#) && token.payload.hasSuffix(#","sub":"mia"}"#))
            let now = Date().timeIntervalSince1970
            #expect(abs((token.claim("exp") ?? 0) - now + 3_600) < 60)
            let time: Double = token.claim("auth_time") ?? 0
            #expect(abs(time - now) < 60 && time != time.rounded())
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
            #expect(token.header == ["typ": "at+jwt", "alg": "ES256", "jku": "https://evil.example/jwks"])
            #expect(token.claim("auth_time") == 0)
            #expect(try await visitor.isSigned(text))
        }
    }

    @Test("none: the algorithm is none and the signature empty")
    func none() async throws {
        try await token {
            $0.idToken.signature = .none
        } body: { _, text async throws in
            #expect(text.hasSuffix("."))
            #expect(try DecodedToken(text).header["alg"] == "none")
        }
    }

    @Test("publicKeyAsSecret: HS256 with the published key")
    func publicKeyAsSecret() async throws {
        try await token {
            $0.idToken.signature = .publicKeyAsSecret
        } body: { visitor, text async throws in
            let token = try DecodedToken(text)
            #expect(token.header["alg"] == "HS256" && token.header["kid"] == "key-1")
            let key = try await visitor.keys()[0]
            let point =
                (Base64Text.decode((key["x"] ?? "")[...]) ?? Data())
                + (Base64Text.decode((key["y"] ?? "")[...]) ?? Data())
            let pem = try P256.Signing.PublicKey(rawRepresentation: point).pemRepresentation
            #expect(token.isAuthenticated(with: pem))
        }
    }

    @Test("the signature is of another key, unknown, corrupt or retired", arguments: ProviderAlgorithm.allCases)
    func invalidSignatures(_ algorithm: ProviderAlgorithm) async throws {
        var settings = MockProviderSettings()
        settings.algorithm = algorithm
        try await MockProvider.withServer(settings) { provider in
            let visitor = ProviderVisitor(provider: provider)
            #expect(try await visitor.isSigned(try await visitor.signIn().id_token ?? ""))
            for signature in [TokenForgery.Signature.otherKey, .unknownKey, .corrupt] {
                provider.script { $0.idToken.signature = signature }
                let text = try await visitor.signIn().id_token ?? ""
                #expect(try await !visitor.isSigned(text), "\(signature)")
                let token = try DecodedToken(text)
                #expect(token.header["alg"] == algorithm.rawValue)
                #expect((token.header["kid"] == "key-1") == (signature != .unknownKey))
            }
        }
    }

    @Test("retiredKey: valid while the old key is published")
    func retiredKey() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            provider.script { $0.idToken.signature = .retiredKey }
            try provider.rotateKeys()
            let text = try await visitor.signIn().id_token ?? ""
            #expect(try DecodedToken(text).header["kid"] == "key-1")
            #expect(try await visitor.isSigned(text))
            try provider.rotateKeys(keepsOld: false)
            #expect(try await visitor.keys().map { $0["kid"] } == ["key-3"])
            #expect(try await !visitor.isSigned(text))
            #expect(try DecodedToken(try await visitor.signIn().id_token ?? "").header["kid"] == "key-2")
        }
    }

    @Test("weakKey: an RSA key of 1,024 bits, listed on request")
    func weakKey() async throws {
        try await token {
            $0.idToken.signature = .weakKey
            $0.keySet.hasWeakKey = true
        } body: { visitor, text async throws in
            #expect(try DecodedToken(text).header == ["typ": "JWT", "alg": "RS256", "kid": "weak"])
            let key = try #require(try await visitor.keys().first { $0["kid"] == "weak" })
            #expect(Base64Text.decode((key["n"] ?? "")[...])?.count == 128)
        }
    }

    @Test("a token can lack a part, have five parts, be long, or be any text")
    func forms() async throws {
        try await token {
            $0.idToken.signature = .missing
        } body: { _, text async throws in
            #expect(text.split(separator: ".", omittingEmptySubsequences: false).count == 2)
        }
        try await token {
            $0.idToken.signature = .encrypted
        } body: { _, text async throws in
            #expect(text.split(separator: ".", omittingEmptySubsequences: false).count == 5)
        }
        try await token {
            $0.idToken.minimumLength = 17_408
        } body: { visitor, text async throws in
            #expect((17_408..<30_000).contains(text.utf8.count))
            #expect(try await visitor.isSigned(text))
        }
        try await token {
            $0.idToken.replacement = "text"
        } body: { _, text async throws in
            #expect(text == "text")
        }
    }

    @Test("logout tokens have the event, and can be forged as ID tokens can")
    func logoutTokens() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let text = try provider.logoutToken(subject: "jo", sessionID: "s")
            #expect(try await visitor.isSigned(text))
            let token = try DecodedToken(text)
            #expect(token.header["typ"] == "logout+jwt")
            #expect(token.payload.contains(#""events":{"http://schemas.openid.net/event/backchannel-logout":{}}"#))
            #expect(
                token.claim("sub") == "jo" && token.claim("sid") == "s" && token.claim("nonce", as: String.self) == nil)
            #expect(try DecodedToken(try provider.logoutToken(subject: "jo")).claim("sid", as: String.self) == nil)
            provider.script {
                $0.logoutToken.claims.set["nonce"] = #""n""#
                $0.logoutToken.claims.without = ["jti"]
            }
            let forged = try DecodedToken(try provider.logoutToken(sessionID: "s"))
            #expect(forged.claim("nonce") == "n" && forged.claim("jti", as: String.self) == nil)
        }
    }

    @Test("the key set can have odd keys first, keys without members, and short coordinates")
    func keySet() async throws {
        var settings = MockProviderSettings()
        settings.algorithm = .rs256
        try await MockProvider.withServer(settings) { provider in
            let visitor = ProviderVisitor(provider: provider)
            try provider.rotateKeys(keepsOld: true, hasShortCoordinate: true)
            provider.script {
                $0.keySet.others = [#"{"kty":"oct","k":"c2VjcmV0"}"#]
                $0.keySet.keys.without = ["alg", "kid"]
                $0.keySet.stripsZeros = true
            }
            let keys = try await visitor.keys()
            #expect(keys.map { $0["kty"] } == ["oct", "EC", "RSA"])
            #expect(keys.allSatisfy { $0["alg"] == nil && $0["kid"] == nil })
            // One key in 256 has a second zero.
            #expect((Base64Text.decode((keys[1]["x"] ?? "")[...])?.count ?? 32) <= 31)
            #expect(try await visitor.isSigned(try await visitor.signIn().id_token ?? ""))
        }
    }
}
