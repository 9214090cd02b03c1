package import CloakroomCore
import Crypto
import CryptoExtras

/// The keys of one OpenID Provider, ready to verify signatures.
///
/// An unusable key does not affect the others, and verifying a token changes nothing: a forged token cannot bind a key
/// without `alg` to its algorithm.
package struct SignatureKeySet: Sendable {
    /// A key, and the same key prepared for use.
    private struct Entry: Sendable {
        let key: JSONWebKey
        let prepared: SignatureKey
    }

    private let entries: [Entry]
    private let permitted: Set<SignatureAlgorithm>
    /// Why keys were skipped, by their position in the document.
    package let skipped: [(position: Int, reason: JSONWebKey.Unusable)]

    /// The number of usable keys.
    package var count: Int { entries.count }

    /// Prepares the keys of a document. A key that is on no curve, or that fits no permitted algorithm, is not used.
    /// - Parameter algorithms: The algorithms that tokens may have.
    /// - Throws: ``JSONWebKeySet/Invalid``.
    package init(document: [UInt8], algorithms: Set<SignatureAlgorithm>) throws(JSONWebKeySet.Invalid) {
        let set = try JSONWebKeySet(document: document)
        self.entries = set.keys.compactMap { key in
            guard algorithms.contains(where: key.fits), let prepared = try? SignatureKey(key.material) else {
                return nil
            }
            return Entry(key: key, prepared: prepared)
        }
        self.permitted = algorithms
        self.skipped = set.skipped
    }

    /// Parses a token and verifies its signature.
    /// - Throws: ``TokenRejection``.
    package func verify(_ token: [UInt8]) throws(TokenRejection) -> VerifiedToken {
        try verify(UnverifiedToken(parsing: token, algorithms: permitted))
    }

    /// Verifies the signature of a token with the one key that it names, or, if it names none, with the one key that
    /// fits its algorithm.
    /// - Throws: ``TokenRejection``: an unknown or ambiguous key, an invalid signature, or an invalid payload.
    package func verify(_ token: UnverifiedToken) throws(TokenRejection) -> VerifiedToken {
        guard permitted.contains(token.algorithm) else { throw .algorithmNotAllowed }
        let fitting = entries.filter { entry in
            guard entry.key.fits(token.algorithm) else { return false }
            guard let id = token.keyID else { return true }
            return entry.key.id.map { $0.utf8.elementsEqual(id.utf8) } ?? false
        }
        guard let entry = fitting.first else { throw .unknownKey }
        guard fitting.count == 1 || fitting.allSatisfy({ $0.key.material == entry.key.material }) else {
            throw .ambiguousKey
        }
        guard (try? entry.prepared.isValid(token.signature, token.algorithm, of: token.signedBytes)) == true else {
            throw token.keyID == nil ? .invalidSignatureWithoutKeyID : .invalidSignature
        }
        return try VerifiedToken(token)
    }
}

/// A public key for one type of algorithm.
enum SignatureKey: Sendable {
    case rsa(_RSA.Signing.PublicKey)
    case p256(P256.Signing.PublicKey)
    case p384(P384.Signing.PublicKey)
    case p521(P521.Signing.PublicKey)
    case ed25519(Curve25519.Signing.PublicKey)

    /// - Throws: For numbers that are no key, such as a point that is not on its curve.
    init(_ material: JSONWebKey.Material) throws {
        switch material {
        case .rsa(let modulus, let exponent): self = .rsa(try _RSA.Signing.PublicKey(n: modulus, e: exponent))
        case .curve(.p256, let x, let y): self = .p256(try P256.Signing.PublicKey(rawRepresentation: x + y))
        case .curve(.p384, let x, let y): self = .p384(try P384.Signing.PublicKey(rawRepresentation: x + y))
        case .curve(.p521, let x, let y): self = .p521(try P521.Signing.PublicKey(rawRepresentation: x + y))
        case .ed25519(let bytes): self = .ed25519(try Curve25519.Signing.PublicKey(rawRepresentation: bytes))
        }
    }

    /// Whether a signature of the exact length is valid (RFC 7518 §3.3 to §3.5, RFC 8037 §3.1); `false` for an algorithm
    /// of another type of key.
    /// - Throws: For a signature of another length, with a curve of NIST.
    func isValid(_ signature: [UInt8], _ algorithm: SignatureAlgorithm, of bytes: ArraySlice<UInt8>) throws -> Bool {
        switch (self, algorithm) {
        case (.rsa(let key), .rs256): key.isValid(signature, .insecurePKCS1v1_5, SHA256.hash(data: bytes))
        case (.rsa(let key), .rs384): key.isValid(signature, .insecurePKCS1v1_5, SHA384.hash(data: bytes))
        case (.rsa(let key), .rs512): key.isValid(signature, .insecurePKCS1v1_5, SHA512.hash(data: bytes))
        case (.rsa(let key), .ps256): key.isValid(signature, .PSS, SHA256.hash(data: bytes))
        case (.rsa(let key), .ps384): key.isValid(signature, .PSS, SHA384.hash(data: bytes))
        case (.rsa(let key), .ps512): key.isValid(signature, .PSS, SHA512.hash(data: bytes))
        // Both numbers side by side, and not in DER. Each curve has its hash function.
        case (.p256(let key), .es256): key.isValidSignature(try .init(rawRepresentation: signature), for: bytes)
        case (.p384(let key), .es384): key.isValidSignature(try .init(rawRepresentation: signature), for: bytes)
        case (.p521(let key), .es512): key.isValidSignature(try .init(rawRepresentation: signature), for: bytes)
        case (.ed25519(let key), .edDSA): key.isValidSignature(signature, for: bytes)
        default: false
        }
    }
}

extension _RSA.Signing.PublicKey {
    fileprivate func isValid(_ signature: [UInt8], _ padding: _RSA.Signing.Padding, _ digest: some Digest) -> Bool {
        isValidSignature(_RSA.Signing.RSASignature(rawRepresentation: signature), for: digest, padding: padding)
    }
}
