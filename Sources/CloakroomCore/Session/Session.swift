import Synchronization

/// A signed-in user agent: its user, its tokens and its lifetime.
///
/// Immutable except for the time of last use, so all event loops can share one instance. Fields of the hot path are
/// stored directly; all others are packed into one byte array, because a process may hold a million sessions.
///
/// Folder `Session/`: the session, its ticket and cookie, when it ends, and what a session store has to provide
/// (``SessionStore``).
public final class Session: Sendable {
    /// The key under which the store keeps the session.
    public let key: SessionKey
    /// The value of the `Authorization` field for upstreams: `Bearer`, a space, the access token.
    public let authorization: Secret
    /// When the user signed in.
    public let createdAt: SessionTime
    /// The latest time at which the session ends.
    public let expiresAt: SessionTime
    /// Counts the changes of the session's contents, from 1. A save specifies the version that it replaces.
    public let version: UInt64
    /// The upstream that issued the tokens. Others get the access token only by ``AccountsConfiguration/tokensFor``.
    public let source: SessionSource
    /// When the tokens have to be refreshed.
    public let update: RefreshSchedule
    private let tokensIssuedAt: WallTime
    private let accessTokenExpiresAt: WallTime
    private let packed: CompactSessionFields
    /// A reference, so that a session with neither is no larger than before there were any: the size of its allocation is
    /// a multiple of 16 bytes.
    private let provided: SharedProvenance?
    private let lastUse: Atomic<Int64>
    private let sharedRequests = ReferenceSetOnce<RequestCount>()

    /// - Parameter storeData: ``storeData``. Only the first 255 bytes are kept.
    package convenience init(
        key: SessionKey, user: UserProfile, tokens: TokenSet, client: SessionClientInfo = SessionClientInfo(),
        source: SessionSource = .unknown, provenance: SessionProvenance? = nil, device: DeviceBinding? = nil,
        terms: SessionTerms? = nil, createdAt: SessionTime, expiresAt: SessionTime, lastUsedAt: SessionTime,
        version: UInt64 = 1, storeData: [UInt8] = []
    ) {
        self.init(
            key: key, user: user, tokens: tokens, client: client, source: source,
            provided: SharedProvenance(provenance, device: device, terms: terms, app: client.app),
            createdAt: createdAt, expiresAt: expiresAt, lastUsedAt: lastUsedAt, version: version, storeData: storeData)
    }

    /// Creates a session that begins now.
    public convenience init(_ new: NewSession, key: SessionKey, timeouts: SessionTimeouts, now: SessionTime) {
        self.init(
            key: key, user: new.user, tokens: new.tokens, client: new.client, source: new.source,
            provenance: new.provenance, terms: new.terms, createdAt: now,
            expiresAt: timeouts.end(of: new, madeAt: now), lastUsedAt: now)
    }

    private init(
        key: SessionKey, user: UserProfile, tokens: TokenSet, client: SessionClientInfo, source: SessionSource,
        provided: SharedProvenance?, createdAt: SessionTime, expiresAt: SessionTime, lastUsedAt: SessionTime,
        version: UInt64,
        storeData: [UInt8]
    ) {
        self.provided = provided
        self.key = key
        self.authorization = tokens.authorization
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.version = version
        // No session has the source that routes use to accept none.
        self.source = source == .matchingNone ? .unknown : source
        update = RefreshSchedule(tokens, spread: key.word3)
        tokensIssuedAt = tokens.issuedAt
        accessTokenExpiresAt = tokens.accessTokenExpiresAt ?? WallTime(milliseconds: .max)
        packed = CompactSessionFields(
            refreshToken: tokens.refreshToken, user: user, client: client, storeData: storeData)
        lastUse = Atomic(lastUsedAt.milliseconds)
    }

    /// The identifier that users, logs and operators use for the session.
    public var id: SessionID { key.id }

    /// The signed-in user.
    public var user: UserProfile { packed.user }

