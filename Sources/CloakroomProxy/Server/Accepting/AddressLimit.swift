import CloakroomCore
import NIOCore
import Synchronization

/// The bound on connections from one client, over all listeners and event loops.
final class PerClientConnectionLimit: Sendable {
    private let limit: Int
    private let exempt: [CIDRBlock]
    private let counts = Mutex<[ClientAddressKey: Int]>([:])

    /// - Parameters:
    ///   - limit: 0 is unlimited.
    ///   - exempt: Addresses that may have any number.
    init(_ limit: Int, exempt: [CIDRBlock]) {
        self.limit = limit
        self.exempt = exempt
    }

    /// Takes a place for a connection until it is closed.
    /// - Parameter address: The client's. What is no IP address is not counted.
    /// - Returns: Whether there was one.
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

    /// How many clients have connections.
    var clients: Int { counts.withLock { $0.count } }

    private func release(_ block: ClientAddressKey) {
        counts.withLock { counts in
            guard let count = counts[block] else { return }
            counts[block] = count > 1 ? count - 1 : nil
        }
    }
}
