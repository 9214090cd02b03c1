import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store, whatever its storage.
@Suite("Every session store", .timeLimit(.minutes(3)))
struct SessionStoreContractTests {
    private let start = Sample.start

    @Test("finds the session that it created, with all its contents", arguments: SessionStoreCase.all)
    func createThenFind(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(7)) { store, ticket, made async throws in
            let session = try await require(store.lookup(ticket, at: start + .seconds(1)).session)
            expect(session.key, equals: made.key)
            expect(session.user, equals: Sample.user(7))
            expect(session.tokens, equals: Sample.tokens(7))
            expect(session.createdAt, equals: start)
            expect(session.expiresAt, equals: start + .seconds(3_600))
            expect(session.id, equals: made.id)
            expect(!kind.counts || store.count == 1)
        }
    }

    @Test("counts the end of a session once lookups show it", arguments: SessionStoreCase.all)
    func changeCount(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            try await expect(store.lookup(ticket, at: start).session != nil)
            let before = store.changeCount
            try await expect(store.end(ticket, reason: .signedOut, now: start) != nil)
            expect(store.changeCount != before)
        }
    }

    @Test("returns no_session for a ticket that it never issued", arguments: SessionStoreCase.all)
    func unknownTicket(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            _ = try await store.create(Sample.new(), now: start)
            var generator = SystemRandomNumberGenerator()
            for _ in 0..<100 {
                let ticket = SessionTicket(using: &generator)
                try await expect(store.lookup(ticket, at: start).reason, equals: .noSession)
                try await expect(store.load(ticket, now: start).reason, equals: .noSession)
                try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
            }
            expect(!kind.counts || store.count == 1)
        }
    }

    @Test("Rule 9: issues a new ticket each time, for the same user too", arguments: SessionStoreCase.all)
    func newTickets(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var tickets: Set<SessionTicket> = []
            var names: Set<SessionID> = []
            for _ in 0..<100 {
                let (ticket, session) = try await store.create(Sample.new(), now: start)
                tickets.insert(ticket)
                names.insert(session.id)
            }
            expect(tickets.count, equals: 100)
            expect(names.count, equals: 100)
            expect(!kind.counts || store.count == 100)
        }
    }

    @Test("rejects a session from the moment that its idle timeout is reached", arguments: SessionStoreCase.all)
    func idle(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            let end = start + kind.idle
            try await expect(store.lookup(ticket, at: end - .milliseconds(1), slides: false).session != nil)
            try await expect(store.lookup(ticket, at: end).reason, equals: .expiredIdle)
            try await expect(store.load(ticket, now: end).reason, equals: .expiredIdle)
        }
    }

    @Test("extends the idle timeout by use, and not the absolute one", arguments: SessionStoreCase.all)
    func slides(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            for seconds in stride(from: Int64(800), to: 3_600, by: 800) {
                try await expect(store.lookup(ticket, at: start + .seconds(seconds)).session != nil)
            }
            try await expect(store.lookup(ticket, at: start + .seconds(3_599)).session != nil)
            try await expect(store.lookup(ticket, at: start + .seconds(3_600)).reason, equals: .expiredAbsolute)
        }
    }

    @Test("does not count a lookup without extension as a use", arguments: SessionStoreCase.all)
    func doesNotSlide(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            try await expect(
                store.lookup(ticket, at: start + .seconds(800), slides: false).session?.lastUsedAt, equals: start)
            try await expect(store.load(ticket, now: start + .seconds(800)).session?.lastUsedAt, equals: start)
            try await expect(store.lookup(ticket, at: start + kind.idle).reason, equals: .expiredIdle)
        }
    }

    @Test(
        "records a use at most once a minute, in a shared store once in an eighth of the idle timeout",
        arguments: SessionStoreCase.all)
    func touchesSeldom(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let granularity = kind.timeouts.touchGranularity
            expect(granularity, equals: kind.isShared ? .milliseconds(112_500) : .seconds(60))
            let (ticket, _) = try await store.create(Sample.new(), now: start)
            let touched = start + granularity
            let before = touched - .milliseconds(1)
            try await expect(store.lookup(ticket, at: before).session?.lastUsedAt, equals: start)
            try await expect(store.lookup(ticket, at: touched).session?.lastUsedAt, equals: touched)
            try await expect(store.lookup(ticket, at: before + granularity).session?.lastUsedAt, equals: touched)
        }
    }

    @Test(
        "keeps rejecting a session that it rejected once, also if the clock jumps back", arguments: SessionStoreCase.all
    )
    func staysRejected(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            try await expect(store.lookup(ticket, at: start + kind.idle).reason, equals: .expiredIdle)
            try await expect(store.lookup(ticket, at: start + .seconds(10)).session == nil)
        }
    }

    @Test(
        "keeps rejecting a cached session that reached its end, also in another process whose clock was set back",
        arguments: SessionStoreCase.shared)
    func staysRejectedElsewhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { store, restarted in
            let (ticket, session) = try await store.create(Sample.new(), now: start)
            // Used until the end, so that it is cached.
            for seconds in stride(from: Int64(0), to: 3_600, by: 800) {
                try await expect(store.lookup(ticket, at: start + .seconds(seconds)).session != nil)
            }
            try await expect(store.lookup(ticket, at: session.expiresAt).reason, equals: .expiredAbsolute)
            try await expect(restarted.lookup(ticket, at: start + .seconds(10)).reason, equals: .expiredAbsolute)
        }
    }

    @Test(
        "ends a session immediately, returns it, and reports \"revoked\" for its ticket",
        arguments: SessionStoreCase.all, [SessionEndReason.signedOut, .replaced])
    func end(kind: SessionStoreCase, reason: SessionEndReason) async throws {
        try await kind.run(with: Sample.new(3)) { store, ticket, made async throws in
            let (other, _) = try await store.create(Sample.new(4), now: start)
            let ended = try await require(store.end(ticket, reason: reason, now: start + .seconds(1)))
            expect(ended.key, equals: made.key)
            expect(ended.tokens, equals: Sample.tokens(3))
            try await expect(store.lookup(ticket, at: start + .seconds(1)).reason, equals: .revoked)
            try await expect(store.load(ticket, now: start + .seconds(1)).reason, equals: .revoked)
            try await expect(store.lookup(other, at: start + .seconds(1)).session != nil)
            expect(!kind.counts || store.count == 1)
        }
    }

    @Test("ends a session once only", arguments: SessionStoreCase.all)
    func endTwice(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            try await expect(store.end(ticket, reason: .signedOut, now: start) != nil)
            try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
            expect(!kind.counts || store.count == 0)
        }
    }

    @Test("has no session to end if it has expired, and keeps reporting the expiry", arguments: SessionStoreCase.all)
    func endExpired(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            try await expect(store.end(ticket, reason: .signedOut, now: start + kind.idle) == nil)
            try await expect(store.lookup(ticket, at: start + kind.idle + .seconds(1)).reason, equals: .expiredIdle)
        }
    }

    @Test("deletes the reason of a session's end after some time", arguments: SessionStoreCase.followingGivenTime)
    func forgetsReasons(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, ticket, _ async throws in
            _ = try await store.end(ticket, reason: .signedOut, now: start)
            try await expect(store.lookup(ticket, at: start + .seconds(299)).reason, equals: .revoked)
            try await expect(store.lookup(ticket, at: start + .seconds(300)).reason, equals: .noSession)
        }
    }

    @Test(
        "rejects a session beyond its limit, and accepts it once there is room",
        arguments: SessionStoreCase.all.filter(\.counts))
    func full(kind: SessionStoreCase) async throws {
        var configuration = Sample.configuration
        configuration.maxSessions = 2
        try await kind.run(configuration) { store in
            let (first, _) = try await store.create(Sample.new(1), now: start)
            let (second, _) = try await store.create(Sample.new(2), now: start)
            await #expect(throws: SessionStoreError(.full)) {
                try await store.create(Sample.new(3), now: start)
            }
            try await expect(store.lookup(first, at: start).session != nil)
            try await expect(store.lookup(second, at: start).session != nil)
            _ = try await store.end(first, reason: .signedOut, now: start)
            let (third, _) = try await store.create(Sample.new(3), now: start)
            try await expect(store.lookup(third, at: start).session != nil)
        }
    }

    @Test("deletes expired sessions to make room before it rejects", arguments: [SessionStoreCase.all[0]])
    func fullOfExpired(kind: SessionStoreCase) async throws {
        var configuration = Sample.configuration
        configuration.maxSessions = 2
        try await kind.run(configuration) { store in
            let (old, _) = try await store.create(Sample.new(1), now: start)
            let (young, _) = try await store.create(Sample.new(2), now: start + .seconds(600))
            let (new, _) = try await store.create(Sample.new(3), now: start + .seconds(900))
            try await expect(store.lookup(old, at: start + .seconds(900)).reason, equals: .expiredIdle)
            try await expect(store.lookup(young, at: start + .seconds(900)).session != nil)
            try await expect(store.lookup(new, at: start + .seconds(900)).session != nil)
        }
    }
}
