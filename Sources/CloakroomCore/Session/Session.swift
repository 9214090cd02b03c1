import Synchronization

/// A signed-in user agent: its user, its tokens and its lifetime.
///
/// Immutable except for the time of last use, so all event loops can share one instance. Fields of the hot path are
/// stored directly; all others are packed into one byte array, because a process may hold a million sessions.
public final class Session: Sendable {
    /// The key under which the store keeps the session.
    public let key: SessionKey
    /// The value of the `Authorization` field for upstreams: `Bearer`, a space, the access token.
    public let authorization: Secret
    /// When the user signed in.
    public let createdAt: Timestamp
    /// The latest time at which the session ends.
    public let expiresAt: Timestamp
    /// Counts the changes of the session's contents, from 1. A save specifies the version that it replaces.
    public let version: UInt64
    /// The upstream that issued the tokens: they are sent to no other upstream.
    public let source: SessionSource
    /// When the tokens have to be refreshed.
    public let update: RefreshSchedule
    private let tokensIssuedAt: Timestamp
    private let accessTokenExpiresAt: Timestamp
    private let packed: CompactSessionFields
    private let lastUse: Atomic<Int64>

    /// Creates a session.
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

    /// The identifier that users, logs and operators use for the session.
    public var id: SessionID { key.id }

    /// The signed-in user.
    public var user: UserProfile { packed.user }

    /// The tokens that the upstream issued.
    public var tokens: TokenSet {
        TokenSet(
            authorization: authorization, refreshToken: packed.refreshToken,
            accessTokenExpiresAt: accessTokenExpiresAt.milliseconds == .max ? nil : accessTokenExpiresAt,
            obtainedAt: tokensIssuedAt)
    }

    /// The client that signed in.
    public var client: SessionClientInfo { packed.client }

    /// Whether there is a refresh token.
    public var isRefreshable: Bool { packed.hasRefreshToken }

    /// Whether the access token is in the last fifth of its lifetime or expired, so that a rejection may be due to its
    /// age. Does not depend on ``refresh``, which is bounded by ``RefreshSchedule/minimumInterval``.
    public func hasAgedAccessToken(at now: Timestamp) -> Bool {
        guard accessTokenExpiresAt.milliseconds != .max else { return false }
        return now >= accessTokenExpiresAt
            - .milliseconds(RefreshSchedule.window(until: accessTokenExpiresAt, obtainedAt: tokensIssuedAt))
    }

    /// When the session was last used, with the precision of ``touch(at:granularity:)``.
    public var lastUsedAt: Timestamp {
        Timestamp(milliseconds: lastUse.load(ordering: .relaxed))
    }

    /// Records a use, unless one was recorded less than `granularity` ago. Never moves backwards.
    /// - Returns: Whether the use was recorded.
    @discardableResult
    public func touch(at now: Timestamp, granularity: Duration) -> Bool {
        let last = lastUse.load(ordering: .relaxed)
        guard now.milliseconds &- last >= granularity.wholeMilliseconds, now.milliseconds > last else { return false }
        return lastUse.compareExchange(expected: last, desired: now.milliseconds, ordering: .relaxed).exchanged
    }

    /// Returns a copy of the session with the refreshed contents and the next version.
    public func refreshed(with refresh: SessionUpdate, expiresAt: Timestamp? = nil) -> Session {
        Session(
            key: key,
            user: UserProfile(json: refresh.userJSON ?? user.json, account: user.account, name: user.name),
            tokens: refresh.tokens ?? tokens, client: client, source: source, createdAt: createdAt,
            expiresAt: expiresAt ?? self.expiresAt, lastUsedAt: lastUsedAt, version: version + 1)
    }
}

/// The identifier that users, logs and operators use for a session: a part of its ``SessionKey``. It grants no access.
public struct SessionID: Sendable, Hashable, CustomStringConvertible {
    /// The first eight bytes of the key.
    public let value: UInt64

    /// Creates an identifier from its value.
    public init(_ value: UInt64) {
        self.value = value
    }

    /// Parses 16 hexadecimal digits in lower case.
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

/// The signed-in user, as reported by the upstream. Personal data, so printing or reflecting it yields `<redacted>`.
public struct UserProfile: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The upstream's JSON object, unchanged; UTF-8. Sent only to the user.
    public var json: [UInt8]
    /// The account that was signed in to. All sessions of a user share it.
    public var account: AccountName
    /// The name that was typed at sign-in, which operators may search for. The same as ``account`` if the upstream
    /// reports no user id.
    public var name: AccountName

    /// Creates a profile.
    /// - Parameter name: `nil` is `account`.
    public init(json: [UInt8], account: AccountName, name: AccountName? = nil) {
        self.json = json
        self.account = account
        self.name = name ?? account
    }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Has no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The tokens that an upstream issues for credentials. Never sent to clients.
public struct TokenSet: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the access token. Visible ASCII only.
    public var authorization: Secret
    /// The refresh token, used for refresh and revocation; `nil` if the upstream issues none.
    public var refreshToken: Secret?
    /// When the access token expires; `nil` if unknown.
    public var accessTokenExpiresAt: Timestamp?
    /// When the upstream issued the tokens.
    public var issuedAt: Timestamp

    /// Creates a token set.
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
