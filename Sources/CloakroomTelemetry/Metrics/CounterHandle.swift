public import Metrics
import Synchronization

/// One series of a counter: a whole number that only grows. Recording is one relaxed atomic addition; get the handle
/// once and keep it.
public final class CounterHandle: CounterHandler {
    private let total = Atomic<Int64>(0)

    init() {}

    /// Adds one.
    public func increment() {
        total.wrappingAdd(1, ordering: .relaxed)
    }

    /// Adds `amount`; an amount below 1 is ignored, because a Prometheus counter never falls.
    public func increment(by amount: Int64) {
        guard amount > 0 else { return }
        total.wrappingAdd(amount, ordering: .relaxed)
    }

    /// Starts again at zero, which a scraper understands as a restart of the process.
    public func reset() {
        total.store(0, ordering: .relaxed)
    }

    /// The sum so far.
    public var value: Int64 { total.load(ordering: .relaxed) }

    /// The sum as it is exposed: a counter must not be negative, so what no longer fits a signed number counts on.
    var exposed: UInt64 { UInt64(bitPattern: value) }
}
