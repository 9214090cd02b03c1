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
        SplitMix64.mix(seed &+ position &* SplitMix64.increment)
    }
}

/// Fast random number generator for ids (SplitMix64; Steele, Lea, Flood 2014), seeded by the system. Not for secrets.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    @inlinable static var increment: UInt64 { 0x9e37_79b9_7f4a_7c15 }

    @usableFromInline var state: UInt64

    /// Seeds from the system.
    public init() {
        var system = SystemRandomNumberGenerator()
        state = system.next()
    }

    /// The next number.
    @inlinable
    public mutating func next() -> UInt64 {
        state &+= Self.increment
        return Self.mix(state)
    }

    @inlinable
    static func mix(_ state: UInt64) -> UInt64 {
        var value = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}
