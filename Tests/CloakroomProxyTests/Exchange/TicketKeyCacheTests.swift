import CloakroomCore
import CloakroomTelemetry
import TestSupport
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
            expect(found === session)
        }
    }

    @Test("A limit counts by the session of the ticket, and by its account, however often the ticket changes")
    func rateKeys() {
        let telemetry = GatewayTelemetry(settings: TelemetrySettings())
        defer { telemetry.shutdown() }
        let limits = [RateLimit.Subject.session, .account, .claim("tenant")].map { subject in
            var limit = RateLimit(name: "few")
            limit.subject = subject
            return RateLimitRuntime(
                limit, index: 0, RateLimitStorage(), RateLimitTable(keys: 1), telemetry.metrics.clientLimits)
        }
        let sessions = FakeSessions()
        let first = FakeSessions.make()
        let second = FakeSessions.make()
        var cache = TicketKeyCache()
        for (ticket, session) in [first, first, second, first] {
            _ = cache.lookup(ticket, in: sessions, now: SessionTime(seconds: 0), slides: true)
            for limit in limits {
                let key = cache.rateKey(of: session, at: limit, hash: RateKey.processHash)
                expect(key, equals: RateKey(session, at: limit.limit))
            }
        }
    }
}
