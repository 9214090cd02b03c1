import CloakroomCore

/// The pushed requests of logins at one provider (RFC 9126), or its introspections of the tokens of clients (RFC 7662).
///
/// Any client can begin a login or present a token, and the connections also serve the sign-outs, exchanges and key
/// fetches of signed-in users, so the number of these calls in flight is limited. Each client has a share of it, so that
/// one client does not keep others from signing in. Further calls wait for a short time. A place that becomes free goes to
/// the client with the fewest calls in flight, and of those with equally many to the one whose turn was longest ago.
actor PushQueue {
    /// The maximum number of requests in flight.
    static let maxInFlight = 32
    private static let maxWait = Duration.seconds(2)

    private typealias Waiter = (id: UInt64, continuation: CheckedContinuation<Bool, Never>)

    nonisolated let inFlight = ClientShares(maxInFlight)
    nonisolated let waiting = ClientShares()
    /// The requests of each client that wait, in the order in which they began. The clients are in the order of their turns.
    private var queues: [(client: RateKey, waiters: [Waiter])] = []
    private var waiterCount: UInt64 = 0
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameter sleep: Waits for a duration; throws when its task is cancelled.
    init(sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }) {
        self.sleep = sleep
    }

    /// Makes a call of a client when there is a place for it.
    /// - Throws: `unreachable` if there is none in time, and the errors of the call.
    nonisolated func run<Value: Sendable>(
        _ operation: TokenClientError.Operation, from client: RateKey,
        _ call: () async throws(TokenClientError) -> Value
    ) async throws(TokenClientError) -> Value {
        guard await enter(client) else { throw TokenClientError(.unreachable, in: operation) }
        do throws(TokenClientError) {
            let value = try await call()
            await leave(client)
            return value
        } catch {
            await leave(client)
            throw error
        }
    }

    /// Waits for a place.
    /// - Returns: Whether the request may be sent; ``leave(_:)`` is to be called after it then.
    func enter(_ client: RateKey) async -> Bool {
        if inFlight.take(client) { return true }
        guard waiting.take(client) else { return false }
        waiterCount += 1
        let id = waiterCount
        let timer = Task {
            if (try? await sleep(Self.maxWait)) != nil { giveUp(id, of: client) }
        }
        defer { timer.cancel() }
        return await withCheckedContinuation { continuation in
            let queue = queues.firstIndex { $0.client == client } ?? queues.endIndex
            if queue == queues.endIndex { queues.append((client, [])) }
            queues[queue].waiters.append((id, continuation))
        }
    }

    /// A request has ended.
    func leave(_ client: RateKey) {
        inFlight.release(client)
        while let next = queues.indices.filter({ inFlight.hasRoom(for: queues[$0].client) })
            .min(by: { inFlight[queues[$0].client] < inFlight[queues[$1].client] })
        {
            _ = inFlight.take(queues[next].client)
            queues.append(queues.remove(at: next))
            remove(0, of: queues.endIndex - 1).resume(returning: true)
        }
    }

    private func giveUp(_ id: UInt64, of client: RateKey) {
        guard let queue = queues.firstIndex(where: { $0.client == client }),
            let index = queues[queue].waiters.firstIndex(where: { $0.id == id })
        else { return }
        let waiter = remove(index, of: queue)
        // Its other requests have no earlier turn than those that have come since: otherwise a client that repeats its
        // requests would stay in front of all others.
        if queue < queues.endIndex, queues[queue].client == client { queues.append(queues.remove(at: queue)) }
        waiter.resume(returning: false)
    }

    private func remove(_ index: Int, of queue: Int) -> CheckedContinuation<Bool, Never> {
        let waiter = queues[queue].waiters.remove(at: index)
        waiting.release(queues[queue].client)
        if queues[queue].waiters.isEmpty { queues.remove(at: queue) }
        return waiter.continuation
    }
}
