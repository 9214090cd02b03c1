package import CloakroomCore
import Crypto

extension SignatureAlgorithm {
    /// The type of key that an algorithm requires.
    package enum KeyType: Sendable, Hashable {
        /// RSA, `kty` RSA.
        case rsa
        /// An elliptic curve, `kty` EC; each algorithm has its own curve (RFC 7518 §3.4).
        case curve(Curve)
        /// Ed25519, `kty` OKP (RFC 8037 §2).
        case ed25519
    }

    /// A curve of NIST with its name in `crv` (RFC 7518 §6.2.1.1).
    package enum Curve: String, Sendable, Hashable, CaseIterable {
        case p256 = "P-256"
        case p384 = "P-384"
        case p521 = "P-521"

        /// The length of a coordinate in bytes.
        package var coordinateLength: Int {
            switch self {
            case .p256: 32
            case .p384: 48
            case .p521: 66
            }
        }
    }

    /// The type of the algorithm's keys.
    package var keyType: KeyType {
        switch self {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512: .rsa
        case .es256: .curve(.p256)
        case .es384: .curve(.p384)
        case .es512: .curve(.p521)
        case .edDSA: .ed25519
        }
    }

    /// `at_hash` of an access token: the first half of its digest in base64url, with the hash function of the algorithm
    /// (OpenID Connect Core §3.1.3.6).
    /// - Returns: `nil` for EdDSA, for which the specification defines no hash function.
    package func accessTokenHash(_ token: [UInt8]) -> String? {
        switch self {
        case .rs256, .ps256, .es256: Self.firstHalf(SHA256.hash(data: token))
        case .rs384, .ps384, .es384: Self.firstHalf(SHA384.hash(data: token))
        case .rs512, .ps512, .es512: Self.firstHalf(SHA512.hash(data: token))
        case .edDSA: nil
        }
    }

    private static func firstHalf(_ digest: some Digest) -> String {
        let bytes = Array(digest)
        return Base64URL.encode(bytes.prefix(bytes.count / 2))
    }
}
