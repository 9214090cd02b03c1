/// What a look for a session gave.
public enum SessionLookup: Sendable {
    /// It is there and may be used.
    case live(Session)
    /// It cannot be used, and why.
    case none(UnauthorizedReason)
    /// The local table cannot tell; ``SessionStore/load(_:now:)`` can.
    case unknown
}

/// The sessions at hand: a look takes no wait, so event loops may ask.
public protocol SessionTable: Sendable {
    /// Looks a session up. A store whose every session is at hand never answers ``SessionLookup/unknown``.
    /// - Parameters:
    ///   - slides: Whether the look counts as a use of the session.
    func find(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup
    /// The same, for who asks for one ticket again and again.
    /// - Parameter key: The ticket's key from an earlier look; `nil` at first, and then left there for the next.
    func find(_ ticket: SessionTicket, key: inout SessionKey?, now: Timestamp, slides: Bool) -> SessionLookup
}

extension SessionTable {
    /// For tables that have no use for keys.
    public func find(
        _ ticket: SessionTicket, key: inout SessionKey?, now: Timestamp, slides: Bool
    ) -> SessionLookup {
        find(ticket, now: now, slides: slides)
    }
}

/// Keeps sessions. Every store passes the same contract tests.
///
/// A store that cannot be reached throws; it never says that a session is not there.
public protocol SessionStore: SessionTable {
    /// Keeps a new session.
    /// - Returns: The ticket for the client, and the session.
    func create(_ user: UserProfile, tokens: SessionTokens, now: Timestamp) async throws(SessionStoreError)
        -> (SessionTicket, Session)
    /// Looks a session up wherever it is. That alone is no use of it: the idle timeout goes on.
    func load(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup
    /// Ends a session. Its ticket is told the reason for a while, and opens nothing any more.
    /// - Returns: The session that ended; `nil` if there was none, or none any more because it had expired.
    func end(_ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp) async throws(SessionStoreError)
        -> Session?
    /// How many sessions there are, expired ones that were not cleared away yet included.
    var count: Int { get }
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
