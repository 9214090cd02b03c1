/// Which leases end when other requests wait for a connection that slow clients occupy.
///
/// Slowness is cut only where it costs others: for each request that has waited ``waitingTime`` without a permit, one
/// lease ends per tick, the slowest that waits for its client, is older than ``minimumAge`` and has moved less than a
/// rate. Pure; the caller measures.
public struct PressureRule: Sendable, Equatable {
    /// How long a request waits for a connection before others may be ended for it, in nanoseconds.
    public static let waitingTime: UInt64 = 100_000_000
    /// The age in nanoseconds up to which no lease is ended.
    static let minimumAge: UInt64 = 5_000_000_000

    /// Bytes per second below which a lease may be ended; 0 ends none.
    public let rate: Int

    /// Creates a rule.
    public init(rate: Int) {
        self.rate = rate
    }

    /// A lease that waits for its client.
    public struct Lease: Sendable, Equatable {
        /// Body bytes that the client has sent or received.
        public var moved: Int
        /// Nanoseconds since the connection was leased.
        public var age: UInt64

        /// Creates a lease.
        public init(moved: Int, age: UInt64) {
            self.moved = moved
            self.age = age
        }

        /// Whether this lease has moved less for its age.
        public func isSlower(than other: Lease) -> Bool { (rate, other.age) < (other.rate, age) }

        /// Bytes per second.
        fileprivate var rate: Double { Double(max(0, moved)) / (Double(age) / 1_000_000_000) }
    }

    /// Selects the leases to end.
    /// - Parameters:
    ///   - count: The number of requests that wait.
    ///   - leases: All leases that wait for their clients.
    /// - Returns: Indices of `leases`, slowest first, at most `count`.
    public func select(_ count: Int, of leases: [Lease]) -> [Int] {
        guard rate > 0, count > 0 else { return [] }
        let slow = leases.indices.filter {
            leases[$0].age > Self.minimumAge && leases[$0].rate < Double(rate)
        }
        // Of equally slow ones the oldest.
        let sorted = slow.sorted {
            (leases[$0].rate, leases[$1].age) < (leases[$1].rate, leases[$0].age)
        }
        return Array(sorted.prefix(count))
    }
}
