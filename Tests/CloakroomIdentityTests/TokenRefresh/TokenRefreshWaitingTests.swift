import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("Waiting for a token refresh", .timeLimit(.minutes(1)))
struct TokenRefreshWaitingTests {
    private let test = RefresherFixture()

    @Test("200 requests that need the same tokens refreshed cause one refresh, and all get its tokens")
    func singleFlight() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let authorizations = await withTaskGroup(of: Secret?.self) { group in
            for index in 0..<200 {
                let cause = index.isMultiple(of: 2) ? RefreshTrigger.expired : .rejected
                group.addTask { await test.refresh(session, ticket, cause: cause).session?.authorization }
            }
            await until { test.refresher.waiterCount == 200 }
            test.client.letGo()
            return await group.reduce(into: []) { $0.append($1) }
        }
        expect(authorizations, equals: Array(repeating: Secret("Bearer canary-renewed-1"), count: 200))
        expect(test.client.refreshed, equals: [Secret("canary-refresh-1")])
        expect(test.refresher.waiterCount, equals: 0)
        await test.settle()
        expect(test.results, equals: [.success])
    }

    @Test("The request that starts a refresh has the time of its call, one that joins has the time of its wait")
    func identityTime() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let times = [IdentityCallTime(), IdentityCallTime()]
        let tasks = try await withThrowingTaskGroup(of: Void.self, returning: [UInt64].self) { group in
            for (index, time) in times.enumerated() {
                group.addTask {
                    _ = await IdentityCallTime.$current.withValue(time) { await test.refresh(session, ticket) }
                }
                await until { test.refresher.waiterCount == index + 1 && test.client.refreshed.count == 1 }
            }
            // The joined request waits for at least this long.
            try await Task.sleep(for: .milliseconds(5))
            test.client.letGo()
            try await group.waitForAll()
            return times.map(\.nanoseconds)
        }
        expect(tasks[0], equals: 1)
        #expect(tasks[1] >= 5_000_000)
        await test.settle()
    }

    @Test("all waiting requests get a definite rejection")
    func rejected() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        test.client.fail(.rejected)
        let reasons = await withTaskGroup(of: UnauthorizedReason?.self) { group in
            for _ in 0..<20 { group.addTask { await test.refresh(session, ticket).endReason } }
            await until { test.refresher.waiterCount == 20 }
            test.client.letGo()
            return await group.reduce(into: []) { $0.append($1) }
        }
        expect(reasons, equals: Array(repeating: .refreshRejected, count: 20))
        expect(test.client.refreshed.count, equals: 1)
    }

    @Test("a cancelled request does not stop the refresh, even if it started it")
    func cancellation() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let first = Task { await test.refresh(session, ticket) }
        await until { test.client.refreshed.count == 1 }
        let second = Task { await test.refresh(session, ticket) }
        await until { test.refresher.waiterCount == 2 }
        first.cancel()
        await expect(first.value.unavailable, equals: [503, 1])
        expect(test.refresher.waiterCount, equals: 1)
        test.client.letGo()
        await expect(second.value.session?.authorization, equals: Secret("Bearer canary-renewed-1"))
        await test.settle()
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
    }

    @Test("tokens that no request waits for any more are saved all the same")
    func everybodyGone() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let only = Task { await test.refresh(session, ticket) }
        await until { test.client.refreshed.count == 1 }
        only.cancel()
        _ = await only.value
        test.client.letGo()
        await test.settle()
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
    }

    @Test("a request that was cancelled before its call starts no refresh")
    func cancelledBefore() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let never = Task {
            await until { Task.isCancelled }
            return await test.refresh(session, ticket)
        }
        never.cancel()
        await expect(never.value.unavailable, equals: [503, 1])
        expect(test.refresher.inFlightCount, equals: 0)
    }

    @Test("is bounded per session and for the process")
    func bounds() async throws {
        let test = RefresherFixture(bounds: RefreshLimits(waiters: 5, waitersPerSession: 3))
        let (ticket, session) = try await test.session("1")
        let (otherTicket, other) = try await test.session("2")
        test.client.hold()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<3 { group.addTask { await test.refresh(session, ticket).session != nil } }
            await until { test.refresher.waiterCount == 3 }
            await expect(test.refresh(session, ticket).unavailable, equals: [503, 1])
            for _ in 0..<2 { group.addTask { await test.refresh(other, otherTicket).session != nil } }
            await until { test.refresher.waiterCount == 5 }
            await expect(test.refresh(other, otherTicket).unavailable, equals: [503, 1])
            test.client.letGo()
            for await isLive in group { expect(isLive) }
        }
        expect(test.refresher.waiterCount, equals: 0)
    }

    @Test("is bounded by the number of concurrent refreshes")
    func flights() async throws {
        let test = RefresherFixture(bounds: RefreshLimits(concurrentRefreshes: 1))
        let (ticket, session) = try await test.session("1")
        let (otherTicket, other) = try await test.session("2")
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        test.refresher.refreshInBackground(other, ticket: otherTicket)
        expect(test.refresher.inFlightCount, equals: 1)
        await expect(test.refresh(other, otherTicket).unavailable, equals: [503, 1])
        test.client.letGo()
        await test.settle()
        await expect(test.refresh(other, otherTicket).session != nil)
    }

    @Test("takes at most the wait limit; the refresh continues and its tokens are saved")
    func timeLimit() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let waiting = Task { await test.refresh(session, ticket) }
        await until { test.client.refreshed.count == 1 && test.time.sleeperCount == 1 }
        test.time.advance(by: RefresherFixture.limits.leaseWait)
        await expect(waiting.value.unavailable, equals: [503, 1])
        expect(test.refresher.inFlightCount, equals: 1)
        test.client.letGo()
        await test.settle()
        expect(test.client.refreshed.count, equals: 1)
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
    }

    @Test("includes fetching the user's data: until then nothing uses the new tokens, which may be of another user")
    func includesTheUser() async throws {
        let (ticket, session) = try await test.session()
        let hold = RotatingClient()
        hold.hold()
        test.client.onUser { _ = try? await hold.refresh(session, traceparent: nil, now: session.createdAt.wallTime) }
        let waiting = Task { await test.refresh(session, ticket) }
        await until { hold.refreshed.count == 1 }
        expect(test.kept(ticket)?.authorization, equals: session.authorization)
        test.refresher.refreshInBackground(session, ticket: ticket)
        expect(test.refresher.inFlightCount == 1 && test.client.refreshed.count == 1)
        expect(test.refresher.waiterCount, equals: 1)
        hold.letGo()
        await expect(waiting.value.session?.authorization, equals: Secret("Bearer canary-renewed-1"))
        await test.settle()
    }

    @Test("a request with newer tokens than those being refreshed gets a refresh of its own")
    func aboutOlderTokens() async throws {
        let (ticket, session) = try await test.session()
        let newer = try await require(test.refresh(session, ticket).session)
        await test.settle()
        test.store.becomeRemote()
        // The lease delays a refresh that will find out that another replica has already refreshed the tokens.
        guard
            case .acquired(let lease) = try await test.store.lease(
                session.key, for: .seconds(9), now: test.time.sessionTime)
        else {
            Issue.record("the lease was not acquired")
            return
        }
        test.refresher.refreshInBackground(session, ticket: ticket)
        await until { test.time.sleeperCount == 2 }
        let rejected = Task { await test.refresh(newer, ticket, cause: .rejected) }
        await until { test.refresher.waiterCount == 1 }
        await test.store.release(lease, of: session.key)
        test.time.advance(by: .milliseconds(50))
        await expect(rejected.value.session?.authorization, equals: Secret("Bearer canary-renewed-2"))
        await test.settle()
        expect(test.results, equals: [.success, .coalesced, .success])
    }
}
