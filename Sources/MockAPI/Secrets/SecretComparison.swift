import Crypto

/// The fingerprint of a secret, for constant-time comparison.
///
/// Digests are compared in constant time by swift-crypto; hashing first makes both sides equally long.
struct SecretFingerprint: Equatable, Sendable {
    private let digest: SHA256Digest

    init(of secret: some StringProtocol) {
        digest = SHA256.hash(data: Array(secret.utf8))
    }
}
