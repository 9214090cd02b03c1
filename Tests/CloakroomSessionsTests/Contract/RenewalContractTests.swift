import CloakroomCore
import Testing

@testable import CloakroomSessions

/// What every store owes those who renew tokens.
@Suite("Every session store, when tokens are renewed", .timeLimit(.minutes(3)))
struct RenewalContractTests {
    private let start = Sample.start
    private let leaseTime = Duration.seconds(30)

    private struct Leased {
        let ticket: SessionTicket
        let session: Session
        let lease: RenewalLease
    }

    private func leased(_ store: any SessionStore, _ number: Int = 0) async throws -> Leased {
        let (ticket, session) = try await store.create(Sample.new(number), now: start)
        let lease = try #require(try await store.lease(session.key, for: leaseTime, now: start).lease)
        return Leased(ticket: ticket, session: session, lease: lease)
    }

    private func save(
        _ renewal: SessionRenewal, _ leased: Leased, over session: Session? = nil, under lease: RenewalLease? = nil,
        in store: any SessionStore, at now: Timestamp? = nil
    ) async throws -> SaveAttempt {
        try await store.save(
            renewal, ticket: leased.ticket, over: session ?? leased.session, under: lease ?? leased.lease,
            now: now ?? start)
    }

    private func newTokens(_ number: Int, at now: Timestamp) -> SessionRenewal {
        SessionRenewal(tokens: Sample.tokens(number, obtainedAt: now))
    }

    @Test("keeps new tokens, one version on, and everything else as it was", arguments: StoreUnderTest.all)
    func saves(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store, 4)
            let now = start + .seconds(5)
            let saved = try #require(try await save(newTokens(5, at: now), leased, in: store, at: now).session)
            let found = try #require(try await store.look(leased.ticket, at: now).session)
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

