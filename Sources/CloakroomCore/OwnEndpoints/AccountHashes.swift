/// Maps accounts to keyed hashes: for logs, for counting, for finding a user's sessions.
///
/// Each gateway secret has a key, the newest first. New entries use the newest key; existing entries may use any of
/// them.
public struct AccountHasher: Sendable, CustomStringConvertible, CustomReflectable {
    private let keys: [KeyedHash]

    /// Creates a hasher from its keys, the newest first.
    public init(_ newest: KeyedHash, older: [KeyedHash] = []) {
        keys = [newest] + older
    }

    /// Returns the hash for new entries.
    public func hash(_ account: AccountName) -> UInt64 { account.hash(under: keys[0]) }

    /// Returns all hashes of an account, the newest first.
    public func candidateHashes(_ account: AccountName) -> [UInt64] { keys.map { account.hash(under: $0) } }

    /// The key for new hashes.
    public var newest: KeyedHash { keys[0] }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Has no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
