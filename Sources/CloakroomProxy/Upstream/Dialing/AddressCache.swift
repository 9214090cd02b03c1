/// The addresses of one host name, and when to ask for them again.
///
/// While they are in use they are renewed in the background once in an interval. If nobody wanted them for longer than
/// that, or if none of them took a connection, they are asked for anew before they are used; and if nobody knows, the old
/// ones have to do. Moments and times are in nanoseconds.
struct DNSCache<Address: Equatable> {
    /// Addresses that took no connection are asked for again after this time at the earliest.
    static var shortestInterval: UInt64 { 1_000_000_000 }

    private let interval: UInt64
    private(set) var addresses: [Address] = []
    private var refreshedAt: UInt64 = 0
    private var isResolving = false
    private var isSuspect = false

    /// - Parameter interval: How old addresses may get while they are in use.
    init(interval: UInt64) {
        self.interval = interval
    }

    enum ResolveAction: Equatable {
        /// Here they are.
        case use([Address])
        /// Here they are; and ask for them again meanwhile.
        case useAndResolve([Address])
        /// Ask for them, and wait.
        case resolve
        /// They have been asked for; wait.
        case wait
    }

    /// Somebody wants to connect.
    mutating func use(now: UInt64) -> ResolveAction {
        // Another loop's clock may be a little ahead.
        let age = now > refreshedAt ? now - refreshedAt : 0
        let isTooOld = addresses.isEmpty || isSuspect || age / 2 >= interval
        if !isTooOld, age < interval || isResolving { return .use(addresses) }
        guard !isResolving else { return .wait }
        isResolving = true
        return isTooOld ? .resolve : .useAndResolve(addresses)
    }

    /// The answer is there.
    /// - Parameter found: The addresses; none if nobody knows, and then the old ones stay.
    mutating func resolved(_ found: [Address], now: UInt64) {
        isResolving = false
        isSuspect = false
        refreshedAt = now
        if !found.isEmpty { addresses = found }
    }

    /// None of the addresses took a connection.
    mutating func markSuspect(now: UInt64) {
        if now > refreshedAt, now - refreshedAt >= Self.shortestInterval { isSuspect = true }
    }
}
