import Crypto

/// Bytes that are sealed with AES-256-GCM (NIST SP 800-38D): the id of the secret, 4 bytes; the nonce, 12 random bytes; the
/// ciphertext; the tag, 16 bytes.
struct SealedContent {
    private static let nonceCount = 12
    private static let tagCount = 16

    let secret: SealingKeyring.ID
    private let nonce: ArraySlice<UInt8>
    private let ciphertext: ArraySlice<UInt8>
    private let tag: ArraySlice<UInt8>

    /// Splits the bytes, and opens nothing.
    /// - Returns: `nil` for too few bytes.
    init?(_ bytes: ArraySlice<UInt8>) {
        let nonceStart = bytes.startIndex + SealingKeyring.ID.byteCount
        let start = nonceStart + Self.nonceCount
        let end = bytes.endIndex - Self.tagCount
        guard start <= end else { return nil }
        secret = SealingKeyring.ID(bytes: Array(bytes[..<nonceStart]))
        nonce = bytes[nonceStart..<start]
        ciphertext = bytes[start..<end]
        tag = bytes[end...]
    }

    /// Seals bytes under a key of a secret.
    /// - Parameter binding: What has to be the same when they are opened.
    static func seal(
        _ bytes: [UInt8], _ key: SymmetricKey, of secret: SealingKeyring.ID, binding: [UInt8]
    ) throws -> [UInt8] {
        let box = try AES.GCM.seal(bytes, using: key, nonce: AES.GCM.Nonce(), authenticating: binding)
        return secret.bytes + Array(box.nonce) + Array(box.ciphertext) + Array(box.tag)
    }

    /// Opens the bytes with the first key that fits. All failures give the same result: the reason is not revealed.
    func open(_ keys: [SymmetricKey], binding: [UInt8]) -> [UInt8]? {
        for key in keys {
            guard let nonce = try? AES.GCM.Nonce(data: nonce),
                let box = try? AES.GCM.SealedBox(nonce: nonce, ciphertext: ciphertext, tag: tag),
                let bytes = try? AES.GCM.open(box, using: key, authenticating: binding)
            else { continue }
            return Array(bytes)
        }
        return nil
    }
}
