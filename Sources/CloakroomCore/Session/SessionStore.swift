/// What a look for a session gave.
public enum SessionLookup: Sendable {
    /// It is there and may be used.
    case active(Session)
    /// It cannot be used, and why.
    case missing(UnauthorizedReason)
    /// The local table cannot tell; ``SessionStore/load(_:now:)`` can.
    case notCached
}

/// The sessions at hand: a look takes no wait, so event loops may ask.
public protocol SessionLookupTable: Sendable {
    /// Looks a session up. A store whose every session is at hand never answers ``SessionLookup/unknown``.
    /// - Parameters:
    ///   - slides: Whether the look counts as a use of the session.
    func lookup(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup
    /// The same, for who asks for one ticket again and again.
    /// - Parameter key: The ticket's key from an earlier look; `nil` at first, and then left there for the next.
    func lookup(_ ticket: SessionTicket, key: inout SessionKey?, now: Timestamp, slides: Bool) -> SessionLookup
}

extension SessionLookupTable {
    /// For tables that have no use for keys.
    public func lookup(
        _ ticket: SessionTicket, key: inout SessionKey?, now: Timestamp, slides: Bool
    ) -> SessionLookup {
        lookup(ticket, now: now, slides: slides)
    }
}

/// Keeps sessions. Every store passes the same contract tests.
///
/// A store that cannot be reached throws; it never says that a session is not there.
public protocol SessionStore: SessionLookupTable, RefreshLeaseStore, AccountSessions, ThrottleStore {
    /// Keeps a new session.
    /// - Returns: The ticket for the client, and the session.
    func create(_ new: NewSession, now: Timestamp) async throws(SessionStoreError) -> (SessionTicket, Session)
    /// Looks a session up wherever it is. That alone is no use of it: the idle timeout goes on.
    func load(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup
    /// Ends a session. Its ticket is told the reason for a while, and opens nothing any more.
    /// - Returns: The session that ended; `nil` if there was none, or none any more because it had expired.
    func end(_ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp) async throws(SessionStoreError)
        -> Session?
    /// How many sessions there are, expired ones that were not cleared away yet included; as far as this process knows.
    var count: Int { get }
    /// Whether the store can be reached at the moment.
    var isAvailable: Bool { get }
    /// Does what a store has to do besides being asked: clearing away, staying connected, writing touches. Returns when
    /// its task is cancelled, with nothing left to write where that is possible.
    func run() async
}

/// What a session is made of.
public struct NewSession: Sendable {
    /// Who signed in.
    public var user: UserProfile
    /// What the upstream gave.
    public var tokens: TokenSet
    /// Where from.
    public var client: SessionClientInfo
    /// Which upstream issued the tokens.
    public var source: SessionSource

    /// Makes the parts of a session.
    public init(
        user: UserProfile, tokens: TokenSet, client: SessionClientInfo = SessionClientInfo(),
        source: SessionSource = .unknown
    ) {
        self.user = user
        self.tokens = tokens
        self.client = client
        self.source = source
    }
}

/// The part of a store that renewing tokens needs. At most one lease on a session is good at a time, on all replicas.
///
/// The fence of a lease counts the leases of its session: a save under an earlier one comes too late and is refused. The
/// version of a session counts its changes: a save over another version than the one at hand would undo somebody's
/// change and is refused too.
public protocol RefreshLeaseStore: Sendable {
    /// Takes the lease on a session's renewal.
    /// - Parameter duration: After this it ends by itself; a holder that is still there must not act on it any more.
    func lease(_ key: SessionKey, for duration: Duration, now: Timestamp) async throws(SessionStoreError)
        -> LeaseResult
    /// Keeps what was renewed: if the lease is the latest and the session still has the version of `session`.
    /// - Throws: ``SessionStoreError``: whether it was kept is not known then.
    func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: Timestamp
    ) async throws(SessionStoreError) -> SaveResult
    /// Ends a session whose tokens the upstream refused to renew, on the same two conditions.
    func reject(_ session: Session, under lease: RefreshLease, now: Timestamp) async throws(SessionStoreError)
        -> RejectResult
    /// Gives a lease back before its time. A store that cannot be reached lets it run out.
    func release(_ lease: RefreshLease, of key: SessionKey) async
    /// Whether renewals may begin. For some seconds after an outage only those may go on whose refresh token was spent
    /// before it: another replica that spent it again would end the session.
    var allowsNewRefreshes: Bool { get }
    /// Looks a session up in the store itself, whatever the local table holds.
    func reload(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup
}

extension RefreshLeaseStore {
    /// For stores that know no outages.
    public var allowsNewRefreshes: Bool { true }
}

/// The right to renew a session's tokens.
public struct RefreshLease: Sendable, Hashable {
    /// Counts the leases of the session.
    public let fencingToken: UInt64

