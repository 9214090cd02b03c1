public import CloakroomCore
import Crypto

/// Seals the content of cookies under keys derived from the gateway's secrets, with AES-256-GCM (NIST SP 800-38D).
///
/// Sealed content is the id of the secret, 4 bytes; the nonce, 12 random bytes; the ciphertext; the tag, 16 bytes. Each
/// cookie name has a key of its own, so that the number of random nonces under one key is small (NIST SP 800-38D §8.3).
public struct CookieSealer: CookieSealing {
    private static let nonceCount = 12
    private static let tagCount = 16

    private let secrets: SealingKeyring

    /// Creates a sealer.
    public init(_ secrets: SealingKeyring) {
        self.secrets = secrets
    }

    /// Creates a sealer from the configured secrets, the newest first. Without secrets, which only the memory store
    /// permits, a random one is used: cookies are then valid until the process ends, like sessions.
    public init(_ secrets: [Secret], using generator: inout some RandomNumberGenerator) {
        let random = (0..<4).flatMap { _ in generator.next().bigEndianBytes }
        self.secrets = SealingKeyring(secrets) ?? SealingKeyring(Secret(bytes: random))
    }

    /// Seals content under the newest secret.
    public func seal(_ content: [UInt8], name: String) -> [UInt8]? {
        let key = secrets.newestCookieKey(name: name)
        guard let box = try? AES.GCM.seal(content, using: key, nonce: AES.GCM.Nonce(), authenticating: Array(name.utf8))
        else { return nil }
        return secrets.newestID.bytes + Array(box.nonce) + Array(box.ciphertext) + Array(box.tag)
    }

    /// Opens content that was sealed for the same name under a known secret.
    public func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
        let nonceStart = SealingKeyring.ID.byteCount
        let start = nonceStart + Self.nonceCount
        let end = sealed.count - Self.tagCount
        guard end >= start else { return nil }
        for key in secrets.cookieKeys(SealingKeyring.ID(bytes: Array(sealed[..<nonceStart])), name: name) {
            guard let nonce = try? AES.GCM.Nonce(data: sealed[nonceStart..<start]),
                let box = try? AES.GCM.SealedBox(nonce: nonce, ciphertext: sealed[start..<end], tag: sealed[end...]),
                let content = try? AES.GCM.open(box, using: key, authenticating: Array(name.utf8))
            else { continue }
            return Array(content)
        }
        return nil
    }
}
