import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store that replicas share.
@Suite("Every session store that replicas share", .timeLimit(.minutes(3)))
struct ReplicaContractTests {
    private let start = Sample.start

    @Test("finds sessions on one replica that another one created", arguments: SessionStoreCase.shared)
    func found(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, made) = try await one.create(Sample.new(5), now: start)
            let session = try await require(other.lookup(ticket, at: start).session)
            expect(session.key, equals: made.key)
            expect(session.tokens, equals: Sample.tokens(5))
            expect(session.user, equals: Sample.user(5))
            expect(session.client, equals: Sample.client)
            try await expect(other.sessions(of: Sample.account(5), now: start), equals: [made.summary])
        }
    }

    @Test(
        "caches a session after loading it, and removes it when another replica ends it",
        arguments: SessionStoreCase.shared)
    func endsEverywhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, _) = try await one.create(Sample.new(), now: start)
            try await expect(other.load(ticket, now: start).session != nil)
            expect(other.lookup(ticket, now: start, slides: false).session != nil)
            let changes = other.changeCount
            try await expect(one.end(ticket, reason: .signedOut, now: start) != nil)
            try await eventually("it is removed") { other.lookup(ticket, now: start, slides: false).session == nil }
            try await eventually("the change is counted") { other.changeCount != changes }
            try await expect(other.lookup(ticket, at: start).reason, equals: .revoked)
        }
    }

    @Test("Rule 24: ends the sessions of an account on all replicas", arguments: SessionStoreCase.shared)
    func endsAllEverywhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (mine, session) = try await one.create(Sample.new(1), now: start)
            let (elsewhere, _) = try await other.create(Sample.new(1), now: start)
            try await expect(other.lookup(elsewhere, at: start).session != nil)
            let ended = try await one.endAll(of: Sample.account(1), but: session.id, reason: .revoked, now: start)
            expect(ended.count, equals: 1)
            try await eventually("it is removed") { other.lookup(elsewhere, now: start, slides: false).session == nil }
            try await expect(other.lookup(elsewhere, at: start).reason, equals: .revoked)
            try await expect(other.lookup(mine, at: start).session != nil)
        }
    }

    @Test("returns refreshed tokens on the other replica", arguments: SessionStoreCase.shared)
    func refreshesEverywhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, session) = try await one.create(Sample.new(), now: start)
            try await expect(other.load(ticket, now: start).session?.version, equals: 1)
            let lease = try await require(one.lease(session.key, for: .seconds(30), now: start).lease)
            try await expect(other.lease(session.key, for: .seconds(30), now: start), equals: .heldByOther)
            let refresh = SessionUpdate(tokens: Sample.tokens(9))
            let saved = try await one.save(refresh, ticket: ticket, over: session, under: lease, now: start)
            expect(saved.session?.version, equals: 2)
            try await expect(other.reload(ticket, now: start).session?.tokens, equals: Sample.tokens(9))
            try await eventually("the old session is removed") {
                other.lookup(ticket, now: start, slides: false).session?.version != 1
            }
            try await expect(other.lookup(ticket, at: start).session?.tokens, equals: Sample.tokens(9))
        }
    }

    @Test("counts a use on one replica as a use on the other", arguments: SessionStoreCase.shared)
    func usesCountEverywhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, _) = try await one.create(Sample.new(), now: start)
            try await expect(other.load(ticket, now: start).session != nil)
            let used = start + .seconds(800)
            try await expect(one.lookup(ticket, at: used).session != nil)
            // The use is written within about 1 s.
            try await eventually("the use is written") {
                (try? await other.sessions(of: Sample.account(), now: used).first?.lastUsedAt) == used
            }
            try await expect(other.lookup(ticket, at: used + .seconds(899)).session != nil)
        }
    }

    @Test(
        "keeps a session on each replica for the idle timeout after its last use, though that use was not recorded",
        arguments: SessionStoreCase.shared)
    func neverEndsEarly(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, _) = try await one.create(Sample.new(), now: start)
            _ = try await one.load(ticket, now: start)
            let used = start + kind.timeouts.touchGranularity - .milliseconds(1)
            try await expect(one.lookup(ticket, at: used).session?.lastUsedAt, equals: start)
            let last = used + Sample.configuration.idleTimeout - .milliseconds(1)
            try await expect(other.lookup(ticket, at: last, slides: false).session != nil)
            // An eighth of the idle timeout and a second later at most.
            let end = start + .milliseconds(900_000 + 112_500 + 1_000)
            try await expect(other.lookup(ticket, at: end).reason, equals: .expiredIdle)
        }
    }

    @Test("keeps sessions that were created before a replica started", arguments: SessionStoreCase.shared)
    func outlivesReplicas(kind: SessionStoreCase) async throws {
        try await kind.withPlace(Sample.configuration) { place in
            var created: SessionTicket?
            try await RunningStore.with(try await place.store()) { store in
                created = try await store.create(Sample.new(3), now: start).0
            }
            let ticket = try require(created)
            try await RunningStore.with(try await place.store()) { store in
                try await expect(store.lookup(ticket, at: start).session?.user, equals: Sample.user(3))
                try await eventually("the session is counted") { !kind.counts || store.count == 1 }
            }
        }
    }
}
