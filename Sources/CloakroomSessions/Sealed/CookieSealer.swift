public import CloakroomCore

/// Seals the content of cookies under keys derived from the gateway's secrets, as ``SealedContent``. Each cookie name has a
/// key of its own, so that the number of random nonces under one key is small (NIST SP 800-38D §8.3).
public struct CookieSealer: CookieSealing {
    private let secrets: SealingKeyring

    package init(_ secrets: SealingKeyring) {
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
        try? SealedContent.seal(
            content, secrets.newestCookieKey(name: name), of: secrets.newestID, binding: Array(name.utf8))
    }

    /// Opens content that was sealed for the same name under a known secret.
    public func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
        guard let sealed = SealedContent(sealed[...]) else { return nil }
        return sealed.open(secrets.cookieKeys(sealed.secret, name: name), binding: Array(name.utf8))
    }
}
