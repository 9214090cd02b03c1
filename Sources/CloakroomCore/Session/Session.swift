import Synchronization

/// One signed-in user agent: who it is, its tokens, and how long it may go on.
///
/// Immutable but for the time it was last used, so that every event loop may hold the same one. What the hot path needs
/// lies open; the rest is packed into one row of bytes, for a process may keep a million of these.
public final class Session: Sendable {
    /// The name under which the store keeps it.
    public let key: SessionKey
    /// The value of the `Authorization` field for upstreams: `Bearer`, a space, the access token.
    public let authorization: Secret
    /// When the user signed in.
    public let createdAt: Timestamp
    /// When it ends at the latest.
    public let expiresAt: Timestamp
    /// Counts the changes of the session's contents, from 1; who saves a change names the version that it changed.
    public let version: UInt64
    /// Which upstream issued its tokens: they are sent to no other.
    public let source: SessionSource
    /// When its tokens are to be renewed.
    public let update: RefreshSchedule
    private let tokensIssuedAt: Timestamp
    private let accessTokenExpiresAt: Timestamp
    private let packed: CompactSessionFields
    private let lastUse: Atomic<Int64>

    /// Makes a session.
    public init(
        key: SessionKey, user: UserProfile, tokens: TokenSet, client: SessionClientInfo = SessionClientInfo(),
        source: SessionSource = .unknown, createdAt: Timestamp, expiresAt: Timestamp, lastUsedAt: Timestamp,
        version: UInt64 = 1
    ) {
        self.key = key
        self.authorization = tokens.authorization
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.version = version
        self.source = source
        update = RefreshSchedule(tokens, spread: key.word3)
        tokensIssuedAt = tokens.issuedAt
        accessTokenExpiresAt = tokens.accessTokenExpiresAt ?? Timestamp(milliseconds: .max)
        packed = CompactSessionFields(refreshToken: tokens.refreshToken, user: user, client: client)
        lastUse = Atomic(lastUsedAt.milliseconds)
    }

    /// The name by which its user, logs and operators know it.
    public var id: SessionID { key.id }

    /// Who is signed in.
    public var user: UserProfile { packed.user }

    /// What the upstream gave.
    public var tokens: TokenSet {
        TokenSet(
            authorization: authorization, refreshToken: packed.refreshToken,
            accessTokenExpiresAt: accessTokenExpiresAt.milliseconds == .max ? nil : accessTokenExpiresAt,
            obtainedAt: tokensIssuedAt)
    }

    /// Where it was signed in from.
    public var client: SessionClientInfo { packed.client }

    /// Whether there is a refresh token.
    public var isRefreshable: Bool { packed.hasRefreshToken }

    /// Whether the access token is in the last fifth of its life or past its end, so that a rejection may be due to its
    /// age. Does not depend on ``refresh``, which is bounded by ``RefreshSchedule/minimumInterval``.
    public func hasAgedAccessToken(at now: Timestamp) -> Bool {
        guard accessTokenExpiresAt.milliseconds != .max else { return false }
        return now >= accessTokenExpiresAt
            - .milliseconds(RefreshSchedule.window(until: accessTokenExpiresAt, obtainedAt: tokensIssuedAt))
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

    /// The same session with what was renewed, one version on.
    public func refreshed(with refresh: SessionUpdate, expiresAt: Timestamp? = nil) -> Session {
        Session(
            key: key,
            user: UserProfile(json: refresh.userJSON ?? user.json, account: user.account, name: user.name),
            tokens: refresh.tokens ?? tokens, client: client, source: source, createdAt: createdAt,
            expiresAt: expiresAt ?? self.expiresAt, lastUsedAt: lastUsedAt, version: version + 1)
    }
}

/// The name by which its user, logs and operators know a session: a part of its ``SessionKey``. It opens nothing.
public struct SessionID: Sendable, Hashable, CustomStringConvertible {
    /// The first eight bytes of the key.
    public let value: UInt64

    /// Makes a name from its value.
    public init(_ value: UInt64) {
        self.value = value
    }

    /// Reads 16 hexadecimal digits in lower case.
    /// - Returns: `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 16,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let value = UInt64(text, radix: 16)
        else { return nil }
        self.value = value
    }

    /// 16 hexadecimal digits.
    public var description: String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}

/// Who is signed in, as the upstream tells it. Personal, so printing or reflecting it says `<redacted>`.
public struct UserProfile: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The upstream's JSON object, as it came; UTF-8. Given to the user themselves and to nobody else.
    public var json: [UInt8]
    /// The account that was signed in to: what a user's sessions have in common.
    public var account: AccountName
    /// The name that was typed at sign-in, for an operator who knows no other. The same as ``account`` where the
    /// upstream gives no user id.
    public var name: AccountName

    /// Makes a profile.
    /// - Parameter name: `nil` is `account`.
    public init(json: [UInt8], account: AccountName, name: AccountName? = nil) {
        self.json = json
        self.account = account
        self.name = name ?? account
    }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What an upstream gives for credentials. Stays on this side.
public struct TokenSet: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the access token. Visible ASCII only.
    public var authorization: Secret
    /// For renewing and revoking; `nil` in the dialect without.
    public var refreshToken: Secret?
    /// When the access token ends; `nil` where nothing is known.
    public var accessTokenExpiresAt: Timestamp?
    /// When the upstream gave them.
    public var issuedAt: Timestamp

    /// Makes tokens.
    public init(
        authorization: Secret, refreshToken: Secret? = nil, accessTokenExpiresAt: Timestamp? = nil,
        obtainedAt: Timestamp
    ) {
        self.authorization = authorization
        self.refreshToken = refreshToken
        self.accessTokenExpiresAt = accessTokenExpiresAt
        self.issuedAt = obtainedAt
    }
}
