import NIOCore

/// Caches the addresses of one host name and decides when to resolve it again.
///
/// Addresses in use are refreshed in the background once per interval. If they are older than two intervals, or if no
/// address accepted a connection, they are resolved before their next use. If resolving fails, the old addresses are
/// used. All times are in nanoseconds.
struct DNSCache<Address: Equatable> {
    /// Minimum age at which addresses that accepted no connection are resolved again.
    static var shortestInterval: UInt64 { 1_000_000_000 }

    private let interval: UInt64
    private(set) var addresses: [Address] = []
    private var refreshedAt: UInt64 = 0
    private var isResolving = false
    private var isSuspect = false

    /// - Parameter interval: Refresh interval of addresses in use.
    init(interval: UInt64) {
        self.interval = interval
    }

    enum ResolveAction: Equatable {
        case use([Address])
        /// Use the addresses, and refresh them in the background.
        case useAndResolve([Address])
        /// Resolve the name, and wait.
        case resolve
        /// A lookup is in progress; wait for it.
        case wait
    }

    /// Returns how to obtain the addresses for a connection.
    mutating func use(now: UInt64) -> ResolveAction {
        // The time was read on another event loop and may be slightly ahead.
        let age = now > refreshedAt ? now - refreshedAt : 0
        let isTooOld = addresses.isEmpty || isSuspect || age / 2 >= interval
        if !isTooOld, age < interval || isResolving { return .use(addresses) }
        guard !isResolving else { return .wait }
        isResolving = true
        return isTooOld ? .resolve : .useAndResolve(addresses)
    }

    /// A lookup is complete.
    /// - Parameter found: The addresses; if empty, the old ones are kept.
    mutating func resolved(_ found: [Address], now: UInt64) {
        isResolving = false
        isSuspect = false
        refreshedAt = now
        if !found.isEmpty { addresses = found }
    }

    /// No address accepted a connection.
    mutating func markSuspect(now: UInt64) {
        if now > refreshedAt, now - refreshedAt >= Self.shortestInterval { isSuspect = true }
    }
}

/// Order in which the addresses of one host name are tried (RFC 8305 §4).
enum HappyEyeballsOrder {
    /// Starts with the address selected by round robin; from there the address families alternate while both remain.
    /// - Parameter turn: Connection counter; advances the round robin over all addresses.
    static func make<Address>(
        _ addresses: [Address], turn: Int, isVersion6: (Address) -> Bool
    ) -> [Address] {
        guard addresses.count > 1 else { return addresses }
        let start = turn % addresses.count
        let rotated = addresses[start...] + addresses[..<start]
        var families = [rotated.filter(isVersion6), rotated.filter { !isVersion6($0) }]
        // The family of the first address comes first.
        if let first = rotated.first, !isVersion6(first) { families.swapAt(0, 1) }
        var order: [Address] = []
        order.reserveCapacity(addresses.count)
        for index in 0..<max(families[0].count, families[1].count) {
            for family in families where index < family.count { order.append(family[index]) }
        }
        return order
    }
}
