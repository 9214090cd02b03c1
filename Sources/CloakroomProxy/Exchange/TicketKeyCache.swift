import CloakroomCore

/// The ticket of the last session lookup on a connection, and its key. Consecutive requests of a connection usually
/// carry the same cookie; hashing it costs 5 % of a request's instructions.
struct TicketKeyCache {
    private var ticket: SessionTicket?
    private var key: SessionKey?

    /// Looks up the session of a ticket.
    /// - Parameter slides: Whether the lookup counts as a use of the session.
    mutating func lookup(_ ticket: SessionTicket, in sessions: any SessionStore, now: SessionTime, slides: Bool)
        -> SessionLookup
    {
        if ticket != self.ticket {
            self.ticket = ticket
            key = nil
        }
        return sessions.lookup(ticket, key: &key, now: now, slides: slides)
    }
}
