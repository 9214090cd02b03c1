public import Metrics
import Synchronization

/// One series of an integer counter. Recording is one relaxed atomic addition; get the handle once and keep it.
public final class CounterHandle: CounterHandler {
    private let total = Atomic<Int64>(0)

    /// Adds one.
    public func increment() {
        total.wrappingAdd(1, ordering: .relaxed)
    }

    /// Adds `amount`; amounts below 1 are ignored because a Prometheus counter never decreases.
    public func increment(by amount: Int64) {
        guard amount > 0 else { return }
        total.wrappingAdd(amount, ordering: .relaxed)
    }

    /// Resets the counter to zero, which a scraper treats as a restart of the process.
    public func reset() {
        total.store(0, ordering: .relaxed)
    }

    /// The current value.
    public var value: Int64 { total.load(ordering: .relaxed) }

    /// The exposed value: interpreted as unsigned, because a counter must not be negative.
    var exposed: UInt64 { UInt64(bitPattern: value) }
}

/// One series of an integer gauge.
public final class GaugeHandle: Sendable {
    private let current = Atomic<Int64>(0)

    /// Adds `amount`, which may be negative.
    public func add(_ amount: Int64) {
        current.wrappingAdd(amount, ordering: .relaxed)
    }

    /// Sets the gauge.
    public func set(_ value: Int64) {
        current.store(value, ordering: .relaxed)
    }

    /// The current value.
    public var value: Int64 { current.load(ordering: .relaxed) }
}

/// One series of a floating-point counter, such as seconds of CPU time.
public final class FloatingPointCounterHandle: FloatingPointCounterHandler {
    private let total = AtomicDouble()

    /// Adds `amount`; zero, negative and non-finite amounts are ignored.
    public func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        total.add(amount)
    }

    /// Sets the total to a value counted elsewhere, for example by the kernel. Negative values and NaN are ignored
    /// because a counter must not expose them.
    public func set(total value: Double) {
        guard value >= 0 else { return }
        total.store(value)
    }

    /// Resets the counter to zero.
    public func reset() {
        total.store(0)
    }

    /// The current value.
    public var value: Double { total.value }
}

/// One series of a floating-point gauge; used for swift-metrics meters and non-aggregating recorders.
public final class FloatingPointGaugeHandle: MeterHandler, RecorderHandler {
    private let current = AtomicDouble()

    /// Sets the gauge.
    public func set(_ value: Int64) { current.store(Double(value)) }

    /// Sets the gauge.
    public func set(_ value: Double) { current.store(value) }

    /// Raises the gauge by `amount`.
    public func increment(by amount: Double) { current.add(amount) }

    /// Lowers the gauge by `amount`.
    public func decrement(by amount: Double) { current.add(-amount) }

    /// Sets the gauge to the recorded value.
    public func record(_ value: Int64) { current.store(Double(value)) }

    /// Sets the gauge to the recorded value.
    public func record(_ value: Double) { current.store(value) }

    /// The current value.
    public var value: Double { current.value }
}

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
