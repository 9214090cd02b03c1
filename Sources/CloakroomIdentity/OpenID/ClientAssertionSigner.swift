package import CloakroomCore
import Crypto
import CryptoExtras

/// Signs the assertions with which the gateway authenticates to a provider (RFC 7523 §2.2, OpenID Connect Core §9).
///
/// Every call of ``parameters()`` makes a new assertion with a new `jti`, also if a call is sent a second time: providers
/// reject an assertion that they have seen.
struct ClientAssertionSigner: Sendable, Unprintable {
    private enum Key: Sendable {
        case rsa(_RSA.Signing.PrivateKey, _RSA.Signing.Padding)
        case p256(P256.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
    }

    /// The media type of an assertion (RFC 7523 §2.2).
    private static let type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    /// The maximum size of a key file in bytes.
    private static let maxFileSize = 65_536

    private let key: Key
    private let header: String
    private let clientID: String
    private let audience: @Sendable () -> String?
    private let clock: @Sendable () -> WallTime

    /// Reads the key.
    /// - Parameters:
    ///   - audience: The issuer or the token endpoint; `nil` while it is unknown, and then nothing is signed.
    /// - Throws: ``ClientKeyError`` if the file contains no key for the algorithm.
    init(
        _ configuration: IdentityClientConfiguration.AssertionKey, clientID: String,
        audience: @escaping @Sendable () -> String?, clock: @escaping @Sendable () -> WallTime
    ) throws(ClientKeyError) {
        guard let pem = Self.privateKey(in: configuration.keyFile),
            let key = try? Self.key(pem, for: configuration.algorithm)
        else { throw ClientKeyError(file: configuration.keyFile, algorithm: configuration.algorithm) }
        self.key = key
        let keyID = configuration.keyID.map { #","kid":"# + JSONString.quoted($0) } ?? ""
        header = #"{"alg":"\#(configuration.algorithm.rawValue)","typ":"JWT"\#(keyID)}"#
        self.clientID = clientID
        self.audience = audience
        self.clock = clock
    }

    /// The public key, to compare keys with.
    var publicKey: [UInt8] {
        switch key {
        case .rsa(let key, _): Array(key.publicKey.derRepresentation)
        case .p256(let key): Array(key.publicKey.derRepresentation)
        case .ed25519(let key): Array(key.publicKey.rawRepresentation)
        }
    }

    /// The parameters `client_assertion_type` and `client_assertion` with a new assertion, each after an `&`.
    func parameters() throws -> Secret {
        guard let audience = audience() else { throw NoAudience() }
        var generator = SystemRandomNumberGenerator()
        let claims = ClientAssertion(clientID: clientID, audience: audience, now: clock(), using: &generator).claims
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        let assertion = signed + "." + Base64URL.encode(try signature(of: Array(signed.utf8)))
        return Secret(
            "&" + FormEncoding.encode([("client_assertion_type", Self.type), ("client_assertion", assertion)]))
    }

    private struct NoAudience: Error {}

    private func signature(of bytes: [UInt8]) throws -> [UInt8] {
        switch key {
        case .rsa(let key, let padding):
            Array(try key.signature(for: SHA256.hash(data: bytes), padding: padding).rawRepresentation)
        // Both coordinates in a row, not DER (RFC 7518 §3.4).
        case .p256(let key): Array(try key.signature(for: bytes).rawRepresentation)
        case .ed25519(let key): Array(try key.signature(for: bytes))
        }
    }

    private static func key(_ pem: String, for algorithm: SignatureAlgorithm) throws -> Key? {
        switch algorithm {
        case .rs256: .rsa(try _RSA.Signing.PrivateKey(pemRepresentation: pem), .insecurePKCS1v1_5)
        case .ps256: .rsa(try _RSA.Signing.PrivateKey(pemRepresentation: pem), .PSS)
        case .es256: .p256(try P256.Signing.PrivateKey(pemRepresentation: pem))
        case .edDSA: .ed25519(try Curve25519.Signing.PrivateKey(pemRepresentation: pem))
        case .rs384, .rs512, .ps384, .ps512, .es384, .es512: nil
        }
    }

    /// The block of the private key: openssl writes the parameters of a curve before it.
    private static func privateKey(in file: String) -> String? {
        guard let data = RegularFile.contents(of: file, limit: maxFileSize), data.count <= maxFileSize
        else { return nil }
        let lines = String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let first = lines.firstIndex(where: { $0.hasPrefix("-----BEGIN ") && $0.contains("PRIVATE KEY-----") }),
            let last = lines[first...].firstIndex(where: { $0.hasPrefix("-----END ") })
        else { return nil }
        return lines[first...last].joined(separator: "\n")
    }
}

/// The claims of a client assertion (RFC 7523 §3, OpenID Connect Core §9).
///
/// A new one is made for every request, also if a request is sent again: providers reject an assertion that they have
/// seen.
package struct ClientAssertion: Sendable, Equatable {
    /// The lifetime. It covers one request.
    package static let lifetime = Duration.seconds(60)

    /// The JSON of the claims.
    package let claims: String

    /// - Parameters:
    ///   - audience: The issuer or the token endpoint; one value, never a list.
    package init(
        clientID: String, audience: String, now: WallTime, using generator: inout some RandomNumberGenerator
    ) {
        let identifier = (0..<2).flatMap { _ in (generator.next() as UInt64).bigEndianBytes }
        let issuedAt = now.milliseconds / 1_000
        let client = JSONString.quoted(clientID)
        claims =
            "{\"iss\":\(client),\"sub\":\(client),\"aud\":\(JSONString.quoted(audience)),\"iat\":\(issuedAt),"
            + "\"exp\":\(issuedAt &+ Self.lifetime.components.seconds),\"jti\":\"\(Base64URL.encode(identifier))\"}"
    }
}

/// The key file of a client cannot be used.
package struct ClientKeyError: Error, CustomStringConvertible {
    /// The file and the cause.
    package let message: String
    /// How to correct it.
    package let suggestion: String
    /// The file, the cause, and the suggestion.
    package var description: String { "\(message) (\(suggestion))" }

    init(file: String, algorithm: SignatureAlgorithm) {
        let kind =
            switch algorithm.keyType {
            case .rsa: "an RSA key of at least 2,048 bits"
            case .curve: "a key of the curve P-256"
            case .ed25519: "an Ed25519 key"
            }
        message = "\(file): cannot read a private key for \(algorithm.rawValue)"
        suggestion = "use an unencrypted PEM file with \(kind)"
    }
}

/// Validates the key files of clients for the start, for reloads and for `check-config`.
package enum ClientKeyValidator {
    private struct Client {
        let identity: String
        let audience: IdentityClientConfiguration.AssertionAudience
        let publicKey: [UInt8]
    }

    /// Reads the key files of all identities with `private_key_jwt`.
    /// - Returns: One error with a suggestion for each file that has no key for the algorithm, and for each key with
    ///   assertions for a token endpoint that another identity has too, in this file or in another one.
    package static func findings(in configuration: GatewayConfiguration) -> [ConfigFinding] {
        var findings: [ConfigFinding] = []
        var clients: [Client] = []
        for identity in configuration.identities {
            guard case .privateKey(let key) = identity.client.authentication else { continue }
            do throws(ClientKeyError) {
                let signer = try ClientAssertionSigner(
                    key, clientID: identity.client.id, audience: { nil }, clock: { WallTime(seconds: 0) })
                clients.append(
                    Client(identity: identity.name, audience: key.audience, publicKey: signer.publicKey))
            } catch {
                findings.append(
                    ConfigFinding(
                        key: ["identities", identity.name, "client", "keyFile"], message: error.message,
                        suggestion: error.suggestion))
            }
        }
        return findings + shared(clients)
    }

    /// An assertion for a token endpoint can be replayed by the provider of that endpoint at another one, if both accept
    /// the key and one of them chooses the URL (the notice of the OpenID Foundation of January 2025 about audiences of
    /// client assertions).
    private static func shared(_ clients: [Client]) -> [ConfigFinding] {
        clients.filter { $0.audience == .tokenEndpoint }.compactMap { client in
            let other = clients.first { $0.identity != client.identity && $0.publicKey == client.publicKey }
            guard let other else { return nil }
            return ConfigFinding(
                key: ["identities", client.identity, "client", "assertionAudience"],
                message: "tokenEndpoint conflicts with identity \"\(other.identity)\", which has the same key",
                suggestion: "write issuer, or use a key for each identity")
        }
    }
}
