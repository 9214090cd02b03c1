public import CloakroomCore
import DequeModule
import Synchronization

/// Revokes the tokens of ended sessions upstream, in the background: no response waits for it.
///
/// The number of concurrent calls and the queue are bounded. A revocation that does not fit into the queue, or fails,
/// is one ``AccountEvent/revokeFailed(_:)``. Nothing is retried: the sessions have ended in any case and their tokens
/// expire by themselves.
public final class TokenRevocations: Sendable, Unprintable {
    private struct Revocation: Sendable {
        let client: any TokenClient
        let id: SessionID
        let tokens: TokenSet
    }

    private struct State {
        var waiting: Deque<Revocation> = []
        var running = 0
        var isStopped = false
        var observers: [AsyncStream<Void>.Continuation] = []
    }

    private let clients: TokenClients
    private let observer: any AccountObserver
    private let maxConcurrent: Int
    private let maxQueued: Int
    private let state = Mutex(State())

    /// Creates an empty queue.
    /// - Parameters:
    ///   - clients: The client of each source of sessions.
    ///   - maxConcurrent: The maximum number of concurrent calls.
    ///   - maxQueued: The maximum number of queued sessions.
    public init(
        clients: TokenClients, observer: any AccountObserver, maxConcurrent: Int = 4, maxQueued: Int = 10_000
    ) {
        self.clients = clients
        self.observer = observer
        self.maxConcurrent = max(1, maxConcurrent)
        self.maxQueued = max(1, maxQueued)
    }

    /// Queues the tokens of ended sessions for revocation, if the tokens are available. Never waits.
    /// - Returns: The state of the tokens for the audit line.
    public func revoke(_ ended: [EndedSession]) -> AccountEvent.EndedTokens {
        let opened = ended.compactMap(\.opened)
        guard opened.count == ended.count else { return .notRevokedSealed }
        let revocations = opened.compactMap { session in
            clients[session.source].map { Revocation(client: $0, id: session.id, tokens: session.tokens) }
        }
        guard !revocations.isEmpty || opened.isEmpty else { return .notRevokedSourceRemoved }
        let left = submit(revocations)
        for revocation in left { observer.accountEvent(.revokeFailed(revocation.id), from: AuditContext()) }
        return .revoking
    }

    /// Accepts no more revocations and waits for the pending ones, at most for the given time.
    public func finish(within bound: Duration) async {
        let over = stop()
        // Runs in an unstructured task, which is not cancelled with the caller.
        await Task { await over.end(within: bound) }.value
    }

    /// Like ``finish(within:)``, but returns at once when its task is cancelled.
    public func drain(within bound: Duration) async {
        await stop().end(within: bound)
    }

    /// Accepts no more revocations.
    /// - Returns: A stream that ends when all revocations are done.
    private func stop() -> AsyncStream<Void> {
        state.withLock { state in
            state.isStopped = true
            let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
            if state.running == 0 { continuation.finish() } else { state.observers.append(continuation) }
            return stream
        }
    }

    /// - Returns: The revocations that do not fit into the queue.
    private func submit(_ revocations: [Revocation]) -> [Revocation] {
        let (left, started) = state.withLock { state in
            let room = state.isStopped ? 0 : maxQueued - state.waiting.count
            state.waiting += revocations.prefix(room)
            let started = min(maxConcurrent - state.running, state.waiting.count)
            state.running += started
            return (Array(revocations.dropFirst(room)), started)
        }
        for _ in 0..<started { Task { await work() } }
        return left
    }

    private func work() async {
        while let next = next() {
            do {
                try await next.client.revoke(next.tokens, traceparent: nil)
            } catch {
                observer.accountEvent(.revokeFailed(next.id), from: AuditContext())
            }
        }
    }

    private func next() -> Revocation? {
        state.withLock { state in
            if let next = state.waiting.popFirst() { return next }
            state.running -= 1
            if state.running == 0 {
                for observer in state.observers { observer.finish() }
                state.observers = []
            }
            return nil
        }
    }
}
