import Synchronization

/// Random ids for traces, spans and requests: SplitMix64 over a counter, seeded from the system's generator. The ids
/// are unique and uniformly distributed but predictable: never use one as a session ticket.
///
/// The only state is the counter, so all threads can use it without a lock. Each event loop has its own source to avoid
/// contention for a cache line.
public final class TraceIDSource: Sendable {
    private let counter = Atomic<UInt64>(0)
    private let seeds: (UInt64, UInt64)

    /// Seeds from the system.
    public init() {
        var system = SystemRandomNumberGenerator()
        seeds = (system.next(), system.next())
    }

    /// Fixed seeds, for tests.
    init(seeds: (UInt64, UInt64)) {
        self.seeds = seeds
    }

    /// An id of 128 bits, not zero.
    public func next128() -> ID128 {
        let position = counter.wrappingAdd(1, ordering: .relaxed).newValue
        let id = ID128(high: Self.mix(seeds.0, position), low: Self.mix(seeds.1, position))
        return id.low == 0 ? next128() : id
    }

    /// An id of 64 bits, not zero.
    public func next64() -> UInt64 {
        let position = counter.wrappingAdd(1, ordering: .relaxed).newValue
        let id = Self.mix(seeds.0 ^ seeds.1, position)
        return id == 0 ? next64() : id
    }

    private static func mix(_ seed: UInt64, _ position: UInt64) -> UInt64 {
        var value = seed &+ position &* 0x9E37_79B9_7F4A_7C15
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
