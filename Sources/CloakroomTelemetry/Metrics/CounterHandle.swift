public import Metrics
import Synchronization

/// One series of an integer counter. Recording is one relaxed atomic addition; get the handle once and keep it.
public final class CounterHandle: CounterHandler {
    private let total = Atomic<Int64>(0)

    init() {}

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
