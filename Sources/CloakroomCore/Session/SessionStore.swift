/// The result of a session lookup.
public enum SessionLookup: Sendable {
    /// The session exists and is valid.
    case active(Session)
    /// There is no valid session, for the given reason.
    case missing(UnauthorizedReason)
    /// The session is not cached locally; use ``SessionAccess/load(_:now:)``.
    case notCached
}

/// What the requests of sessions need of a store: they neither create sessions nor know those of others.
public protocol SessionAccess: AnyObject, Sendable {
    /// Looks up a session. Never suspends, so that event loops may call it. A store that holds all its sessions locally
    /// never returns ``SessionLookup/notCached``.
    /// - Parameters:
    ///   - key: The ticket's key from an earlier lookup; `nil` at first, then set for the next lookup.
    ///   - slides: Whether the lookup counts as a use of the session. One with a key of its device is used only by
    ///     ``recordUse(of:now:)``: a client with its ticket alone must not extend it.
    func lookup(_ ticket: SessionTicket, key: inout SessionKey?, now: SessionTime, slides: Bool) -> SessionLookup
    /// Records a use of an active session, unless one was recorded a short time ago.
    func recordUse(of session: Session, now: SessionTime)
    /// Whether a lookup that counts as a use of an active session records it: not if that was done a short time ago.
    func isUseDue(of session: Session, now: SessionTime) -> Bool
    /// Counts the changes and ends of single sessions, of those on other replicas too, when lookups show them. While it
    /// stays the same, a session that was active ends by its timeouts only, or with an outage of the store. Never
    /// suspends.
    var changeCount: UInt64 { get }
    /// Loads a session from the cache or the store. A load is not a use of the session and does not extend the idle
    /// timeout.
    func load(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup
    /// Ends a session. Its ticket is invalid from then on; lookups report the reason for a limited time.
    /// - Returns: The session that ended; `nil` if there was none or it had expired.
    func end(_ ticket: SessionTicket, reason: SessionEndReason, now: SessionTime) async throws(SessionStoreError)
        -> Session?
}

extension SessionAccess {
    /// Looks up a session once.
    public func lookup(_ ticket: SessionTicket, now: SessionTime, slides: Bool) -> SessionLookup {
        var key: SessionKey?
        return lookup(ticket, key: &key, now: now, slides: slides)
    }
}

/// Stores sessions. Every store passes the same contract tests.
///
/// A store that cannot be reached throws; it never reports a session as missing.
public protocol SessionStore: SessionAccess, ThrottleStore, MarkStore {
    /// Stores a new session.
    /// - Parameter limit: The number of sessions that its user may have.
    /// - Returns: The ticket for the client, the session, and whether its user may have more sessions than that: only then
    ///   ``takeOldest(of:over:but:reason:now:)`` has any to end.
    func create(
        _ new: NewSession, limit: Int, now: SessionTime
    ) async throws(SessionStoreError) -> (ticket: SessionTicket, session: Session, mayExceed: Bool)
    /// The number of sessions known to this process, including expired ones that are not deleted yet.
    var count: Int { get }
    /// Whether the store can be reached at the moment.
    var isAvailable: Bool { get }
    /// Runs the background work of the store: deleting expired sessions, staying connected, writing touches. Returns
    /// when its task is cancelled, after writing pending touches if possible.
    func run() async

    // MARK: - Refreshes. At most one lease on a session is valid at a time, across all replicas.

    // The fencing token of a lease counts the leases of its session: a save under an earlier lease is rejected as stale.
    // The version of a session counts its changes: a save based on another version than the stored one would overwrite a
    // concurrent change and is rejected too.

