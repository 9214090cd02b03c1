import CloakroomCore
import NIOCore
import Synchronization

/// Limit of connections per client, over all listeners and event loops.
final class PerClientConnectionLimit: Sendable {
    private let limit: Int
    private let exempt: [CIDRBlock]
    private let counts = Mutex<[ClientAddressKey: Int]>([:])

    /// - Parameters:
    ///   - limit: Maximum number per client; 0 means unlimited.
    ///   - exempt: Addresses without a limit.
    init(_ limit: Int, exempt: [CIDRBlock]) {
        self.limit = limit
        self.exempt = exempt
    }

    /// Counts a connection until it is closed.
    /// - Parameter address: The client's address. A value that is not an IP address is not counted.
    /// - Returns: Whether the limit allows the connection.
    func acquire(_ address: String, until closed: EventLoopFuture<Void>) -> Bool {
        guard limit > 0, let block = ClientAddressKey(address), !exempt.contains(where: { $0.contains(address) }) else {
            return true
        }
        let hasEntered = counts.withLock { counts in
            guard counts[block, default: 0] < limit else { return false }
            counts[block, default: 0] += 1
            return true
        }
        if hasEntered { closed.whenComplete { _ in self.release(block) } }
        return hasEntered
    }

    /// Number of clients with connections.
    var clients: Int { counts.withLock { $0.count } }

    private func release(_ block: ClientAddressKey) {
        counts.withLock { counts in
            guard let count = counts[block] else { return }
            counts[block] = count > 1 ? count - 1 : nil
        }
    }
}
