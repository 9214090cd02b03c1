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

/// What counts as one client: an IPv4 address, or the /64 of an IPv6 address, which is the least that one gets.
struct AddressBlock: Hashable, Sendable {
    private let isVersion6: Bool
    private let prefix: UInt64

    /// - Returns: `nil` if it is no IP address.
    init?(_ address: String) {
        guard let bytes = IPAddress.bytes(of: address) else { return nil }
        // An IPv4 address that is mapped into IPv6 is the same client (RFC 4291 §2.5.5.2).
        let isMapped = bytes.count == 16 && bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10...11] == [0xff, 0xff]
        isVersion6 = bytes.count == 16 && !isMapped
        prefix = (isMapped ? bytes.suffix(4) : bytes.prefix(8)).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
