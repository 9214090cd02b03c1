import Synchronization

/// One signed-in user agent: who it is, its tokens, and how long it may go on.
///
/// Immutable but for the time it was last used, so that every event loop may hold the same one.
public final class Session: Sendable {
    /// The name under which the store keeps it.
    public let key: SessionKey
    /// Who is signed in.
    public let user: UserProfile
    /// What the upstream gave for the credentials.
    public let tokens: SessionTokens
    /// When the user signed in.
    public let createdAt: Timestamp
    /// When it ends at the latest.
    public let expiresAt: Timestamp
    /// A keyed hash that stands for the session in logs.
    public let logHash: UInt64
    private let lastUse: Atomic<Int64>

    /// Makes a session.
    public init(
        key: SessionKey, user: UserProfile, tokens: SessionTokens, createdAt: Timestamp, expiresAt: Timestamp,
        lastUsedAt: Timestamp, logHash: UInt64
    ) {
        self.key = key
        self.user = user
        self.tokens = tokens
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.logHash = logHash
        self.lastUse = Atomic(lastUsedAt.milliseconds)
    }

    /// When it was last used, as exactly as ``touch(at:granularity:)`` keeps it.
    public var lastUsedAt: Timestamp {
        Timestamp(milliseconds: lastUse.load(ordering: .relaxed))
    }

    /// Notes a use, unless one was noted less than `granularity` ago. Never moves backwards.
    /// - Returns: Whether it was noted.
    @discardableResult
    public func touch(at now: Timestamp, granularity: Duration) -> Bool {
        let last = lastUse.load(ordering: .relaxed)
        guard now.milliseconds &- last >= granularity.wholeMilliseconds, now.milliseconds > last else { return false }
        return lastUse.compareExchange(expected: last, desired: now.milliseconds, ordering: .relaxed).exchanged
    }
}

/// Who is signed in, as the upstream tells it. Personal, so printing or reflecting it says `<redacted>`.
public struct UserProfile: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The upstream's JSON object, as it came; UTF-8. Given to the user themselves and to nobody else.
    public var json: [UInt8]
    /// A keyed hash of the account, for logs and for finding a user's sessions.
    public var accountHash: UInt64

    /// Makes a profile.
    public init(json: [UInt8], accountHash: UInt64) {
        self.json = json
        self.accountHash = accountHash
    }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What an upstream gives for credentials. Stays on this side.
public struct SessionTokens: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the access token. Visible ASCII only.
    public var authorization: Secret
    /// For renewing and revoking; `nil` in the dialect without.
    public var refreshToken: Secret?
    /// When the access token ends; `nil` where nothing is known.
    public var accessExpiresAt: Timestamp?

    /// Makes tokens.
    public init(authorization: Secret, refreshToken: Secret? = nil, accessExpiresAt: Timestamp? = nil) {
        self.authorization = authorization
        self.refreshToken = refreshToken
        self.accessExpiresAt = accessExpiresAt
    }
}
