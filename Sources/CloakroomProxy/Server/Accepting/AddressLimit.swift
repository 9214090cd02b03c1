import CloakroomCore
import NIOCore
import Synchronization

/// The bound on connections from one client, over all listeners and event loops.
final class AddressLimit: Sendable {
    private let limit: Int
    private let exempt: [AddressRange]
    private let counts = Mutex<[AddressBlock: Int]>([:])

    /// - Parameters:
    ///   - limit: 0 is unlimited.
    ///   - exempt: Addresses that may have any number.
    init(_ limit: Int, exempt: [AddressRange]) {
        self.limit = limit
        self.exempt = exempt
    }

    /// Takes a place for a connection until it is closed.
    /// - Parameter address: The client's. What is no IP address is not counted.
    /// - Returns: Whether there was one.
    func enter(_ address: String, until closed: EventLoopFuture<Void>) -> Bool {
        guard limit > 0, let block = AddressBlock(address), !exempt.contains(where: { $0.contains(address) }) else {
            return true
        }
        let hasEntered = counts.withLock { counts in
            guard counts[block, default: 0] < limit else { return false }
            counts[block, default: 0] += 1
            return true
        }
        if hasEntered { closed.whenComplete { _ in self.leave(block) } }
        return hasEntered
    }

    /// How many clients have connections.
    var clients: Int { counts.withLock { $0.count } }

    private func leave(_ block: AddressBlock) {
        counts.withLock { counts in
            guard let count = counts[block] else { return }
            counts[block] = count > 1 ? count - 1 : nil
        }
    }
}
