import Crypto
import CryptoExtras
import Foundation
import MockAPI
import NIOCore
import Testing

/// The authentication of the client at the token endpoint.
@Suite struct ProviderClientTests {
    private static let rsa = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    @Test("the secret is accepted in the header and in the form, but not in both")
    func secrets() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let secret = ["client_id": "cloakroom", "client_secret": "cloakroom-client-secret"]
            for (form, authorization, isAccepted) in [
                ([:], visitor.basic, true), (secret, nil, true), (secret, visitor.basic, false), ([:], nil, false),
                ([:], .basic("cloakroom", "x"), false),
                (["client_id": "cloakroom", "client_secret": "x"], nil, false),
            ] as [([String: String], String?, Bool)] {
                let all = ["grant_type": "refresh_token", "refresh_token": "x"].merging(form) { $1 }
                let response = try await visitor.post("/token", all, authorization: .some(authorization))
                #expect(response.status == (isAccepted ? 400 : 401), "\(form) \(authorization ?? "")")
                let code = isAccepted ? "invalid_grant" : "invalid_client"
                #expect(String(buffer: response.body) == #"{"error":"\#(code)"}"#)
            }
            #expect(provider.tokenRequests.map(\.authentication) == [.basic, .post])
        }
    }

    /// A signed assertion.
    private func assertion(_ algorithm: String, _ claims: String, sign: (Data) throws -> Data) throws -> String {
        let header = Base64Text.encode(Data(#"{"alg":"\#(algorithm)"}"#.utf8))
        let signed = header + "." + Base64Text.encode(Data(claims.utf8))
        return signed + "." + Base64Text.encode(try sign(Data(signed.utf8)))
    }

    private func claims(_ audience: String, id: String, issuer: String = "cloakroom", age: Double = 0) -> String {
        let expiry = Int(Date().timeIntervalSince1970 + 60 - age)
        return #"{"iss":"\#(issuer)","sub":"\#(issuer)","aud":"\#(audience)","exp":\#(expiry),"jti":"\#(id)"}"#
    }

    private func post(_ visitor: ProviderVisitor, _ assertion: String) async throws -> Int {
        try await visitor.post(
            "/token",
            [
                "grant_type": "refresh_token", "refresh_token": "x", "client_assertion": assertion,
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            ], authorization: .some(nil)
        ).status
    }

    @Test("an assertion is accepted once, from its client, for this provider, until it expires")
    func assertions() async throws {
        let key = P256.Signing.PrivateKey()
        var settings = MockProviderSettings()
        settings.clientKey = key.publicKey.pemRepresentation
        try await MockProvider.withServer(settings) { provider in
            let visitor = ProviderVisitor(provider: provider)
            func make(_ claims: String, _ other: P256.Signing.PrivateKey? = nil) throws -> String {
                try assertion("ES256", claims) { try (other ?? key).signature(for: $0).rawRepresentation }
            }
            let good = try make(claims(provider.issuer, id: "1"))
            #expect(try await post(visitor, good) == 400)
            #expect(try await post(visitor, good) == 401)
            #expect(try await post(visitor, try make(claims(provider.issuer + "/token", id: "2"))) == 400)
            #expect(provider.tokenRequests.map(\.authentication) == [.privateKeyJWT, .privateKeyJWT])
            provider.script { $0.assertionAudience = "token_endpoint" }
            #expect(try await post(visitor, try make(claims(provider.issuer, id: "3"))) == 401)
            provider.script { $0.assertionAudience = "issuer" }
            #expect(try await post(visitor, try make(claims(provider.issuer + "/token", id: "4"))) == 401)
            for bad in [
                claims("https://other.example", id: "5"), claims(provider.issuer, id: "6", issuer: "other"),
                claims(provider.issuer, id: "7", age: 120),
                claims(provider.issuer, id: "8").replacingOccurrences(of: #""jti":"8""#, with: #""x":1"#),
            ] {
                #expect(try await post(visitor, try make(bad)) == 401, "\(bad)")
            }
            #expect(
                try await post(visitor, try make(claims(provider.issuer, id: "9"), P256.Signing.PrivateKey())) == 401)
        }
    }

    @Test("keys of other types verify assertions too", arguments: ["RS256", "PS256", "EdDSA"])
    func otherKeys(_ algorithm: String) async throws {
        var settings = MockProviderSettings()
        let rsa = try Self.rsa.get()
        let edwards = Curve25519.Signing.PrivateKey()
        let prefix: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
        let der = Data(prefix) + edwards.publicKey.rawRepresentation
        settings.clientKey =
            algorithm == "EdDSA"
            ? "-----BEGIN PUBLIC KEY-----\n\(der.base64EncodedString())\n-----END PUBLIC KEY-----\n"
            : rsa.publicKey.pemRepresentation
        try await MockProvider.withServer(settings) { provider in
            let text = try assertion(algorithm, claims(provider.issuer, id: "1")) { bytes in
                if algorithm == "EdDSA" { return try edwards.signature(for: bytes) }
                let padding: _RSA.Signing.Padding = algorithm == "PS256" ? .PSS : .insecurePKCS1v1_5
                return try rsa.signature(for: SHA256.hash(data: bytes), padding: padding).rawRepresentation
            }
            #expect(try await post(ProviderVisitor(provider: provider), text) == 400)
        }
    }
}
