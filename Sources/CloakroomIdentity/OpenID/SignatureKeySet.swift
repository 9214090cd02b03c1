package import CloakroomCore
import Crypto
import JWTKit

/// The keys of one OpenID Provider, ready to verify signatures.
///
/// jwt-kit provides the signature algorithms and nothing else. Each pair of key and algorithm has a collection of its
/// own, which contains one *key*, never a JSON Web Key:
/// - `JWTKeyCollection.add(jwks:)` rejects a whole set for one key that it does not support, uses the first key for an
///   unknown `kid`, and binds a key without `alg` to the algorithm of the first token, before that token is verified: a
///   forged token with another algorithm would disable the key.
/// - The collection's own `verify` decodes claims, and `"aud": []` is a precondition failure there.
package struct SignatureKeySet: Sendable {
    /// A key with its prepared algorithms.
    private struct Entry: Sendable {
        let key: JSONWebKey
        let algorithms: [SignatureAlgorithm: any JWTAlgorithm]
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
    package init(
        document: [UInt8], algorithms: Set<SignatureAlgorithm>
    ) async throws(JSONWebKeySet.Invalid) {
        let set = try JSONWebKeySet(document: document)
        var entries: [Entry] = []
        for key in set.keys {
            var prepared: [SignatureAlgorithm: any JWTAlgorithm] = [:]
            for algorithm in algorithms where key.fits(algorithm) {
                prepared[algorithm] = await Self.prepare(key, for: algorithm)
            }
            if !prepared.isEmpty { entries.append(Entry(key: key, algorithms: prepared)) }
        }
        self.entries = entries
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
            guard entry.algorithms[token.algorithm] != nil else { return false }
            guard let id = token.keyID else { return true }
            return entry.key.id.map { $0.utf8.elementsEqual(id.utf8) } ?? false
        }
        guard let entry = fitting.first, let algorithm = entry.algorithms[token.algorithm] else { throw .unknownKey }
        guard fitting.count == 1 || fitting.allSatisfy({ $0.key.material == entry.key.material }) else {
            throw .ambiguousKey
        }
        guard !token.signature.isEmpty,
            (try? algorithm.verify(token.signature, signs: Array(token.signedBytes))) ?? false
        else { throw token.keyID == nil ? .invalidSignatureWithoutKeyID : .invalidSignature }
        return try VerifiedToken(token)
    }

    // MARK: - Preparation

    /// The algorithm of jwt-kit with a key.
    /// - Returns: `nil` for numbers that are no key, such as a point that is not on its curve.
    private static func prepare(_ key: JSONWebKey, for algorithm: SignatureAlgorithm) async -> (any JWTAlgorithm)? {
        let keys = JWTKeyCollection()
        do {
            switch (key.material, algorithm) {
            case (.rsa(let modulus, let exponent), _):
                let key = try Insecure.RSA.PublicKey(
                    modulus: Base64URL.encode(modulus), exponent: Base64URL.encode(exponent))
                switch algorithm {
                case .rs256: await keys.add(rsa: key, digestAlgorithm: .sha256)
                case .rs384: await keys.add(rsa: key, digestAlgorithm: .sha384)
                case .rs512: await keys.add(rsa: key, digestAlgorithm: .sha512)
                case .ps256: await keys.add(pss: key, digestAlgorithm: .sha256)
                case .ps384: await keys.add(pss: key, digestAlgorithm: .sha384)
                case .ps512: await keys.add(pss: key, digestAlgorithm: .sha512)
                case .es256, .es384, .es512, .edDSA: return nil
                }
            case (.curve(.p256, let x, let y), .es256):
                await keys.add(ecdsa: try ES256PublicKey(backing: P256.Signing.PublicKey(rawRepresentation: x + y)))
            case (.curve(.p384, let x, let y), .es384):
                await keys.add(ecdsa: try ES384PublicKey(backing: P384.Signing.PublicKey(rawRepresentation: x + y)))
            case (.curve(.p521, let x, let y), .es512):
                await keys.add(ecdsa: try ES512PublicKey(backing: P521.Signing.PublicKey(rawRepresentation: x + y)))
            case (.ed25519(let bytes), .edDSA):
                await keys.add(
                    eddsa: EdDSA.PublicKey(backing: try Curve25519.Signing.PublicKey(rawRepresentation: bytes)))
            case (.curve, _), (.ed25519, _): return nil
            }
            return try await keys.getKey()
        } catch {
            return nil
        }
    }
}