    /// Whether the session is one of an account: cheaper than ``user``, which copies all data of the user.
    public func belongs(to account: AccountName) -> Bool { packed.account.elementsEqual(account.canonicalBytes) }

    /// Whether the session is one of an account, or this name was typed at its sign-in.
    public func hasName(_ name: AccountName) -> Bool {
        belongs(to: name) || packed.name.elementsEqual(name.canonicalBytes)
    }

    /// ``AccountName/canonicalBytes`` of the account, without a copy.
    var accountBytes: ArraySlice<UInt8> { packed.account }

    /// The tokens that the upstream issued.
    public var tokens: TokenSet {
        TokenSet(
            authorization: authorization, refreshToken: packed.refreshToken,
            accessTokenExpiresAt: accessTokenExpiresAt.milliseconds == .max ? nil : accessTokenExpiresAt,
            obtainedAt: tokensIssuedAt)
    }

    /// The client that signed in.
    public var client: SessionClientInfo {
        var client = packed.client
        client.app = app
        return client
    }

    /// What a store outside the process keeps with the session, for when it saves it: up to 255 bytes that only the store
    /// interprets.
    public var storeData: [UInt8] { packed.storeData }

    /// What the provider stated; `nil` if the user signed in with credentials.
    public var provenance: SessionProvenance? { provided?.provenance }

    /// The claims of the user; `nil` if the user signed in with credentials.
    public var claims: SessionClaims? { provided?.claims }

    /// The key of the device that the session is bound to; `nil` for most sessions.
    public var device: DeviceBinding? { provided?.device }

    /// What applies to the session in place of the configuration; `nil` for most sessions.
    public var terms: SessionTerms? { provided?.terms }

    /// The name of the app that the session was created for; `nil` for most sessions.
    public var app: String? { provided?.app }

    /// Whether there is a refresh token.
    public var isRefreshable: Bool { packed.hasRefreshToken }

    /// Whether the access token is in the last fifth of its lifetime or expired, so that a rejection may be due to its
    /// age. Does not depend on ``update``, which is bounded by ``RefreshSchedule/minimumInterval``.
    public func hasAgedAccessToken(at now: WallTime) -> Bool {
        guard accessTokenExpiresAt.milliseconds != .max else { return false }
        return now >= accessTokenExpiresAt
            - .milliseconds(RefreshSchedule.window(until: accessTokenExpiresAt, obtainedAt: tokensIssuedAt))
    }

    /// When the session was last used, with the precision of ``touch(at:granularity:)``.
    public var lastUsedAt: SessionTime {
        SessionTime(milliseconds: lastUse.load(ordering: .relaxed))
    }

    /// Records a use, unless one was recorded less than `granularity` ago. Never moves backwards.
    /// - Returns: Whether the use was recorded.
    @discardableResult
    public func touch(at now: SessionTime, granularity: Duration) -> Bool {
        let last = lastUse.load(ordering: .relaxed)
        guard now.milliseconds &- last >= granularity.wholeMilliseconds, now.milliseconds > last else { return false }
        return lastUse.compareExchange(expected: last, desired: now.milliseconds, ordering: .relaxed).exchanged
    }

    /// The requests in flight. Created when they are needed first: by a request, or by a store that shares them.
    package var requests: RequestCount { sharedRequests.load() ?? sharedRequests.storeIfNil(RequestCount()) }

    /// Counts together with another object of the session, unless ``requests`` were needed before.
    package func share(_ requests: RequestCount) { _ = sharedRequests.storeIfNil(requests) }

    /// Counts a request in flight, which ends with ``endRequest()``.
    /// - Parameter limit: The maximum number of requests in flight, at least 1.
    /// - Returns: Whether the limit allows it. Otherwise nothing is counted.
    public func beginRequest(limit: Int) -> Bool {
        sharedRequests.withObject { $0.begin(limit: limit) } ?? requests.begin(limit: limit)
    }

    /// A request that was counted has ended.
    public func endRequest() { _ = sharedRequests.withObject { $0.end() } }

