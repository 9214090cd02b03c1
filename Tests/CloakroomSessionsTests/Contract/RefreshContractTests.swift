import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for token refreshes.
@Suite("Every session store, for token refreshes", .timeLimit(.minutes(3)))
struct RefreshContractTests {
    private let start = Sample.start
    private let leaseTime = Duration.seconds(30)

    private struct Leased {
        let ticket: SessionTicket
        let session: Session
        let lease: RefreshLease
    }

    private func leased(_ store: any SessionStore, _ number: Int = 0) async throws -> Leased {
        let (ticket, session) = try await store.create(Sample.new(number), now: start)
        let lease = try await require(store.lease(session.key, for: leaseTime, now: start).lease)
        return Leased(ticket: ticket, session: session, lease: lease)
    }

    /// Runs a test with a running store, and a session under a lease.
    private func leased(
        _ kind: SessionStoreCase, _ number: Int = 0, _ test: (any SessionStore, Leased) async throws -> Void
    ) async throws {
        try await kind.run { store in try await test(store, try await leased(store, number)) }
    }

    private func save(
        _ refresh: SessionUpdate, _ leased: Leased, over session: Session? = nil, under lease: RefreshLease? = nil,
        in store: any SessionStore, at now: SessionTime? = nil
    ) async throws -> SaveResult {
        try await store.save(
            refresh, ticket: leased.ticket, over: session ?? leased.session, under: lease ?? leased.lease,
            now: now ?? start)
    }

    private func newTokens(_ number: Int, at now: SessionTime) -> SessionUpdate {
        SessionUpdate(tokens: Sample.tokens(number, obtainedAt: now))
    }

    @Test("saves new tokens with the next version, and changes nothing else", arguments: SessionStoreCase.all)
    func saves(kind: SessionStoreCase) async throws {
        try await leased(kind, 4) { store, leased async throws in
            let now = start + .seconds(5)
            let saved = try await require(save(newTokens(5, at: now), leased, in: store, at: now).session)
            let found = try await require(store.lookup(leased.ticket, at: now).session)
            let read = try await require(store.reload(leased.ticket, now: now).session)
            for session in [saved, found, read] {
                expect(session.version, equals: leased.session.version + 1)
                expect(session.tokens, equals: Sample.tokens(5, obtainedAt: now))
                expect(session.user, equals: Sample.user(4))
                expect(session.client, equals: Sample.client)
                expect(session.createdAt, equals: start)
                expect(session.expiresAt, equals: leased.session.expiresAt)
                expect(session.key, equals: leased.session.key)
            }
        }
    }

