import Crypto
import CryptoExtras
import FoundationEssentials

/// A signature algorithm of a ``MockProvider`` (RFC 7518 §3.1, RFC 8037 §3.1).
public enum ProviderAlgorithm: String, Sendable, Codable, CaseIterable {
    case rs256 = "RS256"
    case ps256 = "PS256"
    case es256 = "ES256"
    case es384 = "ES384"
    case edDSA = "EdDSA"
}

/// A key pair that signs tokens.
struct ProviderKey: Sendable {
    let id: String
    let algorithm: ProviderAlgorithm
    private let pair: Pair

    private enum Pair: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
    }

    /// Generates a pair. An RSA pair takes up to seconds.
    init(_ algorithm: ProviderAlgorithm, id: String) throws {
        self.id = id
        self.algorithm = algorithm
        switch algorithm {
        case .rs256, .ps256: pair = .rsa(try _RSA.Signing.PrivateKey(keySize: .bits2048))
        case .es256: pair = .p256(P256.Signing.PrivateKey())
        case .es384: pair = .p384(P384.Signing.PrivateKey())
        case .edDSA: pair = .ed25519(Curve25519.Signing.PrivateKey())
        }
    }

    /// The public key (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2).
    func jwk() throws -> RawObject {
        var jwk = RawObject()
        switch pair {
        case .rsa(let key):
            let numbers = try key.publicKey.getKeyPrimitives()
            jwk["kty"] = #""RSA""#
            jwk["n"] = RawJSON.string(Base64URL.encode(numbers.modulus))
            jwk["e"] = RawJSON.string(Base64URL.encode(numbers.publicExponent))
        case .p256(let key): jwk = Self.curve("P-256", key.publicKey.rawRepresentation)
        case .p384(let key): jwk = Self.curve("P-384", key.publicKey.rawRepresentation)
        case .ed25519(let key):
            jwk["kty"] = #""OKP""#
            jwk["crv"] = #""Ed25519""#
            jwk["x"] = RawJSON.string(Base64URL.encode(key.publicKey.rawRepresentation))
        }
        jwk["kid"] = RawJSON.string(id)
        jwk["alg"] = RawJSON.string(algorithm.rawValue)
        jwk["use"] = #""sig""#
        return jwk
    }

    private static func curve(_ name: String, _ point: Data) -> RawObject {
        let half = point.count / 2
        return RawObject([
            ("kty", #""EC""#), ("crv", RawJSON.string(name)),
            ("x", RawJSON.string(Base64URL.encode(point.prefix(half)))),
            ("y", RawJSON.string(Base64URL.encode(point.suffix(half)))),
        ])
    }

    /// The public key as PEM.
    var pem: String {
        switch pair {
        case .rsa(let key): key.publicKey.pemRepresentation
        case .p256(let key): key.publicKey.pemRepresentation
        case .p384(let key): key.publicKey.pemRepresentation
        // RFC 8410 §4: the algorithm, then the 32 bytes.
        case .ed25519(let key):
            "-----BEGIN PUBLIC KEY-----\n"
                + Data(
                    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
                        + key.publicKey.rawRepresentation
                ).base64EncodedString() + "\n-----END PUBLIC KEY-----"
        }
    }

    func sign(_ bytes: [UInt8]) throws -> [UInt8] {
        switch pair {
        case .rsa(let key):
            Array(
                try key.signature(
                    for: SHA256.hash(data: bytes), padding: algorithm == .ps256 ? .PSS : .insecurePKCS1v1_5
                ).rawRepresentation)
        case .p256(let key): Array(try key.signature(for: bytes).rawRepresentation)
        case .p384(let key): Array(try key.signature(for: bytes).rawRepresentation)
        case .ed25519(let key): Array(try key.signature(for: bytes))
        }
    }

    /// `at_hash` of an access token (OpenID Connect Core §3.1.3.6); `nil` for EdDSA, which has no defined hash function.
    func accessTokenHash(_ token: String) -> String? {
        let bytes = Array(token.utf8)
        return switch algorithm {
        case .rs256, .ps256, .es256: Base64URL.encode(SHA256.hash(data: bytes).prefix(16))
        case .es384: Base64URL.encode(SHA384.hash(data: bytes).prefix(24))
        case .edDSA: nil
        }
    }
}