    /// Acquires the lease on a session's refresh.
    /// - Parameter duration: The lease expires after this duration; its holder must not act on it afterwards.
    func lease(_ key: SessionKey, for duration: Duration, now: SessionTime) async throws(SessionStoreError)
        -> LeaseResult
    /// Saves a refresh result if the lease is the latest one and the session still has the version of `session`.
    /// - Throws: ``SessionStoreError``: it is then unknown whether the result was saved.
    func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: SessionTime
    ) async throws(SessionStoreError) -> SaveResult
    /// Ends a session whose refresh the upstream rejected, on the same two conditions.
    func reject(_ session: Session, under lease: RefreshLease, now: SessionTime) async throws(SessionStoreError)
        -> RejectResult
    /// Releases a lease before it expires. If the store cannot be reached, the lease expires by itself.
    func release(_ lease: RefreshLease, of key: SessionKey) async
    /// Whether a new refresh of a session may start. For some seconds after an outage only refreshes may continue whose refresh
    /// token was spent before it: if another replica spent the token again, the upstream would end the session.
    func allowsNewRefreshes(of key: SessionKey) -> Bool
    /// Loads a session from the store itself, bypassing the local cache.
    func reload(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup

    // MARK: - The sessions of an account, across all replicas.

    /// Returns all active sessions, the latest first.
    func sessions(of account: AccountName, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary]
    /// Ends the oldest sessions of a user who has more than a number of them, at most 16 at once. Chooses again if some of
    /// them were ended by another call at the same time.
    ///
    /// They are the sessions of ``UserProfile/account``, and those that were signed in to with ``UserProfile/name`` and
    /// have no other account. Nothing is decrypted. If there are more than 32, a store on a server checks some of them
    /// only, so that the cost does not depend on their number: sessions that ended by their idle timeout may count.
    /// - Parameter new: The session of the sign-in. It counts, and is ended only if enough others were created within the 30 s
    ///   after it: sign-ins at the same moment do not end each other.
    /// - Returns: The sessions that were ended.
    func takeOldest(
        of user: UserProfile, over limit: Int, but new: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession]
    /// Ends a session by its identifier.
    /// - Parameter account: The account that the session has to belong to; `nil` for operators, who may end any
    ///   session.
    /// - Returns: The session that ended; `nil` if there was none.
    func take(_ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime)
        async throws(SessionStoreError) -> EndedSession?
    /// Ends sessions that belong together.
    /// - Returns: The sessions that were ended.
    /// - Throws: An error with those that were ended before it: ``SessionStoreError/ended``.
    func takeAll(
        _ selection: SessionSelection, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession]
}

/// Sessions that end together.
public enum SessionSelection: Sendable {
    /// Those of an account, and those that were signed in to under this name, but one.
    case account(AccountName, but: SessionID? = nil)
    /// Of those, the ones that were created before a time; if `isNameless`, only those that belong to no known session at
    /// a provider.
    case created(AccountName, before: SessionTime, isNameless: Bool)
    /// Those that belong to a session at a provider, and to an account unless that is `nil`.
    case provider(ProviderSession, of: AccountName? = nil)
}

/// The contents of a session to be created.
public struct NewSession: Sendable {
    /// The signed-in user.
    public var user: UserProfile
    /// The tokens that the upstream issued.
    public var tokens: TokenSet
    /// The client that signed in.
    public var client: SessionClientInfo
    /// The upstream or provider that issued the tokens.
    public var source: SessionSource
    /// What the provider stated; `nil` if the user signed in with credentials.
    public var provenance: SessionProvenance?
    /// The latest end of the session, if it is earlier than the configured one; `nil` for the configured one.
    public var endsBy: WallTime?
    /// Those of the app that signs in; `nil` if the configured timeouts apply.
    public var terms: SessionTerms?
    /// The site that its ticket is valid at.
    public var site = SiteTag.main

    package init(
        user: UserProfile, tokens: TokenSet, client: SessionClientInfo = SessionClientInfo(),
        source: SessionSource = .unknown, provenance: SessionProvenance? = nil, endsBy: WallTime? = nil
    ) {
        self.user = user
        self.tokens = tokens
        self.client = client
        self.source = source
        self.provenance = provenance
        self.endsBy = endsBy
    }
}

extension SessionStore {
    /// Stores a new session of a user who may have any number of them.
    public func create(
        _ new: NewSession, now: SessionTime
    ) async throws(SessionStoreError) -> (SessionTicket, Session) {
        let (ticket, session, _) = try await create(new, limit: .max, now: now)
        return (ticket, session)
    }

    /// Default for stores without outages.
    public func allowsNewRefreshes(of key: SessionKey) -> Bool { true }
}

/// The exclusive right to refresh a session's tokens.
public struct RefreshLease: Sendable, Hashable {
    /// The fencing token: the number of leases of the session so far.
    public let fencingToken: UInt64

    package init(fence: UInt64) {
        self.fencingToken = fence
    }
}

/// The result of requesting a lease.
public enum LeaseResult: Sendable, Equatable {
    /// The caller holds the lease.
    case acquired(RefreshLease)
    /// Another process or task holds the lease.
    case heldByOther
    /// The session does not exist any more.
    case notFound
}

/// Changes to a session; `nil` keeps the current value.
public struct SessionUpdate: Sendable, Equatable {
    /// New tokens.
    public var tokens: TokenSet?
    /// The user's data, fetched again: a JSON object in UTF-8.
    public var userJSON: [UInt8]?
    /// What the provider stated this time, as a whole.
    public var provenance: SessionProvenance?
    /// The end of the provider's own session, as reported with these tokens. Replaces the earlier one: the session ends
    /// then, or at its absolute timeout if that is earlier.
    public var endsBy: WallTime?
    /// The key of the device that the session is bound to from now on.
    public var device: DeviceBinding?

