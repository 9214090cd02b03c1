import Synchronization

/// A lock-free atomic floating-point number, stored as a bit pattern in an atomic word.
struct AtomicDouble: ~Copyable {
    private let bits = Atomic<UInt64>(0)

    var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func store(_ value: Double) {
        bits.store(value.bitPattern, ordering: .relaxed)
    }

    func add(_ amount: Double) {
        var seen = bits.load(ordering: .relaxed)
        while true {
            let sum = Double(bitPattern: seen) + amount
            let (exchanged, original) = bits.weakCompareExchange(
                expected: seen, desired: sum.bitPattern, ordering: .relaxed)
            if exchanged { return }
            seen = original
        }
    }
}
