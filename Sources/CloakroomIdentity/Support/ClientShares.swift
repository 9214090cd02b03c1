import CloakroomCore
import Synchronization

/// Counts the places that clients hold of a limited number. Each has a share, which is smaller the fewer are free and the more
/// clients hold some: the free places divided by these clients and one that may come.
///
/// So clients that all take what they can get leave half of the places free. If they do that one after the other, the first one
/// gets a third, and 77 of them hold 1,000.
final class ClientShares: Sendable {
    /// The maximum number of requests that wait for the same.
    static let maxWaiting = 1_000

    private struct State {
        var count = 0
        /// By the hash of an IPv4 address, or of the /48 of an IPv6 address, which is one client.
        var counts: [UInt64: Int] = [:]
        /// By the hash of the /64 of an IPv6 address, which has half of the share of its /48.
        var countsOf64: [UInt64: Int] = [:]

        func hasRoom(for client: RateKey, of limit: Int) -> Bool {
            let held = counts[client.network, default: 0]
            let clients = counts.count + (held == 0 ? 1 : 0)
            // Rounded up, so that a client without a place gets one while there is one.
            let share = (limit - count + clients) / (clients + 1)
            return held < share && (client.block == 0 || countsOf64[client.value, default: 0] < (share + 1) / 2)
        }

        mutating func change(_ change: Int, _ client: RateKey) {
            func apply(_ counts: inout [UInt64: Int], _ key: UInt64) {
                let held = counts[key, default: 0] + change
                counts[key] = held == 0 ? nil : held
            }
            count += change
            apply(&counts, client.network)
            if client.block != 0 { apply(&countsOf64, client.value) }
        }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: The number of places.
    init(_ limit: Int = maxWaiting) { self.limit = limit }

    /// How many places a client holds; with an IPv6 address, all of its /48.
    subscript(client: RateKey) -> Int { state.withLock { $0.counts[client.network, default: 0] } }

    var count: Int { state.withLock { $0.count } }

    func hasRoom(for client: RateKey) -> Bool { state.withLock { $0.hasRoom(for: client, of: limit) } }

    /// - Returns: Whether the client has got a place.
    func take(_ client: RateKey) -> Bool {
        state.withLock { state in
            guard state.hasRoom(for: client, of: limit) else { return false }
            state.change(1, client)
            return true
        }
    }

    /// - Precondition: The client holds a place.
    func release(_ client: RateKey) { state.withLock { $0.change(-1, client) } }
}

extension RateKey {
    /// The hash of an IPv4 address, or of the /48 of an IPv6 address.
    var network: UInt64 { block == 0 ? value : block }
}
