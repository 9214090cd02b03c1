/// Which leases end when other requests wait for a connection that slow clients occupy.
///
/// Slowness is cut only where it costs others: for each request that has waited ``waitingTime`` without a permit, at most
/// one lease ends per tick, the slowest that waits for its client and
/// - has moved nothing for ``stillTime``, or
/// - is older than ``minimumAge``, and has moved less than a rate or is one of more than a quarter of all leases that wait
///   for the same client.
///
/// Pure; the caller measures.
public struct PressureRule: Sendable, Equatable {
    /// How long a request waits for a connection before others may be ended for it, in nanoseconds.
    public static let waitingTime: UInt64 = 100_000_000
    /// The age in nanoseconds up to which only leases end that have moved nothing.
    static let minimumAge: UInt64 = 5_000_000_000
    /// The pause in nanoseconds after which a lease may be ended.
    static let stillTime: UInt64 = 500_000_000
    /// Leases of one client that are always permitted.
    static let minimumShare = 8

    /// Bytes per second below which a lease may be ended; 0 ends none.
    public let rate: Int

    package init(rate: Int) {
        self.rate = rate
    }

    /// A lease that waits for its client.
    public struct Lease: Sendable, Equatable {
        /// Body bytes that the client has sent or received.
        public var moved: Int
        /// Nanoseconds since the connection was leased.
        public var age: UInt64
        /// Nanoseconds for which nothing has moved.
        public var still: UInt64
        /// Which client it waits for; 0 if unknown.
        public var client: Int

        package init(moved: Int, age: UInt64, still: UInt64 = 0, client: Int = 0) {
            self.moved = moved
            self.age = age
            self.still = still
            self.client = client
        }

        /// Bytes per second.
        fileprivate var rate: Double { Double(max(0, moved)) / (Double(age) / 1_000_000_000) }
    }

    /// Selects the leases to end.
    /// - Parameters:
    ///   - count: The number of requests that wait.
    ///   - leases: All leases that wait for their clients.
    ///   - total: Number of all leases; at least that of `leases`.
    /// - Returns: Indices of `leases`, slowest first, at most `count`.
    public func select(_ count: Int, of leases: [Lease], total: Int = .max) -> [Int] {
        guard rate > 0, count > 0 else { return [] }
        // Of equally slow ones the oldest.
        let sorted = leases.indices.sorted {
            (leases[$0].rate, leases[$1].age) < (leases[$1].rate, leases[$0].age)
        }
        var excess: [Int: Int] = [:]
        for lease in leases where lease.client != 0 { excess[lease.client, default: 0] += 1 }
        let share = max(Self.minimumShare, total / 4)
        let slow = sorted.filter { index in
            let lease = leases[index]
            let isSlow = lease.rate < Double(rate) || excess[lease.client, default: 0] > share
            guard lease.still >= Self.stillTime || isSlow && lease.age > Self.minimumAge else { return false }
            excess[lease.client]? -= 1
            return true
        }
        return Array(slow.prefix(count))
    }
}
