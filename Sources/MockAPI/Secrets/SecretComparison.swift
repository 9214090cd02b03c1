import Crypto

/// The fingerprint of a secret, for comparing without telling by the time it takes where two secrets differ.
///
/// Equality of digests is constant-time in swift-crypto, and hashing first makes both sides equally long.
struct SecretFingerprint: Equatable, Sendable {
    private let digest: SHA256Digest

    init(of secret: some StringProtocol) {
        digest = SHA256.hash(data: Array(secret.utf8))
    }
}
