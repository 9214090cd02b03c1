import CloakroomCore

/// A limited number of places for work that any client can cause: calls to a provider, or checks of what clients send.
///
/// Each client has a share of the places, so that one client does not keep others from signing in. Further work waits for a
/// short time. A place that becomes free goes to the client with the fewest, and of those with equally many to the one whose
/// turn was longest ago: behind the work of others, however much it is, a client waits for one piece of each of them.
actor ClientQueue {
    /// The maximum number of calls in flight at one provider that log in, or that ask about the tokens of clients. The
    /// connections also serve the sign-outs, exchanges and key fetches of signed-in users.
    static let maxCalls = 32
    private static let maxWait = Duration.seconds(2)

    private typealias Waiter = (id: UInt64, continuation: CheckedContinuation<Bool, Never>)

    private let places: Int
    nonisolated let inFlight: ClientShares
    nonisolated let waiting = ClientShares()
    /// The requests of each client that wait, in the order in which they began. The clients are in the order of their turns.
    private var queues: [(client: RateKey, waiters: [Waiter])] = []
    private var waiterCount: UInt64 = 0
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameters:
    ///   - places: With 1, the work keeps one thread busy at most.
    ///   - sleep: Waits for a duration; throws when its task is cancelled.
    init(
        _ places: Int, sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        (self.places, self.sleep) = (places, sleep)
        inFlight = ClientShares(places)
    }

    /// Does the work of a client when there is a place for it.
    /// - Returns: `nil` if there is none in time.
    nonisolated func run<Value: Sendable, Failure: Error>(
        from client: RateKey, _ work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value? {
        guard await enter(client) else { return nil }
        do throws(Failure) {
            let value = try await work()
            await leave(client)
            return value
        } catch {
            await leave(client)
            throw error
        }
    }

    /// Waits for a place.
    /// - Returns: Whether there is one; ``leave(_:)`` is to be called after the work then.
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

    /// The work of a client has ended.
    func leave(_ client: RateKey) {
        inFlight.release(client)
        while inFlight.count < places, let next {
            let queue = queues.remove(at: next)
            _ = inFlight.take(queue.client)
            if queue.client.block != 0 {
                // All of the /48 of an IPv6 address have had the turn, which costs as little as an IPv4 address.
                let isSame = queues.map { $0.client.block == queue.client.block }
                queues = zip(queues, isSame).filter { !$1 }.map(\.0) + zip(queues, isSame).filter(\.1).map(\.0)
            }
            queues.append(queue)
            remove(0, of: queues.endIndex - 1).resume(returning: true)
        }
    }

    /// The client whose turn it is.
    private var next: Int? {
        var (next, fewest) = (Int?.none, Int.max)
        for index in queues.indices where fewest > 0 && inFlight.hasRoom(for: queues[index].client) {
            let count = inFlight[queues[index].client]
            if count < fewest { (next, fewest) = (index, count) }
        }
        return next
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
