/// Names accounts by keyed hashes: for logs, for counting, for finding a user's sessions.
///
/// Each gateway secret gives a key, the newest first. What is written uses the newest; what is looked for may have been
/// written under any.
public struct AccountHasher: Sendable, CustomStringConvertible, CustomReflectable {
    private let keys: [KeyedHash]

    /// Takes the keys, the newest first.
    public init(_ newest: KeyedHash, older: [KeyedHash] = []) {
        keys = [newest] + older
    }

    /// The hash that an account is known by from now on.
    public func hash(_ account: AccountName) -> UInt64 { account.hash(under: keys[0]) }

    /// All hashes that an account may be known by, the newest first.
    public func candidateHashes(_ account: AccountName) -> [UInt64] { keys.map { account.hash(under: $0) } }

    /// The key that hashes are made with from now on.
    public var newest: KeyedHash { keys[0] }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
