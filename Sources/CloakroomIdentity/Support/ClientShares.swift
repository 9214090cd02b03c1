import CloakroomCore
import Synchronization

/// Counts the places that clients hold of a limited number. Each has a share.
///
/// A client that holds as many places as are free gets no other. So the share is smaller the more clients there are: of 1,000
/// places, sixteen that take all they can get, one after the other, hold all. Places are given back soon.
final class ClientShares: Sendable {
    /// The maximum number of requests that wait for the same, of all clients and of one.
    static let maxWaiting = 1_000
    static let maxWaitingOfClient = 100

    private struct State {
        var count = 0
        /// By the hash of an address, and by that of the /48 of an IPv6 address.
        var counts: [UInt64: Int] = [:]

        mutating func change(_ change: Int, _ client: RateKey) {
            count += change
            for key in [client.value, client.block] where key != 0 {
                let held = counts[key, default: 0] + change
                counts[key] = held == 0 ? nil : held
            }
        }
    }

    private let limit: Int
    private let limitOfClient: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: The maximum number of all clients.
    ///   - limitOfClient: That of one address. A /48 has four times that.
    init(_ limit: Int = maxWaiting, ofClient limitOfClient: Int = maxWaitingOfClient) {
        (self.limit, self.limitOfClient) = (limit, limitOfClient)
    }

    /// How many places a client holds; with an IPv6 address, all of its /48.
    subscript(client: RateKey) -> Int {
        state.withLock { $0.counts[client.block == 0 ? client.value : client.block, default: 0] }
    }

    var count: Int { state.withLock { $0.count } }

    func hasRoom(for client: RateKey) -> Bool { state.withLock { hasRoom(for: client, $0) } }

    private func hasRoom(for client: RateKey, _ state: State) -> Bool {
        let free = limit - state.count
        return state.counts[client.value, default: 0] < min(limitOfClient, free)
            && (client.block == 0 || state.counts[client.block, default: 0] < min(4 * limitOfClient, free))
    }

    /// - Returns: Whether the client has got a place.
    func take(_ client: RateKey) -> Bool {
        state.withLock { state in
            guard hasRoom(for: client, state) else { return false }
            state.change(1, client)
            return true
        }
    }

    /// - Precondition: The client holds a place.
    func release(_ client: RateKey) { state.withLock { $0.change(-1, client) } }
}

/// Checks what any client can send, one after the other, so that the checks keep one thread busy at most. Few wait, and
/// fewer of one client, so that none keeps those of others from being checked.
actor CheckLane {
    nonisolated let shares: ClientShares

    init(_ shares: ClientShares) { self.shares = shares }

    /// - Parameter client: `nil` for a check that is counted elsewhere.
    /// - Returns: `nil` if too many wait.
    nonisolated func run<Value: Sendable>(
        from client: RateKey?, _ check: @Sendable () -> Value
    ) async -> Value? {
        guard let client else { return await run(check) }
        guard shares.take(client) else { return nil }
        defer { shares.release(client) }
        return await run(check)
    }

    private func run<Value: Sendable>(_ check: @Sendable () -> Value) -> Value { check() }
}