    /// Returns a copy of the session with the refreshed contents and the next version. Both count the same requests.
    public func refreshed(with refresh: SessionUpdate, expiresAt: SessionTime? = nil) -> Session {
        let isSame = refresh.provenance == nil && refresh.device == nil
        let next = Session(
            key: key,
            user: UserProfile(json: refresh.userJSON ?? user.json, account: user.account, name: user.name),
            tokens: refresh.tokens ?? tokens, client: client, source: source,
            provided: isSame
                ? provided
                : SharedProvenance(
                    refresh.provenance ?? provenance, device: refresh.device ?? device, terms: terms, app: app),
            createdAt: createdAt, expiresAt: expiresAt ?? self.expiresAt,
            lastUsedAt: lastUsedAt, version: version + 1, storeData: storeData)
        next.share(requests)
        return next
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
public struct UserProfile: Sendable, Equatable, Redacted {
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
}

/// The tokens that an upstream issues for credentials. Never sent to clients.
public struct TokenSet: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the access token. Visible ASCII only.
    public var authorization: Secret
    /// The refresh token, used for refresh and revocation; `nil` if the upstream issues none.
    public var refreshToken: Secret?
    /// When the access token expires; `nil` if unknown.
    public var accessTokenExpiresAt: WallTime?
    /// When the upstream issued the tokens.
    public var issuedAt: WallTime

    package init(
        authorization: Secret, refreshToken: Secret? = nil, accessTokenExpiresAt: WallTime? = nil,
        obtainedAt: WallTime
    ) {
        self.authorization = authorization
        self.refreshToken = refreshToken
        self.accessTokenExpiresAt = accessTokenExpiresAt
        self.issuedAt = obtainedAt
    }
}

/// The parts of a session that requests do not need, in one byte array: the refresh token, the user, the client, and the
/// data of the store.
///
/// Separate arrays would cost 32 bytes each, plus the rounding of the allocation.
struct CompactSessionFields: Sendable, Redacted {
    private static let headerSize = 11
    private static let absent: UInt32 = .max
    private let bytes: [UInt8]

    init(refreshToken: Secret?, user: UserProfile, client: SessionClientInfo, storeData: [UInt8]) {
        // Addresses are short and account names bounded; a longer value would overflow its length field.
        let peer = Array(client.peer.utf8.prefix(255))
        let account = user.account.canonicalBytes.prefix(Int(UInt16.max))
        // Usually the name equals the account name.
        let name = user.name == user.account ? [] : user.name.canonicalBytes.prefix(Int(UInt16.max))
        let token = refreshToken?.bytes ?? []
        let storeData = storeData.prefix(255)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(
            Self.headerSize + token.count + account.count + name.count + peer.count + storeData.count + user.json.count)
        let tokenCount = refreshToken == nil ? Self.absent : UInt32(truncatingIfNeeded: token.count)
        for shift in stride(from: 0, to: 32, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: tokenCount >> UInt32(shift)))
        }
        for shift in stride(from: 0, to: 16, by: 8) { bytes.append(UInt8(truncatingIfNeeded: account.count >> shift)) }
        bytes.append(UInt8(peer.count))
        bytes.append(client.userAgent.rawValue)
        for shift in stride(from: 0, to: 16, by: 8) { bytes.append(UInt8(truncatingIfNeeded: name.count >> shift)) }
        bytes.append(UInt8(storeData.count))
        bytes += token
        bytes += account
        bytes += name
        bytes += peer
        bytes += storeData
        bytes += user.json
        self.bytes = bytes
    }

    private var tokenCount: UInt32 {
        UInt32(bytes[0]) | UInt32(bytes[1]) << 8 | UInt32(bytes[2]) << 16 | UInt32(bytes[3]) << 24
    }
    private var tokenEnd: Int { Self.headerSize + (hasRefreshToken ? Int(tokenCount) : 0) }
    private var accountEnd: Int { tokenEnd + (Int(bytes[4]) | Int(bytes[5]) << 8) }
    private var nameEnd: Int { accountEnd + (Int(bytes[8]) | Int(bytes[9]) << 8) }
    private var peerEnd: Int { nameEnd + Int(bytes[6]) }
    private var storeDataEnd: Int { peerEnd + Int(bytes[10]) }

    var hasRefreshToken: Bool { tokenCount != Self.absent }

    var refreshToken: Secret? {
        hasRefreshToken ? Secret(bytes: Array(bytes[Self.headerSize..<tokenEnd])) : nil
    }

    /// The bytes of the account's name.
    var account: ArraySlice<UInt8> { bytes[tokenEnd..<accountEnd] }
    /// The bytes of the typed name.
    var name: ArraySlice<UInt8> { nameEnd == accountEnd ? account : bytes[accountEnd..<nameEnd] }

    var user: UserProfile {
        UserProfile(
            json: Array(bytes[storeDataEnd...]), account: AccountName(canonicalBytes: Array(account)),
            name: nameEnd == accountEnd ? nil : AccountName(canonicalBytes: Array(name)))
    }

    var client: SessionClientInfo {
        SessionClientInfo(
            peer: String(decoding: bytes[nameEnd..<peerEnd], as: UTF8.self),
            userAgent: UserAgentFamily(rawValue: bytes[7]) ?? .other)
    }

    var storeData: [UInt8] { Array(bytes[peerEnd..<storeDataEnd]) }
}

