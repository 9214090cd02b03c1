import CloakroomCore
import CloakroomIdentity
import Synchronization
import TestSupport
import Testing

@Suite("Shutting down a token refresher", .timeLimit(.minutes(1)))
struct RefresherShutdownTests {
    private let test = RefresherFixture()

    @Test("waits for a call in flight and for its tokens to be saved")
    func waits() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        await until { test.client.refreshed.count == 1 }
        let run = Task { await test.refresher.run() }
        run.cancel()
        // One timeout of the shutdown, one of the waiting requests.
        await until { test.time.sleeperCount == 2 }
        expect(test.refresher.inFlightCount, equals: 1)
        test.client.letGo()
        await run.value
        expect(test.refresher.inFlightCount, equals: 0)
        expect(test.kept(ticket)?.authorization, equals: Secret("Bearer canary-renewed-1"))
        // Optional steps are skipped.
        expect(test.client.userCalls, equals: 0)
    }

    @Test("gives up after its timeout")
    func givesUp() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        await until { test.client.refreshed.count == 1 }
        let shutdown = Task { await test.refresher.shutdown(within: .seconds(3)) }
        await until { test.time.sleeperCount == 2 }
        test.time.advance(by: .seconds(3))
        await shutdown.value
        expect(test.refresher.inFlightCount, equals: 1)
        test.client.letGo()
        await test.settle()
    }

    @Test("starts no refresh any more, and has nothing to wait for")
    func beginsNothing() async throws {
        let (ticket, session) = try await test.session()
        await test.refresher.shutdown()
        test.refresher.refreshInBackground(session, ticket: ticket)
        expect(test.refresher.inFlightCount, equals: 0)
        await expect(test.refresh(session, ticket).unavailable, equals: [503, 1])
        expect(empty: test.client.refreshed)
        expect(test.time.sleeperCount, equals: 0)
    }

    @Test("does not wait for another replica's refresh, because no tokens would be lost")
    func spendsNothing() async throws {
        let (ticket, session) = try await test.session()
        _ = try await test.store.lease(session.key, for: .seconds(9), now: test.time.sessionTime)
        let waiting = Task { await test.refresh(session, ticket) }
        // The refresh is sleeping before its next attempt.
        await until { test.time.sleeperCount == 2 }
        let shutdown = Task { await test.refresher.shutdown() }
        await until { test.time.sleeperCount == 3 }
        test.time.advance(by: .milliseconds(50))
        await shutdown.value
        await expect(waiting.value.unavailable, equals: [503, 1])
        expect(empty: test.client.refreshed)
        expect(test.kept(ticket)?.authorization, equals: session.authorization)
    }

    @Test("Rule 22: neither a refresher nor its results reveal a token when printed or reflected")
    func canaries() async throws {
        let (ticket, session) = try await test.session()
        let (otherTicket, other) = try await test.session("2")
        test.client.hold()
        test.refresher.refreshInBackground(session, ticket: ticket)
        await until { test.client.refreshed.count == 1 }
        var texts = [text(test.refresher)]
        test.client.fail(.unreachable)
        test.client.letGo()
        await test.settle()
        texts.append(text(await test.refresh(session, ticket)))
        texts.append(text(await test.refresh(other, otherTicket)))
        await test.settle()
        texts += [text(test.refresher), text(test.observer.all)]
        for text in texts {
            expect(!text.contains("canary") && !text.contains(ticket.cookieValue))
            // The bytes of "canary", one per line.
            expect(!text.contains("- 99\n") || !text.contains("- 121\n"))
        }
    }

    private func text(_ value: some Any) -> String {
        var dumped = ""
        dump(value, to: &dumped)
        return "\(value)\n\(String(reflecting: value))\n\(dumped)"
    }
}
