import Crypto
import CryptoExtras
import Foundation
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// Rule 7 of the design of identities.
@Suite("Client authentication with a private key", .timeLimit(.minutes(3)))
struct ClientAssertionSignerTests {
    /// A key of each algorithm, in a file.
    private static func pem(_ algorithm: SignatureAlgorithm) throws -> String {
        switch algorithm {
        case .es256: P256.Signing.PrivateKey().pemRepresentation
        case .edDSA: Curve25519.Signing.PrivateKey().pemRepresentation
        default: try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation
        }
    }

    private static func withFile<R>(_ text: String, _ body: (String) async throws -> R) async throws -> R {
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        try folder.write(text, to: "client.pem")
        return try await body(folder.path(of: "client.pem"))
    }

    private static func key(
        _ file: String, _ algorithm: SignatureAlgorithm = .es256,
        audience: IdentityClientConfiguration.AssertionAudience = .issuer, keyID: String? = "k1"
    ) -> IdentityClientConfiguration.AssertionKey {
        .init(keyFile: file, keyID: keyID, algorithm: algorithm, audience: audience)
    }

    /// The header and the claims of the assertion in a form.
    private func assertion(_ form: [String: String]) throws -> (header: JSONValue, claims: JSONValue) {
        expect(form["client_assertion_type"], equals: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        let parts = try require(form["client_assertion"]).split(separator: ".")
        expect(parts.count, equals: 3)
        let decoded = try parts.map { try require(Base64URL.decode($0.utf8)) }
        return (try require(JSONValue(document: decoded[0])), try require(JSONValue(document: decoded[1])))
    }

    @Test(
        "The assertion is a JWT of the client for one audience, valid for a minute",
        arguments: SignatureAlgorithm.assertions)
    func claims(algorithm: SignatureAlgorithm) async throws {
        try await Self.withFile(try Self.pem(algorithm)) { file in
            try await ProviderFixture.run(
                change: { $0.client.authentication = .privateKey(Self.key(file, algorithm)) }
            ) { fixture in
                _ = await fixture.rejection(of: ProviderFixture.tokens())
                let request = try require(fixture.tokenRequests.first)
                expect(request.field("Authorization"), equals: nil)
                expect(request.form["client_secret"], equals: nil)
                expect(request.form["client_id"], equals: "cloakroom")
                expect(request.form["code"], equals: "canary-code")
                let (header, claims) = try assertion(request.form)
                expect(header[path: "alg"], equals: .string(algorithm.rawValue))
                expect(header[path: "kid"], equals: .string("k1"))
                expect(claims[path: "iss"], equals: .string("cloakroom"))
                expect(claims[path: "sub"], equals: .string("cloakroom"))
                expect(claims[path: "aud"], equals: .string(fixture.issuer))
                expect(claims[path: "iat"], equals: .number(1_800_000_000))
                expect(claims[path: "exp"], equals: .number(1_800_000_060))
            }
        }
    }

    @Test("A configured audience is the token endpoint, also for other endpoints")
    func tokenEndpoint() async throws {
        try await Self.withFile(try Self.pem(.es256)) { file in
            try await ProviderFixture.run(
                change: { $0.client.authentication = .privateKey(Self.key(file, audience: .tokenEndpoint, keyID: nil)) }
            ) { fixture in
                fixture.server.respond(to: "POST /revoke", with: ScriptedServer.json(""))
                try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
                let (header, claims) = try assertion(try require(fixture.requests("POST /revoke").first).form)
                expect(claims[path: "aud"], equals: .string(fixture.issuer + "/token"))
                expect(header[path: "kid"], equals: nil)
            }
        }
    }

    @Test(
        "Identity rule 31: of a provider under another address, both audiences are the public ones",
        arguments: [
            (.issuer, "https://id.cloakroom.invalid"), (.tokenEndpoint, "https://id.cloakroom.invalid/token"),
        ] as [(IdentityClientConfiguration.AssertionAudience, String)])
    func publicAudience(audience: IdentityClientConfiguration.AssertionAudience, expected: String) async throws {
        try await Self.withFile(try Self.pem(.es256)) { file in
            try await ProviderFixture.run(
                change: {
                    $0.moveIssuer(to: "https://id.cloakroom.invalid")
                    $0.client.authentication = .privateKey(Self.key(file, audience: audience))
                }, metadata: [("issuer", #""https://id.cloakroom.invalid""#)]
            ) { fixture in
                _ = await fixture.rejection(of: ProviderFixture.tokens())
                let claims = try assertion(try require(fixture.tokenRequests.first).form).claims
                expect(claims[path: "aud"], equals: .string(expected))
            }
        }
    }

    @Test("Signatures verify with the public key", arguments: SignatureAlgorithm.assertions)
    func signatures(algorithm: SignatureAlgorithm) async throws {
        let pem = try Self.pem(algorithm)
        try await Self.withFile(pem) { file in
            let signer = try ClientAssertionSigner(
                Self.key(file, algorithm), clientID: "cloakroom", audience: { "https://id.example.com" },
                clock: { ProviderFixture.start })
            let form = "?\(String(decoding: try signer.parameters().bytes.dropFirst(), as: UTF8.self))".form
            let parts = try require(form["client_assertion"]).split(separator: ".")
            let signed = Data((parts[0] + "." + parts[1]).utf8)
            let signature = Data(try require(Base64URL.decode(parts[2].utf8)))
            let isValid =
                switch algorithm {
                case .es256:
                    try P256.Signing.PrivateKey(pemRepresentation: pem).publicKey.isValidSignature(
                        P256.Signing.ECDSASignature(rawRepresentation: signature), for: signed)
                case .edDSA:
                    try Curve25519.Signing.PrivateKey(pemRepresentation: pem).publicKey.isValidSignature(
                        signature, for: signed)
                default:
                    try _RSA.Signing.PrivateKey(pemRepresentation: pem).publicKey.isValidSignature(
                        _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: signed),
                        padding: algorithm == .ps256 ? .PSS : .insecurePKCS1v1_5)
                }
            expect(isValid)
        }
    }

    @Test("resendMakesANewAssertion: a call that is sent again has another jti")
    func resendMakesANewAssertion() async throws {
        try await Self.withFile(try Self.pem(.es256)) { file in
            try await ProviderFixture.run(
                change: { $0.client.authentication = .privateKey(Self.key(file)) }
            ) { fixture in
                // A revocation may be sent twice, a code may not.
                fixture.server.handle("POST /revoke", [.close, .bytesThenClose(ScriptedServer.json(""))])
                try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
                let identifiers = try fixture.requests("POST /revoke").map {
                    try assertion($0.form).claims[path: "jti"]
                }
                try require(identifiers.count == 2)
                expect(identifiers[0] != nil)
                expect(identifiers[0] != identifiers[1])
            }
        }
    }

    @Test("The parameters of a curve before the key are skipped, as openssl writes them")
    func openssl() async throws {
        let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        try await Self.withFile(parameters + P256.Signing.PrivateKey().pemRepresentation) { file in
            _ = try ClientAssertionSigner(
                Self.key(file), clientID: "cloakroom", audience: { nil }, clock: { ProviderFixture.start })
        }
    }

    @Test("A file without a suitable key is an error at the start that names the file, and no part of its content")
    func badFiles() async throws {
        let rsa = try Self.pem(.rs256)
        for (text, algorithm) in [
            ("", .es256), ("canary", .es256), (rsa, .es256), (rsa, .edDSA), (try Self.pem(.es256), .rs256),
            (try Self.pem(.edDSA), .es256),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\ncanary\n-----END ENCRYPTED PRIVATE KEY-----\n", .es256),
            ("-----BEGIN PRIVATE KEY-----\ncanary", .ps256), (String(repeating: "canary\n", count: 20_000), .es256),
        ] as [(String, SignatureAlgorithm)] {
            try await Self.withFile(text) { file in
                try expectError(file, algorithm)
            }
        }
        try expectError("/nonexistent/client.pem", .es256)
    }

    private func expectError(_ file: String, _ algorithm: SignatureAlgorithm) throws {
        let configuration = IdentityConfiguration(
            name: "company", issuer: "https://id.example.com",
            client: .init(id: "cloakroom", authentication: .privateKey(Self.key(file, algorithm))))
        let error = #expect(throws: ClientKeyError.self) {
            _ = try OpenIDProvider(
                configuration, timeouts: TimeoutsConfiguration(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton, clock: { ProviderFixture.start })
        }
        expect(
            error?.description.hasPrefix("\(file): cannot read a private key for \(algorithm.rawValue)"), equals: true)
        expect(error?.description.contains("canary"), equals: false)
    }

    @Test("Assertions for token endpoints need a key for each identity, also if it is in several files")
    func sharedKey() throws {
        typealias Audience = IdentityClientConfiguration.AssertionAudience
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        for algorithm in SignatureAlgorithm.assertions {
            let pem = try Self.pem(algorithm)
            try folder.write(pem, to: "a.pem")
            try folder.write("a comment\n" + pem, to: "copy.pem")
            try folder.write(try Self.pem(algorithm), to: "other.pem")
            for (first, file, audience, conflicts) in [
                (.issuer, "a.pem", .issuer, 0), (.tokenEndpoint, "a.pem", .issuer, 1),
                (.tokenEndpoint, "a.pem", .tokenEndpoint, 2), (.tokenEndpoint, "copy.pem", .issuer, 1),
                (.tokenEndpoint, "copy.pem", .tokenEndpoint, 2), (.tokenEndpoint, "other.pem", .tokenEndpoint, 0),
            ] as [(Audience, String, Audience, Int)] {
                var configuration = GatewayConfiguration(listeners: [], upstreams: [], routes: [])
                configuration.identities = [("one", "a.pem", first), ("two", file, audience)].map {
                    IdentityConfiguration(
                        name: $0, issuer: "https://\($0).example.com",
                        client: IdentityClientConfiguration(
                            id: "cloakroom",
                            authentication: .privateKey(
                                Self.key(folder.path(of: $1), algorithm, audience: $2))))
                }
                let findings = ClientKeyValidator.findings(in: configuration)
                expect(findings.count, equals: conflicts)
                expect(findings.allSatisfy { $0.key.suffix(2) == ["client", "assertionAudience"] })
            }
        }
    }
}