    /// Makes a lease.
    public init(fence: UInt64) {
        self.fencingToken = fence
    }
}

/// What came of asking for a lease.
public enum LeaseResult: Sendable, Equatable {
    /// It is the caller's.
    case acquired(RefreshLease)
    /// Somebody else has it.
    case heldByOther
    /// There is no such session any more.
    case notFound
}

/// What is to be changed of a session; `nil` leaves it as it is.
public struct SessionUpdate: Sendable, Equatable {
    /// New tokens.
    public var tokens: TokenSet?
    /// The user's data, fetched again: a JSON object in UTF-8.
    public var userJSON: [UInt8]?

    /// Makes a renewal.
    public init(tokens: TokenSet? = nil, userJSON: [UInt8]? = nil) {
        self.tokens = tokens
        self.userJSON = userJSON
    }
}

/// What came of saving a renewal.
public enum SaveResult: Sendable {
    /// It is kept: the session as it is now.
    case saved(Session)
    /// The session has changed since it was read; the lease is good.
    case versionConflict
    /// Somebody has taken a later lease, or this one has run out and is not known any more.
    case staleLease
    /// There is no such session any more.
    case notFound
}

/// What came of ending a session that could not be renewed.
public enum RejectResult: Sendable, Equatable {
    /// It is ended.
    case ended
    /// The session has changed, or somebody has taken a later lease: it goes on.
    case versionConflict
    /// There was no such session any more.
    case notFound
}

/// The sessions of one account, on all replicas.
public protocol AccountSessions: Sendable {
    /// All that are alive, the latest first.
    func sessions(of account: AccountName, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary]
    /// Ends a session by its name.
    /// - Parameter account: Whose it has to be; `nil` for an operator, who may end anybody's.
    /// - Returns: What ended; `nil` if there was none.
    func take(_ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: Timestamp)
        async throws(SessionStoreError) -> EndedSession?
    /// Ends the sessions of an account, and those that were signed in to under this name.
    /// - Parameter kept: One that goes on.
    /// - Returns: Those that were ended.
    func takeAll(of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: Timestamp)
        async throws(SessionStoreError) -> [EndedSession]
}

extension AccountSessions {
    /// The same as ``take(_:of:reason:now:)``, for callers that do not use the tokens.
    /// - Returns: Whether there was one.
    public func end(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        try await take(id, of: account, reason: reason, now: now) != nil
    }

    /// The same as ``takeAll(of:but:reason:now:)``, for callers that do not use the tokens.
    public func endAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> [SessionID] {
        try await takeAll(of: account, but: kept, reason: reason, now: now).map(\.id)
    }
}

/// A session that was ended by its name.
public struct EndedSession: Sendable {
    /// Its name.
    public let id: SessionID
    /// The session, with tokens to be revoked upstream; `nil` where only its ticket would open it.
    public let opened: Session?

    /// Notes an end.
    public init(id: SessionID, opened: Session?) {
        self.id = id
        self.opened = opened
    }
}

/// What a user is told about one of their sessions.
public struct SessionSummary: Sendable, Equatable {
    /// Its name.
    public var id: SessionID
    /// When the user signed in.
    public var createdAt: Timestamp
    /// When it was last used, to the minute.
    public var lastUsedAt: Timestamp
    /// When it ends at the latest.
    public var expiresAt: Timestamp
    /// Where from.
    public var client: SessionClientInfo

    /// Makes a summary.
    public init(
        id: SessionID, createdAt: Timestamp, lastUsedAt: Timestamp, expiresAt: Timestamp, client: SessionClientInfo
    ) {
        self.id = id
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.expiresAt = expiresAt
        self.client = client
    }
}

extension Session {
    /// What its user is told about it.
    public var summary: SessionSummary {
        SessionSummary(id: id, createdAt: createdAt, lastUsedAt: lastUsedAt, expiresAt: expiresAt, client: client)
    }
}

/// Why a session ended, as metrics and the audit log name it.
public enum SessionEndReason: String, Sendable, Hashable, CaseIterable {
    /// Its user signed out.
    case signedOut = "signed_out"
    /// Its user agent signed in anew.
    case replaced
    /// It was not used for longer than its idle timeout.
    case expiredIdle = "expired_idle"
    /// It reached its absolute timeout.
    case expiredAbsolute = "expired_absolute"
    /// It was ended from elsewhere: by its user in another session, or by an operator.
    case revoked
    /// The upstream refused to renew its tokens.
    case refreshRejected = "refresh_rejected"
    /// The upstream that issued its tokens is not the one that signs people in any more.
    case sourceRemoved = "source_gone"
    /// What the store keeps of it cannot be read: it was damaged, or sealed under a secret that is not known here.
    case unreadable
}

/// Why a store could not do what it was asked.
public struct SessionStoreError: Error, Sendable, Equatable {
    /// The kind of failure.
    public enum Kind: Sendable, Hashable {
        /// The bound on sessions is reached; try again later (503).
        case full
        /// The store cannot be reached (503).
        case unavailable
    }

    /// The kind of failure.
    public let kind: Kind

    /// Makes an error.
    public init(_ kind: Kind) {
        self.kind = kind
    }
}
