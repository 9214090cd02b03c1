public import Metrics

/// One series of a floating-point counter, such as seconds of CPU time.
public final class FloatingPointCounterHandle: FloatingPointCounterHandler {
    private let total = AtomicDouble()

    init() {}

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

    init() {}

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
