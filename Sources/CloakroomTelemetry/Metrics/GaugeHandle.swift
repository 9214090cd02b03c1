import Synchronization

/// One series of an integer gauge.
public final class GaugeHandle: Sendable {
    private let current = Atomic<Int64>(0)

    init() {}

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
