public import Metrics

/// One series of a counter with fractions, such as seconds of processor time.
public final class FloatingPointCounterHandle: FloatingPointCounterHandler {
    private let total = AtomicDouble()

    init() {}

    /// Adds `amount`; zero, negative and non-finite amounts are ignored.
    public func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        total.add(amount)
    }

    /// Takes over a total that somebody else counts (the kernel, for example). A negative one and NaN are ignored, since
    /// no counter may show them.
    public func set(total value: Double) {
        guard value >= 0 else { return }
        total.store(value)
    }

    /// Starts again at zero.
    public func reset() {
        total.store(0)
    }

    /// The sum so far.
    public var value: Double { total.value }
}

/// One series of a gauge with fractions; what swift-metrics' meters and plain recorders turn into.
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

    /// Keeps the value last recorded.
    public func record(_ value: Int64) { current.store(Double(value)) }

    /// Keeps the value last recorded.
    public func record(_ value: Double) { current.store(value) }

    /// What the gauge shows now.
    public var value: Double { current.value }
}
