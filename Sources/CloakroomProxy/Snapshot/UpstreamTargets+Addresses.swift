import CloakroomCore
import NIOCore
import Synchronization

/// Host names whose addresses are targets of their own.
///
/// A name is one target until a connection to it is established: its addresses are tried in the order of RFC 8305, and the
/// first one that accepts determines the address family. From then on each address of that family is a target.
extension UpstreamTargets {
    /// The addresses of one host name.
    struct ResolvedName: Sendable {
        var addresses: AddressSet
        /// Whether the family that works is known.
        var isConnected = false
        /// Time of the next query.
        var nextQuery: UInt64 = 0

        /// The addresses that are targets of their own.
        var targets: [String] { isConnected ? addresses.addresses.map(\.text) : [] }
    }

    /// A connection to a target was established. Called once per connection.
    func established(_ target: TargetRuntime, at address: SocketAddress?) {
        guard case .name = target.endpoint, let address else { return }
        names.withLock { names in
            guard var name = names[target.index], !name.isConnected else { return }
            name.isConnected = true
            name.addresses.connected(AddressSet.Family(address))
            names[target.index] = name
        }
    }

    /// A connection attempt to a target failed: if no address of its host name is usable, the other address family is
    /// used from the next response on, which is requested soon.
    func connectFailed(_ target: TargetRuntime) {
        guard target.state.identity.address != nil else { return }
        let isAnyUsable = targets.targets.contains { $0.index == target.index && $0.state.word.isUsable }
        guard !isAnyUsable else { return }
        names.withLock { names in
            names[target.index]?.addresses.familyFailed()
            names[target.index]?.nextQuery = 0
        }
    }

    /// Resolves the names that are due.
    ///
    /// Has no effect if the configuration is not in effect, or no longer when the result arrives: its targets are then those
    /// of another board.
    /// - Returns: Whether the targets have changed; ``targets`` are the new ones.
    func resolve(now: UInt64) async -> Bool {
        guard board.isActive else { return false }
        let due = names.withLock { names in
            names.filter { $0.value.isConnected && $0.value.nextQuery <= now }.keys.sorted()
        }
        guard !due.isEmpty else { return false }
        var hasChanged = false
        let interval = configuration.dns.interval.wholeNanoseconds
        for index in due {
            guard case .name(let resolver) = endpoints[index] else { continue }
            let response = await resolver.query()
            let isChanged = names.withLock { names in
                guard board.isActive else { return false }
                names[index]?.nextQuery = now &+ interval
                return names[index]?.addresses.update(response, now: now) ?? false
            }
            hasChanged = hasChanged || isChanged
        }
        guard hasChanged, board.isActive else { return false }
        replaceTargets(now: now)
        return true
    }

    /// Nanoseconds since the host name of a configured target was last in a response; 0 before the first query.
    func addressAge(of index: Int, now: UInt64) -> UInt64 {
        guard let respondedAt = names.withLock({ $0[index]?.addresses.respondedAt }) else { return 0 }
        return now > respondedAt ? now - respondedAt : 0
    }

    /// The names of a configuration, with what is known about those that another one has too.
    static func names(
        _ configuration: UpstreamConfiguration, adopting adopted: UpstreamTargets?
    ) -> [Int: ResolvedName] {
        let known = adopted.map { adopted in adopted.names.withLock { $0 } } ?? [:]
        var names: [Int: ResolvedName] = [:]
        for (index, target) in configuration.targets.enumerated() {
            guard case .tcp(let host) = target.address, (try? SocketAddress(ipAddress: host.host, port: 0)) == nil
            else { continue }
            let isSame = adopted?.configuration.dns.keep == configuration.dns.keep
            let old = adopted?.configuration.targets.firstIndex { $0.address == target.address }
            let entry = isSame ? old.flatMap { known[$0] } : nil
            names[index] = entry ?? ResolvedName(addresses: AddressSet(keep: configuration.dns.keep))
        }
        return names
    }
}

extension AddressSet.Family {
    init(_ address: SocketAddress) {
        if case .v6 = address { self = .version6 } else { self = .version4 }
    }
}

extension TargetResolver {
    /// Queries the addresses now.
    func query() async -> AddressSet.Response {
        guard let found = try? await resolver.resolve(host, port).get() else { return .failed }
        return .addresses(
            found.compactMap { address in
                address.ipAddress.map { AddressSet.Address($0, AddressSet.Family(address)) }
            })
    }
}
