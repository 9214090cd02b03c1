import CloakroomCore
import CloakroomIdentity
import Synchronization
import TestSupport
import Testing

@Suite("Revoking tokens in the background", .timeLimit(.minutes(1)))
struct TokenRevocationsTests {
    /// A client whose revocations wait until the test releases them.
    private final class SlowClient: TokenClient {
        private struct State {
            var running = 0
            var most = 0
            var revoked: [Secret?] = []
            var waiting: [CheckedContinuation<Void, Never>] = []
            var isOpen = false
        }

        private let state = Mutex(State())
        var most: Int { state.withLock { $0.most } }
        var running: Int { state.withLock { $0.running } }
        var revoked: [Secret?] { state.withLock { $0.revoked } }

        func open() {
            let waiting = state.withLock { state in
                state.isOpen = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for one in waiting { one.resume() }
        }

        func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    state.running += 1
                    state.most = max(state.most, state.running)
                    if !state.isOpen { state.waiting.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
            state.withLock { state in
                state.running -= 1
                state.revoked.append(tokens.refreshToken)
            }
        }
    }

    private let client = SlowClient()
    private let observer = RecordingObserver()

    private func ended(_ number: UInt64) -> EndedSession {
        let signedIn = AccountControllerFixture.signedIn("\(number)")
        let session = Session(
            key: SessionKey(number, 0, 0, 0), user: signedIn.user, tokens: signedIn.tokens,
            createdAt: AccountControllerFixture.now, expiresAt: AccountControllerFixture.now + .seconds(60),
            lastUsedAt: AccountControllerFixture.now)
        return EndedSession(id: session.id, opened: session)
    }

    @Test("Rule 40: runs with limited concurrency and a bounded queue; overflow is reported, and no caller waits")
    func bounds() async {
        let revocations = TokenRevocations(
            clients: TokenClients(signIn: (.unknown, client)), observer: observer, maxConcurrent: 2, maxQueued: 5)
        expect(revocations.revoke((0..<8).map(ended)), equals: .revoking)
        await until { client.running == 2 }
        expect(observer.all, equals: (5..<8).map { .revokeFailed(SessionID($0)) })
        client.open()
        await revocations.finish(within: .seconds(30))
        expect(client.most, equals: 2)
        expect(Set(client.revoked), equals: Set((0..<5).map { Secret("canary-refresh-\($0)") }))
    }

    @Test("Rule 40: shuts down in bounded time despite a call without a response, and accepts nothing afterwards")
    func finish() async {
        let revocations = TokenRevocations(clients: TokenClients(signIn: (.unknown, client)), observer: observer)
        _ = revocations.revoke([ended(1)])
        await until { client.running == 1 }
        await revocations.finish(within: .milliseconds(20))
        _ = revocations.revoke([ended(2)])
        expect(observer.all, equals: [.revokeFailed(SessionID(2))])
        client.open()
    }

    @Test("Rule 40: processes the pending revocations at a reload, and accepts nothing afterwards")
    func drain() async {
        let revocations = TokenRevocations(
            clients: TokenClients(signIn: (.unknown, client)), observer: observer, maxConcurrent: 2, maxQueued: 100)
        _ = revocations.revoke((0..<100).map(ended))
        await until { client.running == 2 }
        async let drained: Void = revocations.drain(within: .seconds(30))
        client.open()
        await drained
        expect(client.revoked.count, equals: 100)
        _ = revocations.revoke([ended(100)])
        expect(observer.all, equals: [.revokeFailed(SessionID(100))])
    }

    @Test("Rule 40: a stop ends the wait for revocations pending at a reload")
    func cancelledDrain() async {
        let revocations = TokenRevocations(clients: TokenClients(signIn: (.unknown, client)), observer: observer)
        _ = revocations.revoke([ended(1)])
        await until { client.running == 1 }
        let start = ContinuousClock.now
        let drain = Task { await revocations.drain(within: .seconds(30)) }
        drain.cancel()
        await drain.value
        #expect(ContinuousClock.now - start < .seconds(10))
        client.open()
    }

    @Test("Rule 40: if one of several sessions cannot be opened, none is reported as revoked")
    func mixed() {
        let revocations = TokenRevocations(clients: TokenClients(signIn: (.unknown, client)), observer: observer)
        expect(revocations.revoke([ended(1), EndedSession(id: SessionID(2), opened: nil)]), equals: .notRevokedSealed)
        client.open()
    }
}
