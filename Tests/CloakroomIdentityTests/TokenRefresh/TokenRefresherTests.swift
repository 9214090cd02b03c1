import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("Refreshing a session's tokens", .timeLimit(.minutes(1)))
struct TokenRefresherTests {
    private let test = RefresherFixture()

    @Test("uses the refresh token, saves the new tokens, and returns the session with them")
    func refreshes() async throws {
        let (ticket, session) = try await test.session()
        let refreshed = try await require(test.refresh(session, ticket).session)
        await test.settle()
        expect(refreshed.authorization, equals: Secret("Bearer canary-renewed-1"))
        expect(refreshed.tokens.refreshToken, equals: Secret("canary-successor-1"))
        expect(refreshed.version, equals: session.version + 1)
        expect(test.kept(ticket)?.authorization, equals: refreshed.authorization)
        expect(test.client.refreshed, equals: [Secret("canary-refresh-1")])
        expect(test.client.traceparents, equals: ["00-a-b-01", "00-a-b-01"])
        expect(test.results, equals: [.success])
        // The lease is released: no replica has to wait for its expiry.
        let lease = try await test.store.lease(session.key, for: .seconds(1), now: test.time.sessionTime)
        expect(lease, equals: .acquired(RefreshLease(fence: 2)))
    }

    @Test("runs in the background while requests continue, and only once at a time")
    func refreshSoon() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        for _ in 0..<100 { test.refresher.refreshInBackground(session, ticket: ticket) }
        expect(test.refresher.inFlightCount, equals: 1)
        await until { test.client.refreshed.count == 1 }
        test.client.letGo()
        await test.settle()
        expect(test.client.refreshed.count, equals: 1)
        expect(test.client.traceparents, equals: [nil, nil])
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
    }

    @Test("is not repeated for a request that still has the previous tokens", arguments: [false, true])
    func stale(isRemote: Bool) async throws {
        let (ticket, session) = try await test.session()
        _ = await test.refresh(session, ticket)
        await test.settle()
        if isRemote { test.store.becomeRemote() }
        let again = await test.refresh(session, ticket, cause: .rejected).session
        await test.settle()
        expect(again?.authorization, equals: Secret("Bearer canary-renewed-1"))
        expect(test.client.refreshed.count, equals: 1)
        expect(test.results, equals: (isRemote ? [.success, .coalesced] : [.success]))
    }

    @Test("ends the session on a definite rejection by the upstream, and no other session")
    func rejected() async throws {
        let (ticket, session) = try await test.session("1")
        let (otherTicket, other) = try await test.session("2")
        test.client.fail(.rejected)
        await expect(test.refresh(session, ticket).endReason, equals: .refreshRejected)
        await expect(test.refresh(other, otherTicket).session != nil)
        await test.settle()
        expect(test.kept(ticket) == nil && test.kept(otherTicket) != nil)
        expect(test.results, equals: [.rejected, .success])
        await expect(test.refresh(session, ticket).endReason, equals: .refreshRejected)
        expect(test.client.refreshed.count, equals: 2)
    }

    @Test(
        "ends no session if the upstream cannot refresh temporarily",
        arguments: [(.unreachable, 502), (.invalidResponse, 502), (.busy, 502), (.timedOut, 504)]
            as [(TokenClientError.Kind, Int)])
    func transient(kind: TokenClientError.Kind, status: Int) async throws {
        let (ticket, session) = try await test.session()
        test.client.fail(kind)
        await expect(test.refresh(session, ticket).unavailable, equals: [status, 1])
        await test.settle()
        expect(test.kept(ticket)?.authorization, equals: session.authorization)
        expect(test.results, equals: [.transient])
        // No request is sent to the upstream during the back-off.
        test.refresher.refreshInBackground(session, ticket: ticket)
        expect(test.refresher.inFlightCount, equals: 0)
        await expect(test.refresh(session, ticket).unavailable, equals: [status, 1])
        expect(test.client.refreshed.count, equals: 1)
        test.time.advance(by: .seconds(1))
        await expect(test.refresh(session, ticket).session != nil)
        expect(test.client.refreshed.count, equals: 2)
    }

    @Test(
        "Rule 36: ends no session if the gateway's own request is rejected: kept, retried, counted and logged",
        arguments: IdentityMisconfiguration.allCases)
    func misconfigured(reason: IdentityMisconfiguration) async throws {
        let (ticket, session) = try await test.session()
        for seconds in [1, 2, 4] {
            test.client.fail(.misconfigured(reason))
            await expect(test.refresh(session, ticket).misconfigured, equals: seconds)
            await test.settle()
            // No request is sent to the upstream before that.
            await expect(test.refresh(session, ticket).misconfigured, equals: seconds)
            test.time.advance(by: .seconds(seconds))
        }
        expect(test.client.refreshed.count, equals: 3)
        expect(test.kept(ticket)?.authorization, equals: session.authorization)
        expect(test.results, equals: [.misconfigured, .misconfigured, .misconfigured])
        expect(test.observer.all.count { $0 == .identityMisconfigured(reason, in: .refresh, of: nil) }, equals: 3)
        await expect(test.refresh(session, ticket).session != nil)
    }

    @Test("backs off longer after each consecutive failure, and reports the delay")
    func coolOff() async throws {
        let (ticket, session) = try await test.session()
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            test.client.fail(.unreachable)
            await expect(test.refresh(session, ticket).unavailable, equals: [502, seconds])
            await test.settle()
            test.time.advance(by: .seconds(seconds))
        }
        await expect(test.refresh(session, ticket).session != nil)
        await test.settle()
        let refreshed = try require(test.kept(ticket))
        test.time.advance(by: .seconds(400))
        test.client.fail(.unreachable)
        await expect(test.refresh(refreshed, ticket).unavailable, equals: [502, 1])
    }

    @Test("backs off per session")
    func coolOffOfOne() async throws {
        let (ticket, session) = try await test.session("1")
        let (otherTicket, other) = try await test.session("2")
        test.client.fail(.unreachable)
        await expect(test.refresh(session, ticket).unavailable != nil)
        await expect(test.refresh(other, otherTicket).session != nil)
    }

    @Test("continues with an access token that is still valid if no other can be obtained")
    func stillGood() async throws {
        let (ticket, session) = try await test.session(life: .seconds(1))
        test.client.fail(.unreachable)
        let outcome = await test.refresh(session, ticket).session
        expect(outcome?.authorization, equals: session.authorization)
        await test.settle()
        // A request whose token was rejected does not continue with it.
        await expect(test.refresh(session, ticket, cause: .rejected).unavailable, equals: [502, 1])
        test.time.advance(by: .seconds(1))
        test.client.fail(.unreachable)
        await expect(test.refresh(session, ticket).unavailable, equals: [502, 2])
    }

    @Test("ends no session if the store is unavailable")
    func storeUnavailable() async throws {
        let (ticket, session) = try await test.session()
        test.store.fail(.lease, .unavailable)
        await expect(test.refresh(session, ticket).storeRetryAfter, equals: 1)
        await test.settle()
        test.store.recover(.lease)
        await expect(test.refresh(session, ticket).storeRetryAfter, equals: 1)
        expect(empty: test.client.refreshed)
        test.time.advance(by: .seconds(1))
        await expect(test.refresh(session, ticket).session != nil)
        expect(test.results, equals: [.transient, .success])
    }

    @Test("saves the new tokens once the store is available again")
    func keepsTrying() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        await until { test.client.refreshed.count == 1 }
        test.store.fail(.save, .unavailable)
        test.client.letGo()
        // One sleep is the limit of the waiting request, the other the pause between two attempts.
        await until { test.time.sleeperCount == 2 }
        test.store.recover(.save)
        test.time.advance(by: .seconds(2))
        await test.settle()
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
        expect(test.client.refreshed.count, equals: 1)
    }

    @Test("is not repeated for an upstream that keeps rejecting fresh tokens")
    func rejectionPause() async throws {
        let (ticket, session) = try await test.session()
        let first = try await require(test.refresh(session, ticket, cause: .rejected).session)
        await test.settle()
        let second = await test.refresh(first, ticket, cause: .rejected).session
        expect(second === first)
        expect(test.client.refreshed.count, equals: 1)
        test.time.advance(by: .seconds(5))
        let third = await test.refresh(first, ticket, cause: .rejected).session
        expect(third?.authorization, equals: Secret("Bearer canary-renewed-2"))
    }

    @Test("runs after each rejection of an expired token, however short its lifetime, and is paused for a fresh one")
    func shortLives() async throws {
        let (ticket, first) = try await test.session()
        var session = first
        test.client.giveLife(.seconds(1))
        for number in 1...6 {
            session = try await require(test.refresh(session, ticket, cause: .rejected).session)
            await test.settle()
            expect(session.authorization, equals: Secret("Bearer canary-renewed-\(number)"))
            test.time.advance(by: .seconds(1))
            // The token's age alone does not require a refresh.
            expect(session.update.urgency(at: test.time.now), equals: .none)
            expect(test.refresher.shouldRefreshAfterRejection(session))
        }
        session = try await require(test.refresh(session, ticket, cause: .rejected).session)
        await test.settle()
        // One further refresh distinguishes revoked tokens from an upstream that rejects fresh ones.
        session = try await require(test.refresh(session, ticket, cause: .rejected).session)
        await test.settle()
        expect(session.authorization, equals: Secret("Bearer canary-renewed-8"))
        expect(!test.refresher.shouldRefreshAfterRejection(session))
        let same = await test.refresh(session, ticket, cause: .rejected).session
        expect(same === session)
        // Until the token expires, which is before the pause ends.
        test.time.advance(by: .seconds(1))
        expect(test.refresher.shouldRefreshAfterRejection(session))
        await expect(test.refresh(session, ticket, cause: .rejected).session?.version, equals: session.version + 1)
    }

    @Test("runs for a rejection shortly after a refresh because of expiry")
    func rejectionAfterExpiry() async throws {
        let (ticket, session) = try await test.session()
        let first = try await require(test.refresh(session, ticket, cause: .expired).session)
        await test.settle()
        let second = await test.refresh(first, ticket, cause: .rejected).session
        expect(second?.authorization, equals: Secret("Bearer canary-renewed-2"))
    }

    @Test("revokes the new tokens if the session was ended meanwhile")
    func endedMeanwhile() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        async let outcome = test.refresh(session, ticket)
        await until { test.client.refreshed.count == 1 }
        _ = try await test.store.end(ticket, reason: .signedOut, now: test.time.sessionTime)
        test.client.letGo()
        await expect(outcome.endReason, equals: .revoked)
        await test.settle()
        expect(test.client.revoked, equals: [Secret("canary-successor-1")])
        expect(empty: test.results)
    }

    @Test("returns no session that has ended by the session clock, whatever the wall clock shows")
    func endedBySessionClock() async throws {
        let (ticket, session) = try await test.session()
        let refreshed = try await require(test.refresh(session, ticket).session)
        await test.settle()
        test.time.advance(by: refreshed.expiresAt - test.time.sessionTime)
        test.time.setBack(by: .seconds(3_600))
        await expect(test.refresh(session, ticket).endReason, equals: .expiredAbsolute)
        expect(test.client.refreshed.count, equals: 1)
    }

    @Test("Rule 17: different sessions with the same name have separate refreshes")
    func keys() async throws {
        let (ticket, session) = try await test.session()
        let key = SessionKey(session.key.word0, 1, 2, 3)
        let twin = Session(
            key: key, user: session.user, tokens: session.tokens, createdAt: session.createdAt,
            expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt)
        expect(twin.id, equals: session.id)
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        test.refresher.refreshInBackground(twin, ticket: ticket)
        expect(test.refresher.inFlightCount, equals: 2)
        test.client.letGo()
        await test.settle()
    }

    @Test("waits for another replica's refresh and uses its result")
    func replicas() async throws {
        let other = TokenRefresher(
            store: test.store, clients: TokenClients(signIn: (.unknown, test.client)), observer: test.observer,
            limits: RefresherFixture.limits, clock: { [time = test.time] in time.now },
            sessionClock: { [time = test.time] in time.sessionTime },
            leaseClock: { [time = test.time] in time.leaseTime },
            sleep: { [time = test.time] in try await time.sleep(for: $0) })
        let (ticket, session) = try await test.session()
        test.client.hold()
        async let first = test.refresh(session, ticket)
        await until { test.client.refreshed.count == 1 }
        async let second = other.refresh(session, ticket: ticket, cause: .expired, traceparent: nil)
        // Two sleeps that limit the waiting, and one pause before the next poll.
        await until { test.time.sleeperCount == 3 }
        test.client.letGo()
        let authorization = await first.session?.authorization
        test.time.advance(by: .milliseconds(50))
        await expect(second.session?.authorization, equals: authorization)
        expect(test.client.refreshed.count, equals: 1)
        await until { other.inFlightCount == 0 }
        expect(test.results.sorted { $0.rawValue < $1.rawValue }, equals: [.coalesced, .success])
    }
}

