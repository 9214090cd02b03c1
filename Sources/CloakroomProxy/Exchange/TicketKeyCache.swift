import CloakroomCore

/// The ticket of the last session lookup on a connection, and its keys. Consecutive requests of a connection usually
/// carry the same cookie; hashing it costs 5 % of a request's instructions.
struct TicketKeyCache {
    private var ticket: SessionTicket?
    private var key: SessionKey?
    private var account: RateKey?

    /// Looks up the session of a ticket.
    /// - Parameter slides: Whether the lookup counts as a use of the session.
    mutating func lookup(_ ticket: SessionTicket, in sessions: any SessionAccess, now: SessionTime, slides: Bool)
        -> SessionLookup
    {
        if ticket != self.ticket {
            self.ticket = ticket
            key = nil
            account = nil
        }
        return sessions.lookup(ticket, key: &key, now: now, slides: slides)
    }

    /// What a limit by account counts the session of the ticket by. Its account never changes.
    mutating func accountKey(of session: Session, at limit: RateLimitRuntime, _ rates: RateLimits) -> RateKey? {
        if account == nil { account = RateKey(session, at: limit.limit, hash: rates.storage.hash) }
        return account
    }
}