    @Test("Rule 25: shows a user that has changed, and leaves the tokens", arguments: StoreUnderTest.all)
    func savesUser(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store, 4)
            let json = Array(#"{"id":4,"name":"new"}"#.utf8)
            _ = try await save(SessionRenewal(userJSON: json), leased, in: store)
            let found = try #require(try await store.look(leased.ticket, at: start).session)
            #expect(found.user == UserProfile(json: json, account: Sample.account(4)))
            #expect(found.tokens == Sample.tokens(4))
        }
    }

    @Test("gives one lease at a time, and the next one once it is given back", arguments: StoreUnderTest.all)
    func leasesExcludeEachOther(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            let other = try await store.create(Sample.new(1), now: start).1
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .taken)
            #expect(try await store.lease(other.key, for: leaseTime, now: start).lease != nil)
            await store.release(leased.lease, of: leased.session.key)
            let next = try #require(try await store.lease(leased.session.key, for: leaseTime, now: start).lease)
            #expect(next.fence > leased.lease.fence)
            // Giving back what is not the latest any more changes nothing.
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .taken)
        }
    }

    @Test("gives one lease to a hundred who ask at once", arguments: StoreUnderTest.all)
    func oneHolder(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let (_, session) = try await store.create(Sample.new(), now: start)
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
        "lets a lease run out; a late save under it is refused once there is another",
        arguments: StoreUnderTest.followingGivenTime)
    func lateSave(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            #expect(
                try await store.lease(leased.session.key, for: leaseTime, now: start + .milliseconds(29_999)) == .taken)
            let later = start + leaseTime
            let next = try #require(try await store.lease(leased.session.key, for: leaseTime, now: later).lease)
            #expect(next.fence > leased.lease.fence)
            #expect(try await save(newTokens(7, at: later), leased, in: store, at: later).isFenced)
            #expect(try await save(newTokens(8, at: later), leased, under: next, in: store, at: later).session != nil)
            #expect(
                try await store.look(leased.ticket, at: later).session?.tokens == Sample.tokens(8, obtainedAt: later))
        }
    }

    @Test("refuses a save under a lease that was given back and taken by another", arguments: StoreUnderTest.all)
    func saveAfterRelease(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            #expect(try await save(newTokens(7, at: start), leased, in: store).isFenced)
            #expect(try await store.look(leased.ticket, at: start).session?.tokens == Sample.tokens())
        }
    }

    @Test("refuses a save over another version than the one at hand", arguments: StoreUnderTest.all)
    func versionConflict(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            let saved = try #require(try await save(newTokens(1, at: start), leased, in: store).session)
            #expect(try await save(newTokens(2, at: start), leased, in: store).isChanged)
            #expect(try await store.look(leased.ticket, at: start).session?.tokens == Sample.tokens(1))
            let again = try await save(newTokens(3, at: start), leased, over: saved, in: store)
            #expect(again.session?.version == 3)
        }
    }

    @Test("has nothing to lease, save or reject once a session has ended", arguments: StoreUnderTest.all)
    func gone(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            _ = try await store.end(leased.ticket, reason: .signedOut, now: start)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start) == .gone)
            #expect(try await save(newTokens(1, at: start), leased, in: store).isGone)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .gone)
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.look(leased.ticket, at: start).reason == .revoked)
            #expect(!kind.counts || store.count == 0)
        }
    }

    @Test("ends a session that was refused, and tells its ticket so", arguments: StoreUnderTest.all)
    func rejects(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            #expect(try await store.look(leased.ticket, at: start).session != nil)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .ended)
            #expect(try await store.look(leased.ticket, at: start).reason == .refreshRejected)
            #expect(try await store.reload(leased.ticket, now: start).reason == .refreshRejected)
            #expect(!kind.counts || store.count == 0)
        }
    }

    @Test("spares a session that was refused with tokens that are not its own any more", arguments: StoreUnderTest.all)
    func rejectsConditionally(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            _ = try await save(newTokens(1, at: start), leased, in: store)
            #expect(try await store.reject(leased.session, under: leased.lease, now: start) == .changed)
            let current = try #require(try await store.reload(leased.ticket, now: start).session)
            await store.release(leased.lease, of: leased.session.key)
            #expect(try await store.lease(leased.session.key, for: leaseTime, now: start).lease != nil)
            #expect(try await store.reject(current, under: leased.lease, now: start) == .changed)
            #expect(try await store.look(leased.ticket, at: start).session?.tokens == Sample.tokens(1))
        }
    }

    @Test(
        "ends a session that cannot be renewed with its access token, after a renewal too",
        arguments: StoreUnderTest.all)
    func endsWithAccessToken(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            var new = Sample.new()
            new.tokens.refreshToken = nil
            let (ticket, session) = try await store.create(new, now: start)
            #expect(session.expiresAt == start + .seconds(600))
            #expect(try await store.look(ticket, at: start + .milliseconds(599_999)).session != nil)
            #expect(try await store.look(ticket, at: start + .seconds(600)).reason == .expiredAbsolute)

            let leased = try await leased(store, 1)
            var last = Sample.tokens(2)
            last.refreshToken = nil
            let saved = try await save(SessionRenewal(tokens: last), leased, in: store).session
            #expect(saved?.expiresAt == start + .seconds(600))
            // The end never moves away again.
            let again = try await save(newTokens(3, at: start), leased, over: saved, in: store).session
            #expect(again?.expiresAt == start + .seconds(600))
            #expect(try await store.look(leased.ticket, at: start + .seconds(600)).reason == .expiredAbsolute)
        }
    }

    @Test("Rule 16: two users who renew at once never swap tokens", arguments: StoreUnderTest.all)
    func neverSwaps(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            var all: [Leased] = []
            for number in 0..<20 { all.append(try await leased(store, number)) }
            let start = start
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, leased) in all.enumerated() {
                    group.addTask {
                        _ = try await store.save(
                            SessionRenewal(tokens: Sample.tokens(1_000 + number)), ticket: leased.ticket,
                            over: leased.session, under: leased.lease, now: start)
                    }
                }
                try await group.waitForAll()
            }
            for (number, leased) in all.enumerated() {
                let session = try #require(try await store.look(leased.ticket, at: start).session)
                #expect(session.tokens == Sample.tokens(1_000 + number))
                #expect(session.user == Sample.user(number))
            }
        }
    }

    @Test("does not take renewing for a use", arguments: StoreUnderTest.all)
    func renewingIsNoUse(kind: StoreUnderTest) async throws {
        try await kind.run { store in
            let leased = try await leased(store)
            let now = start + .seconds(20)
            _ = try await save(newTokens(1, at: now), leased, in: store, at: now)
            #expect(try await store.look(leased.ticket, at: now, slides: false).session?.lastUsedAt == start)
            #expect(try await store.look(leased.ticket, at: start + .seconds(900)).reason == .expiredIdle)
        }
    }
}