/// The identity source of a session: the upstream that issued its tokens. Refresh tokens are sent to no other upstream.
///
/// A source is determined by a name alone, ``UpstreamConfiguration/sessionSource``, not by addresses: targets can be added,
/// moved and replaced while sessions continue. If a name is reassigned to another API, it needs another
/// `sessionSource`, which ends the existing sessions. An upstream that is renamed keeps its sessions if it keeps its
/// `sessionSource`.
///
/// Eight bytes, compared by value on the hot path and equal in every process and release, because stored records
/// contain it.
public struct SessionSource: Sendable, Hashable {
    /// A hash of the kind of source and its name; 0 only for ``unknown``.
    public let value: UInt64

    package init(value: UInt64) {
        self.value = value
    }

    /// No known source. If a route or an endpoint has a source, a session without one does not match it.
    public static let unknown = SessionSource(value: 0)

    /// The source of no session: no upstream and no provider has this value.
    static let matchingNone = SessionSource(value: .max)

    /// Creates the source of an upstream that signs users in with credentials.
    /// - Parameter name: ``UpstreamConfiguration/sessionSource``.
    public init(upstream name: String) {
        self.init(kind: 1, Array(name.utf8))
    }

    /// Creates the source of an OpenID Provider. An identity with another issuer is another source.
    public init(identity name: String, issuer: String) {
        self.init(kind: 2, UInt64(name.utf8.count).bigEndianBytes + Array(name.utf8) + Array(issuer.utf8))
    }

    /// The key is constant, because names are not secret. The kind is the first byte, so that sources of different kinds
    /// have different values.
    private init(kind: UInt8, _ name: [UInt8]) {
        let hash = KeyedHash(key0: 0x636c_6f61_6b72_6f6f, key1: 0x6d20_736f_7572_6365).hash([kind] + name)
        value = hash == 0 || hash == Self.matchingNone.value ? 1 : hash
    }
}

extension GatewayConfiguration {
    /// The source of sessions that are signed in to with credentials; `nil` if no upstream signs users in.
    public var sessionSource: SessionSource? {
        accounts.upstream.flatMap { index in
            upstreams.indices.contains(index) ? upstreams[index].source : nil
        }
    }

    /// The sources of all sessions that are created under this configuration. A session of another source is ended.
    public var sessionSources: [SessionSource] {
        (sessionSource.map { [$0] } ?? []) + providers.map(\.source)
    }

    /// The identities that users may sign in with at a provider.
    public var providers: [IdentityConfiguration] {
        accounts.identities.compactMap { identity in
            guard case .provider(let index) = identity, identities.indices.contains(index) else { return nil }
            return identities[index]
        }
    }
}
