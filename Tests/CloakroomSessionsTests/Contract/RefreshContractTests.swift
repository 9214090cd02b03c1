import CloakroomCore
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
        let lease = try #require(try await store.lease(session.key, for: leaseTime, now: start).lease)
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
            let saved = try #require(try await save(newTokens(5, at: now), leased, in: store, at: now).session)
            let found = try #require(try await store.lookup(leased.ticket, at: now).session)
            let read = try #require(try await store.reload(leased.ticket, now: now).session)
            for session in [saved, found, read] {
                #expect(session.version == leased.session.version + 1)
                #expect(session.tokens == Sample.tokens(5, obtainedAt: now))
                #expect(session.user == Sample.user(4))
                #expect(session.client == Sample.client)
                #expect(session.createdAt == start)
                #expect(session.expiresAt == leased.session.expiresAt)
                #expect(session.key == leased.session.key)
            }
        }
    }

    @Test("Rule 63: counts requests in flight of before a reload of the session", arguments: SessionStoreCase.all)
    func countsOverReload(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let session = try #require(try await store.lookup(leased.ticket, at: start).session)
            #expect(session.beginRequest(limit: 1))
            for _ in 0..<2 {
                let reloaded = try #require(try await store.reload(leased.ticket, now: start).session)
                #expect(!reloaded.beginRequest(limit: 1))
                #expect(try await store.lookup(leased.ticket, at: start).session?.beginRequest(limit: 1) == false)
            }
            session.endRequest()
            #expect(try await store.lookup(leased.ticket, at: start).session?.beginRequest(limit: 1) == true)
        }
    }

    @Test(
        "Rule 63: counts requests in flight of before a refresh, and those that waited for it",
        arguments: SessionStoreCase.all)
    func countsOverRefresh(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            var before = try #require(try await store.lookup(leased.ticket, at: start).session)
            #expect(before.beginRequest(limit: 2))
            for number in 1...2 {
                let result = try await save(newTokens(number, at: start), leased, over: before, in: store)
                let saved = try #require(result.session)
                let after = try #require(try await store.lookup(leased.ticket, at: start).session)
                #expect(saved.beginRequest(limit: 2))
                #expect(!after.beginRequest(limit: 2))
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
            let found = try #require(try await store.lookup(leased.ticket, at: start).session)
            #expect(found.user == UserProfile(json: json, account: Sample.account(4)))
            #expect(found.tokens == Sample.tokens(4))
        }
    }

    @Test("grants one lease at a time, and the next one after its release", arguments: SessionStoreCase.all)
    func leasesExcludeEachOther(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let other = try await store.create(Sample.new(1), now: start).1
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .heldByOther)
            #expect(try await store.lease(other.key, for: leaseTime, now: start).lease != nil)
            await store.release(leased.lease, of: leased.session.key)
            let next = try #require(try await store.lease(leased.session.key, for: leaseTime, now: start).lease)
            #expect(next.fencingToken > leased.lease.fencingToken)
            // Releasing an outdated lease changes nothing.
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .heldByOther)
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
            #expect(holders == 1)
        }
    }

    @Test(
        "expires leases; a late save under an expired lease is rejected once there is another",
        arguments: SessionStoreCase.followingGivenTime)
    func lateSave(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            #expect(
                try await store.lease(leased.session.key, for: leaseTime, now: start + .milliseconds(29_999))
                    == .heldByOther)
            let later = start + leaseTime
            let next = try #require(try await store.lease(leased.session.key, for: leaseTime, now: later).lease)
            #expect(next.fencingToken > leased.lease.fencingToken)
            #expect(try await save(newTokens(7, at: later), leased, in: store, at: later).isFenced)
            #expect(try await save(newTokens(8, at: later), leased, under: next, in: store, at: later).session != nil)
            #expect(
                try await store.lookup(leased.ticket, at: later).session?.tokens == Sample.tokens(8, obtainedAt: later))
        }
    }

    @Test(
        "rejects a save under a lease that was released and acquired by another", arguments: SessionStoreCase.all)
    func saveAfterRelease(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            #expect(try await save(newTokens(7, at: start), leased, in: store).isFenced)
            #expect(try await store.lookup(leased.ticket, at: start).session?.tokens == Sample.tokens())
        }
    }

    @Test("rejects a save over another version than the stored one", arguments: SessionStoreCase.all)
    func versionConflict(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let saved = try #require(try await save(newTokens(1, at: start), leased, in: store).session)
            #expect(try await save(newTokens(2, at: start), leased, in: store).isChanged)
            #expect(try await store.lookup(leased.ticket, at: start).session?.tokens == Sample.tokens(1))
            #expect(try await save(newTokens(3, at: start), leased, over: saved, in: store).session?.version == 3)
        }
    }

    @Test("has nothing to lease, save or reject once a session has ended", arguments: SessionStoreCase.all)
    func gone(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            _ = try await store.end(leased.ticket, reason: .signedOut, now: start)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .notFound)
            #expect(try await save(newTokens(1, at: start), leased, in: store).isNotFound)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .notFound)
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lookup(leased.ticket, at: start).reason == .revoked)
            #expect(!kind.counts || store.count == 0)
        }
    }

    @Test(
        "ends a session whose refresh was rejected, and reports this for its ticket", arguments: SessionStoreCase.all)
    func rejects(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            #expect(try await store.lookup(leased.ticket, at: start).session != nil)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .ended)
            #expect(try await store.lookup(leased.ticket, at: start).reason == .refreshRejected)
            #expect(try await store.reload(leased.ticket, now: start).reason == .refreshRejected)
            #expect(!kind.counts || store.count == 0)
        }
    }

    @Test("keeps a session if the rejected tokens are not its current ones", arguments: SessionStoreCase.all)
    func rejectsConditionally(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            _ = try await save(newTokens(1, at: start), leased, in: store)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .versionConflict)
            let current = try #require(try await store.reload(leased.ticket, now: start).session)
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            #expect(try await store.reject(current, under: leased.lease, now: start) == .versionConflict)
            #expect(try await store.lookup(leased.ticket, at: start).session?.tokens == Sample.tokens(1))
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
            #expect(session.expiresAt == start + .seconds(600))
            #expect(try await store.lookup(ticket, at: start + .milliseconds(599_999)).session != nil)
            #expect(try await store.lookup(ticket, at: start + .seconds(600)).reason == .expiredAbsolute)

            let leased = try await leased(store, 1)
            var last = Sample.tokens(2)
            last.refreshToken = nil
            let saved = try await save(SessionUpdate(tokens: last), leased, in: store).session
            #expect(saved?.expiresAt == start + .seconds(600))
            // The expiry is never extended again.
            let again = try await save(newTokens(3, at: start), leased, over: saved, in: store).session
            #expect(again?.expiresAt == start + .seconds(600))
            #expect(try await store.lookup(leased.ticket, at: start + .seconds(600)).reason == .expiredAbsolute)
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
                let session = try #require(try await store.lookup(leased.ticket, at: start).session)
                #expect(session.tokens == Sample.tokens(1_000 + number))
                #expect(session.user == Sample.user(number))
            }
        }
    }

    @Test("does not count a refresh as a use", arguments: SessionStoreCase.all)
    func refreshingIsNoUse(kind: SessionStoreCase) async throws {
        try await leased(kind) { store, leased async throws in
            let now = start + .seconds(20)
            _ = try await save(newTokens(1, at: now), leased, in: store, at: now)
            #expect(try await store.lookup(leased.ticket, at: now, slides: false).session?.lastUsedAt == start)
            #expect(try await store.lookup(leased.ticket, at: start + kind.idle).reason == .expiredIdle)
        }
    }
}
