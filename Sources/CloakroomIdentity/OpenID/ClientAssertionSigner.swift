import CloakroomCore
import Crypto
import CryptoExtras
import FoundationEssentials

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
    private let clock: @Sendable () -> Timestamp

    /// Reads the key.
    /// - Parameters:
    ///   - audience: The issuer or the token endpoint; `nil` while it is unknown, and then nothing is signed.
    /// - Throws: ``ClientKeyError`` if the file contains no key for the algorithm.
    init(
        _ configuration: IdentityClientConfiguration.AssertionKey, clientID: String,
        audience: @escaping @Sendable () -> String?, clock: @escaping @Sendable () -> Timestamp
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
        guard let data = FileManager.default.contents(atPath: file), data.count <= maxFileSize else { return nil }
        let lines = String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let first = lines.firstIndex(where: { $0.hasPrefix("-----BEGIN ") && $0.contains("PRIVATE KEY-----") }),
            let last = lines[first...].firstIndex(where: { $0.hasPrefix("-----END ") })
        else { return nil }
        return lines[first...last].joined(separator: "\n")
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