    @Test("Rule 63: counts requests in flight of before a reload of the session", arguments: SessionStoreCase.all)
    func countsOverReload(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let session = try await require(store.lookup(leased.ticket, at: start).session)
            expect(session.beginRequest(limit: 1))
            for _ in 0..<2 {
                let reloaded = try await require(store.reload(leased.ticket, now: start).session)
                expect(!reloaded.beginRequest(limit: 1))
                try await expect(store.lookup(leased.ticket, at: start).session?.beginRequest(limit: 1), equals: false)
            }
            session.endRequest()
            try await expect(store.lookup(leased.ticket, at: start).session?.beginRequest(limit: 1), equals: true)
        }
    }

    @Test(
        "Rule 63: counts requests in flight of before a refresh, and those that waited for it",
        arguments: SessionStoreCase.all)
    func countsOverRefresh(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            var before = try await require(store.lookup(leased.ticket, at: start).session)
            expect(before.beginRequest(limit: 2))
            for number in 1...2 {
                let result = try await save(newTokens(number, at: start), leased, over: before, in: store)
                let saved = try require(result.session)
                let after = try await require(store.lookup(leased.ticket, at: start).session)
                expect(saved.beginRequest(limit: 2))
                expect(!after.beginRequest(limit: 2))
                saved.endRequest()
                before = after
            }
        }
    }

    @Test("Rule 25: returns a changed user, and keeps the tokens", arguments: SessionStoreCase.all)
    func savesUser(kind: SessionStoreCase) async throws {
        try await leased(kind, 4) { store, leased async throws in
            let json = Array(#"{"id":4,"name":"new"}"#.utf8)
            _ = try await save(SessionUpdate(userJSON: json), leased, in: store)
            let found = try await require(store.lookup(leased.ticket, at: start).session)
            expect(found.user, equals: UserProfile(json: json, account: Sample.account(4)))
            expect(found.tokens, equals: Sample.tokens(4))
        }
    }

    @Test("grants one lease at a time, and the next one after its release", arguments: SessionStoreCase.all)
    func leasesExcludeEachOther(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let other = try await store.create(Sample.new(1), now: start).1
            try await expect(store.lease(leased.session.key, for: leaseTime, now: start), equals: .heldByOther)
            try await expect(store.lease(other.key, for: leaseTime, now: start).lease != nil)
            await store.release(leased.lease, of: leased.session.key)
            let next = try await require(store.lease(leased.session.key, for: leaseTime, now: start).lease)
            #expect(next.fencingToken > leased.lease.fencingToken)
            // Releasing an outdated lease changes nothing.
            await store.release(leased.lease, of: leased.session.key)
            try await expect(store.lease(leased.session.key, for: leaseTime, now: start), equals: .heldByOther)
        }
    }

    @Test("grants one lease to a hundred concurrent requests", arguments: SessionStoreCase.all)
    func oneHolder(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new()) { store, _, session async throws in
            let (start, leaseTime) = (start, leaseTime)
            let holders = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<100 {
                    group.addTask { try await store.lease(session.key, for: leaseTime, now: start).lease != nil }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            expect(holders, equals: 1)
        }
    }

    @Test(
        "expires leases; a late save under an expired lease is rejected once there is another",
        arguments: SessionStoreCase.followingGivenTime)
    func lateSave(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            try await expect(
                store.lease(leased.session.key, for: leaseTime, now: start + .milliseconds(29_999)),
                equals: .heldByOther)
            let later = start + leaseTime
            let next = try await require(store.lease(leased.session.key, for: leaseTime, now: later).lease)
            #expect(next.fencingToken > leased.lease.fencingToken)
            try await expect(save(newTokens(7, at: later), leased, in: store, at: later).isFenced)
            try await expect(save(newTokens(8, at: later), leased, under: next, in: store, at: later).session != nil)
            try await expect(
                store.lookup(leased.ticket, at: later).session?.tokens, equals: Sample.tokens(8, obtainedAt: later))
        }
    }

    @Test(
        "rejects a save under a lease that was released and acquired by another", arguments: SessionStoreCase.all)
    func saveAfterRelease(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            await store.release(leased.lease, of: leased.session.key)
            try await expect(store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            try await expect(save(newTokens(7, at: start), leased, in: store).isFenced)
            try await expect(store.lookup(leased.ticket, at: start).session?.tokens, equals: Sample.tokens())
        }
    }

    @Test("rejects a save over another version than the stored one", arguments: SessionStoreCase.all)
    func versionConflict(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let saved = try await require(save(newTokens(1, at: start), leased, in: store).session)
            try await expect(save(newTokens(2, at: start), leased, in: store).isChanged)
            try await expect(store.lookup(leased.ticket, at: start).session?.tokens, equals: Sample.tokens(1))
            try await expect(save(newTokens(3, at: start), leased, over: saved, in: store).session?.version, equals: 3)
        }
    }

    @Test("has nothing to lease, save or reject once a session has ended", arguments: SessionStoreCase.all)
    func gone(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            _ = try await store.end(leased.ticket, reason: .signedOut, now: start)
            try await expect(store.lease(leased.session.key, for: leaseTime, now: start), equals: .notFound)
            try await expect(save(newTokens(1, at: start), leased, in: store).isNotFound)
            try await expect(store.reject(leased.session, under: leased.lease, now: start), equals: .notFound)
            await store.release(leased.lease, of: leased.session.key)
            try await expect(store.lookup(leased.ticket, at: start).reason, equals: .revoked)
            expect(!kind.counts || store.count == 0)
        }
    }

    @Test(
        "ends a session whose refresh was rejected, and reports this for its ticket", arguments: SessionStoreCase.all)
    func rejects(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            try await expect(store.lookup(leased.ticket, at: start).session != nil)
            try await expect(store.reject(leased.session, under: leased.lease, now: start), equals: .ended)
            try await expect(store.lookup(leased.ticket, at: start).reason, equals: .refreshRejected)
            try await expect(store.reload(leased.ticket, now: start).reason, equals: .refreshRejected)
            expect(!kind.counts || store.count == 0)
        }
    }

    @Test("keeps a session if the rejected tokens are not its current ones", arguments: SessionStoreCase.all)
    func rejectsConditionally(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            _ = try await save(newTokens(1, at: start), leased, in: store)
            try await expect(store.reject(leased.session, under: leased.lease, now: start), equals: .versionConflict)
            let current = try await require(store.reload(leased.ticket, now: start).session)
            await store.release(leased.lease, of: leased.session.key)
            try await expect(store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            try await expect(store.reject(current, under: leased.lease, now: start), equals: .versionConflict)
            try await expect(store.lookup(leased.ticket, at: start).session?.tokens, equals: Sample.tokens(1))
        }
    }

    @Test(
        "ends a session that cannot be refreshed with its access token, also after an earlier refresh",
        arguments: SessionStoreCase.all)
    func endsWithAccessToken(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var new = Sample.new()
            new.tokens.refreshToken = nil
            let (ticket, session) = try await store.create(new, now: start)
            expect(session.expiresAt, equals: start + .seconds(600))
            try await expect(store.lookup(ticket, at: start + .milliseconds(599_999)).session != nil)
            try await expect(store.lookup(ticket, at: start + .seconds(600)).reason, equals: .expiredAbsolute)

            let leased = try await leased(store, 1)
            var last = Sample.tokens(2)
            last.refreshToken = nil
            let saved = try await save(SessionUpdate(tokens: last), leased, in: store).session
            expect(saved?.expiresAt, equals: start + .seconds(600))
            // The expiry is never extended again.
            let again = try await save(newTokens(3, at: start), leased, over: saved, in: store).session
            expect(again?.expiresAt, equals: start + .seconds(600))
            try await expect(store.lookup(leased.ticket, at: start + .seconds(600)).reason, equals: .expiredAbsolute)
        }
    }

    @Test("Rule 16: two users refreshing concurrently never swap tokens", arguments: SessionStoreCase.all)
    func neverSwaps(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var all: [Leased] = []
            for number in 0..<20 { all.append(try await leased(store, number)) }
            let start = start
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, leased) in all.enumerated() {
                    group.addTask {
                        _ = try await store.save(
                            SessionUpdate(tokens: Sample.tokens(1_000 + number)), ticket: leased.ticket,
                            over: leased.session, under: leased.lease, now: start)
                    }
                }
                try await group.waitForAll()
            }
            for (number, leased) in all.enumerated() {
                let session = try await require(store.lookup(leased.ticket, at: start).session)
                expect(session.tokens, equals: Sample.tokens(1_000 + number))
                expect(session.user, equals: Sample.user(number))
            }
        }
    }

    @Test("does not count a refresh as a use", arguments: SessionStoreCase.all)
    func refreshingIsNoUse(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let now = start + .seconds(20)
            _ = try await save(newTokens(1, at: now), leased, in: store, at: now)
            try await expect(store.lookup(leased.ticket, at: now, slides: false).session?.lastUsedAt, equals: start)
            try await expect(store.lookup(leased.ticket, at: start + kind.idle).reason, equals: .expiredIdle)
        }
    }
}
