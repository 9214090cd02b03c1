import CloakroomCore
import Testing

@testable import CloakroomProxy

@Suite("The cached key of a connection's session ticket")
struct TicketKeyCacheTests {
    @Test("Each lookup returns the session of its own ticket, however often the ticket changes")
    func changes() {
        let sessions = FakeSessions()
        let first = FakeSessions.make()
        let second = FakeSessions.make()
        sessions.add(first)
        sessions.add(second)
        var cache = TicketKeyCache()
        for (ticket, session) in [first, first, second, first] {
            let lookup = cache.lookup(ticket, in: sessions, now: SessionTime(seconds: 0), slides: true)
            guard case .active(let found) = lookup else {
                Issue.record("no session")
                continue
            }
            #expect(found === session)
        }
    }
}
