public import CloakroomCore
import Crypto

/// The gateway's secrets, and the keys derived from them.
///
/// Writing uses the newest secret; records may have been sealed under any of them. No key serves two purposes: each is
/// derived (HKDF with SHA-256, RFC 5869) with a label of its own.
public struct SealingKeyring: Sendable, Redacted {
    /// Identifies the secret that a record was sealed under, and reveals nothing else about it.
    struct ID: Sendable, Hashable {
        static let byteCount = 4
        let bytes: [UInt8]
    }

    private struct DerivedKeys: Sendable {
        let id: ID
        let secret: Secret
        let clientKey: SymmetricKey

        init(_ secret: Secret) {
            id = ID(bytes: bytes(of: key(of: secret, for: .secretID, count: ID.byteCount)))
            self.secret = secret
            clientKey = key(of: secret, for: .client, count: 32)
        }
    }

    private let newest: DerivedKeys
    private let all: [DerivedKeys]
    /// Hashes account names for use outside the process.
    public let accountHashes: AccountHasher
    /// Hashes what shared rate limits count by, under the newest secret.
    let rateHash: KeyedHash

    /// Creates the keys from the secrets, the newest first.
    /// - Returns: `nil` if there is none.
    public init?(_ secrets: [Secret]) {
        guard let newest = secrets.first else { return nil }
        self.init(newest, older: Array(secrets.dropFirst()))
    }

    /// Creates the keys from the secret to seal with, and the older ones that may still be in use, the newest first.
    public init(_ newest: Secret, older: [Secret] = []) {
        self.newest = DerivedKeys(newest)
        all = [self.newest] + older.map(DerivedKeys.init)
        accountHashes = AccountHasher(
            Self.hashKey(newest, for: .account), older: older.map { Self.hashKey($0, for: .account) })
        rateHash = Self.hashKey(newest, for: .rate)
    }

    /// Whether records may have been sealed under another secret than the newest.
    var hasOlder: Bool { all.count > 1 }

    /// The id of the secret that is used for sealing.
    var newestID: ID { newest.id }

    /// Whether the secret with this id is known.
    func contains(_ id: ID) -> Bool { all.contains { $0.id == id } }

    /// The keys for the part that only the ticket opens, one for each secret with that id: ids are short, and two
    /// secrets may share one.
    func recordKeys(_ id: ID, ticket: SessionTicket, format: SessionFormat) -> [SymmetricKey] {
        all.filter { $0.id == id }.map { Self.recordKey($0.secret, ticket: ticket, format) }
    }

    /// The keys for the part that any gateway with the secret opens. Each record has a key of its own: under a common
    /// one, random nonces would eventually collide (NIST SP 800-38D §8.3).
    func clientInfoKeys(_ id: ID, of key: SessionKey, format: SessionFormat) -> [SymmetricKey] {
        all.filter { $0.id == id }.map { Self.clientKey($0.clientKey, of: key, format) }
    }

    /// The newest key for the part that only the ticket opens.
    func newestRecordKey(ticket: SessionTicket, _ format: SessionFormat) -> SymmetricKey {
        Self.recordKey(newest.secret, ticket: ticket, format)
    }

    /// The newest key for the client part, in the format in which it is written.
    func newestClientKey(_ key: SessionKey, _ format: SessionFormat) -> SymmetricKey {
        Self.clientKey(newest.clientKey, of: key, format)
    }

    /// The keys for the content of a cookie, one for each secret with that id.
    func cookieKeys(_ id: ID, name: String) -> [SymmetricKey] {
        all.filter { $0.id == id }.map { Self.cookieKey($0.secret, name) }
    }

    /// The newest key for the content of a cookie.
    func newestCookieKey(name: String) -> SymmetricKey { Self.cookieKey(newest.secret, name) }

    /// The keys that sign assertions, one for each secret, the newest first. Almost all numbers of 32 bytes are valid keys
    /// of the curve; in place of another one, the next is used.
    var assertionKeys: [P256.Signing.PrivateKey] {
        all.compactMap { keys in
            (UInt8.min...UInt8.max).lazy.compactMap { counter in
                let bytes = HKDF<SHA256>.deriveKey(
                    inputKeyMaterial: SymmetricKey(data: keys.secret.bytes),
                    info: Purpose.assertion.label() + [counter], outputByteCount: 32)
                return try? P256.Signing.PrivateKey(rawRepresentation: bytes)
            }.first
        }
    }

    /// The purpose of a key.
    private enum Purpose: String {
        case secretID = "secret id"
        case account, client, record, cookie, rate, assertion

        /// The label of a key. Those for records have the number of their format: a new layout has new keys.
        func label(_ format: SessionFormat = .one) -> [UInt8] { Array("cloakroom \(format.rawValue) \(rawValue)".utf8) }
    }

    private static func key(of secret: Secret, for purpose: Purpose, count: Int) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret.bytes), info: purpose.label(), outputByteCount: count)
    }

    /// Requires both: neither a ticket without the secret nor the secret without the ticket yields the key.
    private static func recordKey(
        _ secret: Secret, ticket: SessionTicket, _ format: SessionFormat
    ) -> SymmetricKey {
        var material = LengthPrefixedWriter()
        if ticket.site != .main { material.append(ticket.site.value) }
        material.append(ticket.bytes)
        material.append(secret.bytes)
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: material.bytes), info: Purpose.record.label(format),
            outputByteCount: 32)
    }

    private static func clientKey(
        _ key: SymmetricKey, of session: SessionKey, _ format: SessionFormat
    ) -> SymmetricKey {
        var info = LengthPrefixedWriter()
        info.append(Purpose.client.label(format))
        info.append(session)
        return HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: info.bytes, outputByteCount: 32)
    }

    private static func cookieKey(_ secret: Secret, _ name: String) -> SymmetricKey {
        var info = LengthPrefixedWriter()
        info.append(Purpose.cookie.label())
        info.append(Array(name.utf8))
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret.bytes), info: info.bytes, outputByteCount: 32)
    }

    private static func hashKey(_ secret: Secret, for purpose: Purpose) -> KeyedHash {
        let bytes = bytes(of: key(of: secret, for: purpose, count: 16))
        let words = (0..<2).map { word in
            bytes[(8 * word)..<(8 * word + 8)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
        return KeyedHash(key0: words[0], key1: words[1])
    }

    private static func bytes(of key: SymmetricKey) -> [UInt8] {
        key.withUnsafeBytes { Array($0) }
    }
}