@Suite("Tokens that cannot be refreshed", .timeLimit(.minutes(1)))
struct UnrenewableTests {
    @Test("are used until the upstream rejects them; then the session ends")
    func noRefreshToken() async throws {
        let test = RefresherFixture()
        let (ticket, session) = try await test.session(refreshToken: false, life: nil)
        let (otherTicket, _) = try await test.session("2")
        test.refresher.refreshInBackground(session, ticket: ticket)
        expect(test.refresher.inFlightCount, equals: 0)
        await expect(test.refresh(session, ticket).session === session)
        await expect(test.refresh(session, ticket, cause: .rejected).endReason, equals: .refreshRejected)
        expect(test.kept(ticket) == nil && test.kept(otherTicket) != nil)
        await expect(test.refresh(session, ticket, cause: .rejected).endReason, equals: .refreshRejected)
        expect(empty: test.client.refreshed)
        expect(test.results, equals: [.rejected])
    }

    @Test("are revoked if the upstream has a revocation endpoint but no refresh endpoint")
    func noCall() async throws {
        let test = RefresherFixture(supportsRefresh: false)
        let (ticket, session) = try await test.session()
        test.refresher.refreshInBackground(session, ticket: ticket)
        expect(test.refresher.inFlightCount, equals: 0)
        await expect(test.refresh(session, ticket).session === session)
        await expect(test.refresh(session, ticket, cause: .rejected).endReason, equals: .refreshRejected)
        expect(test.client.revoked, equals: [Secret("canary-refresh-1")])
        expect(empty: test.client.refreshed)
    }

    @Test("of a session that has ended by the session clock are not rejected, whatever the wall clock shows")
    func endedBySessionClock() async throws {
        let test = RefresherFixture(supportsRefresh: false)
        let (ticket, session) = try await test.session()
        test.time.advance(by: session.expiresAt - test.time.sessionTime)
        test.time.setBack(by: .seconds(3_600))
        await expect(test.refresh(session, ticket, cause: .rejected).endReason, equals: .expiredAbsolute)
        expect(empty: test.results)
    }

    @Test("return the reason for which the session was ended before")
    func endedBefore() async throws {
        let test = RefresherFixture(supportsRefresh: false)
        let (ticket, session) = try await test.session()
        _ = try await test.store.end(ticket, reason: .signedOut, now: test.time.sessionTime)
        await expect(test.refresh(session, ticket, cause: .rejected).endReason, equals: .revoked)
    }

    @Test("end no session if the store is unavailable")
    func storeUnavailable() async throws {
        let test = RefresherFixture(supportsRefresh: false)
        let (ticket, session) = try await test.session()
        test.store.fail(.end, .unavailable)
        await expect(test.refresh(session, ticket, cause: .rejected).storeRetryAfter, equals: 1)
        expect(test.kept(ticket) != nil)
    }
}
