/// The addresses of a host name that are targets: those of the last DNS responses, of one family.
///
/// An error or an empty response changes nothing, however long it lasts: a resolver that fails is no reason to stop using
/// a target that works. An address that a response no longer includes is used for some more time.
public struct AddressSet: Sendable, Equatable {
    /// The family of an address.
    public enum Family: Sendable, Hashable {
        /// IPv4.
        case version4
        /// IPv6.
        case version6
    }

    /// An IP address.
    public struct Address: Sendable, Hashable {
        /// The usual spelling, without brackets.
        public let text: String
        /// The family.
        public let family: Family

        package init(_ text: String, _ family: Family) {
            self.text = text
            self.family = family
        }
    }

    /// The result of a query.
    public enum Response: Sendable, Equatable {
        /// The addresses, in the order of preference; may be empty.
        case addresses([Address])
        case failed
    }

    private struct Member: Equatable {
        let address: Address
        var seenAt: UInt64
    }

    private let keep: UInt64
    private let capacity: Int
    private var members: [Member] = []
    /// The family of the last connection.
    private var connectedFamily: Family?
    /// When the last response with addresses came; `nil` before the first one.
    public private(set) var respondedAt: UInt64?

    /// - Parameters:
    ///   - keep: How long an address is used after it was last in a response.
    ///   - capacity: Maximum number of addresses, at least 1. Addresses that are used already have priority.
    public init(keep: Duration, capacity: Int = TargetTable.maxCount) {
        self.keep = keep.wholeNanoseconds
        self.capacity = max(capacity, 1)
    }

    /// The addresses that are targets, in the order in which they were first in a response.
    public var addresses: [Address] { members.map(\.address) }

    /// Applies the result of a query.
    /// - Returns: Whether ``addresses`` changed.
    public mutating func update(_ response: Response, now: UInt64) -> Bool {
        guard case .addresses(let all) = response, let family = family(for: all) else { return false }
        respondedAt = now
        let before = addresses
        var found: Set<Address> = []
        let current = all.filter { $0.family == family && found.insert($0).inserted }
        for index in members.indices where found.contains(members[index].address) { members[index].seenAt = now }
        // A host with addresses of two families is one target for each address of the used one, not two.
        members.removeAll {
            $0.address.family != family || !found.contains($0.address) && (now < $0.seenAt || now - $0.seenAt >= keep)
        }
        var known = Set(members.map(\.address))
        // New addresses are more likely to be served than those that are only kept.
        while members.count + current.filter({ !known.contains($0) }).count > capacity,
            let index = members.firstIndex(where: { !found.contains($0.address) })
        {
            known.remove(members[index].address)
            members.remove(at: index)
        }
        for address in current where !known.contains(address) && members.count < capacity {
            members.append(Member(address: address, seenAt: now))
        }
        return addresses != before
    }

    /// A connection to an address was established: its family is used from the next response on, if it has addresses.
    public mutating func connected(_ family: Family) {
        connectedFamily = family
    }

    /// No address of the used family can be connected to: the other one is tried from the next response on, until a
    /// connection is established.
    public mutating func familyFailed() {
        guard let used = members.first?.address.family else { return }
        connectedFamily = used == .version4 ? .version6 : .version4
    }

    /// The family that connected, then the one in use, then the preferred one; `nil` without addresses.
    private func family(for addresses: [Address]) -> Family? {
        for family in [connectedFamily, members.first?.address.family] {
            if let family, addresses.contains(where: { $0.family == family }) { return family }
        }
        return addresses.first?.family
    }
}
