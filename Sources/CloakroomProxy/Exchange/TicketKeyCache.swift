import CloakroomCore

/// The ticket of the last session lookup on a connection, and its keys. Consecutive requests of a connection usually
/// carry the same cookie; hashing it costs 5 % of a request's instructions, and hashing what a limit counts by 1 %.
struct TicketKeyCache {
    private var ticket: SessionTicket?
    private var key: SessionKey?
    /// The hashes of the session and of its account as what limits count by; 0 if they were not needed.
    private var (session, account) = (UInt64(0), UInt64(0))

    /// Looks up the session of a ticket.
    /// - Parameter slides: Whether the lookup counts as a use of the session.
    mutating func lookup(_ ticket: SessionTicket, in sessions: any SessionAccess, now: SessionTime, slides: Bool)
        -> SessionLookup
    {
        if ticket != self.ticket {
            self.ticket = ticket
            key = nil
            (session, account) = (0, 0)
        }
        return sessions.lookup(ticket, key: &key, now: now, slides: slides)
    }

    /// What a limit counts the session of the ticket by. Neither its id nor its account ever changes; its claims may.
    mutating func rateKey(of session: Session, at limit: RateLimitRuntime, hash: KeyedHash) -> RateKey? {
        if limit.isOfSession { return Self.rateKey(&self.session, session, limit, hash) }
        if limit.isOfAccount { return Self.rateKey(&account, session, limit, hash) }
        return RateKey(session, at: limit.limit, hash: hash)
    }

    @inline(__always)
    private static func rateKey(
        _ known: inout UInt64, _ session: Session, _ limit: RateLimitRuntime, _ hash: KeyedHash
    ) -> RateKey {
        if known == 0 { known = RateKey(session, at: limit.limit, hash: hash)?.value ?? 0 }
        return RateKey(value: known)
    }
}