    package init(
        tokens: TokenSet? = nil, userJSON: [UInt8]? = nil, provenance: SessionProvenance? = nil,
        endsBy: WallTime? = nil, device: DeviceBinding? = nil
    ) {
        self.device = device
        self.tokens = tokens
        self.userJSON = userJSON
        self.provenance = provenance
        self.endsBy = endsBy
    }
}

/// The result of saving a refresh.
public enum SaveResult: Sendable {
    /// The update was saved. Holds the updated session.
    case saved(Session)
    /// The session has changed since it was read; the lease is still valid.
    case versionConflict
    /// There is a later lease, or this one has expired and is not known any more.
    case staleLease
    /// The session does not exist any more.
    case notFound
}

/// The result of ending a session whose refresh was rejected.
public enum RejectResult: Sendable, Equatable {
    /// The session was ended.
    case ended
    /// The session has changed, or there is a later lease: the session continues.
    case versionConflict
    /// The session did not exist any more.
    case notFound
}

/// A session that was ended by its identifier.
public struct EndedSession: Sendable {
    /// The identifier of the session.
    public let id: SessionID
    /// The session, with tokens to be revoked upstream; `nil` if its contents can only be decrypted with its ticket.
    public let opened: Session?

    package init(id: SessionID, opened: Session?) {
        self.id = id
        self.opened = opened
    }
}

/// The data about a session that is shown to its user.
public struct SessionSummary: Sendable, Equatable {
    /// The identifier of the session.
    public var id: SessionID
    /// When the user signed in.
    public var createdAt: SessionTime
    /// When the session was last used, to the minute.
    public var lastUsedAt: SessionTime
    /// The latest time at which the session ends.
    public var expiresAt: SessionTime
    /// The client that signed in.
    public var client: SessionClientInfo
    /// Whether it is bound to a key of its device.
    public var isBound: Bool

    package init(
        id: SessionID, createdAt: SessionTime, lastUsedAt: SessionTime, expiresAt: SessionTime,
        client: SessionClientInfo, isBound: Bool = false
    ) {
        self.isBound = isBound
        self.id = id
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.expiresAt = expiresAt
        self.client = client
    }
}

extension Session {
    /// The data that is shown to the user.
    public var summary: SessionSummary {
        SessionSummary(
            id: id, createdAt: createdAt, lastUsedAt: lastUsedAt, expiresAt: expiresAt, client: client,
            isBound: device != nil)
    }
}

/// Why a session ended, as named in metrics and the audit log.
public enum SessionEndReason: String, Sendable, Hashable, CaseIterable {
    case signedOut = "signed_out"
    /// The user agent signed in again.
    case replaced
    /// The session was not used for longer than its idle timeout.
    case expiredIdle = "expired_idle"
    /// The session reached its absolute timeout.
    case expiredAbsolute = "expired_absolute"
    /// The session was ended by its user in another session, or by an operator.
    case revoked
    /// The upstream rejected the refresh of the session's tokens.
    case refreshRejected = "refresh_rejected"
    /// The upstream that issued the tokens is no longer the one that signs users in.
    case sourceRemoved = "source_gone"
    /// The stored record cannot be read: it is damaged, or sealed under an unknown secret.
    case unreadable
}

/// Why a store operation failed. Errors of the same kind are equal, because callers act on the kind only.
public struct SessionStoreError: Error, Sendable, Equatable {
    /// The kind of failure.
    public enum Kind: Sendable, Hashable {
        /// The limit of sessions is reached; try again later (503).
        case full
        /// The store cannot be reached (503).
        case unavailable
    }

    /// The kind of failure.
    public let kind: Kind
    /// The cause, for operators.
    public let reason: Reason
    /// The sessions that an operation on several had ended before it failed. The caller records their ends: if the
    /// operation is repeated, they are not found any more.
    public private(set) var ended: [EndedSession] = []

    /// Creates an error. The default reason is that of the kind: `full`, or `failed`.
    public init(_ kind: Kind, reason: Reason? = nil) {
        self.kind = kind
        self.reason = reason ?? (kind == .full ? .full : .failed)
    }

    /// Returns the error of an operation that had ended these sessions before, and those of ``ended``.
    public func afterEnding(_ sessions: [EndedSession]) -> Self {
        var error = self
        error.ended = sessions + ended
        return error
    }

    /// Compares the kinds.
    public static func == (left: Self, right: Self) -> Bool { left.kind == right.kind }
}
