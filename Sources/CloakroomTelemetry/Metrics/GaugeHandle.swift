import Synchronization

/// One series of a gauge with whole numbers: how many there are now.
public final class GaugeHandle: Sendable {
    private let current = Atomic<Int64>(0)

    init() {}

    /// Moves the gauge by `amount`, which may be negative.
    public func add(_ amount: Int64) {
        current.wrappingAdd(amount, ordering: .relaxed)
    }

    /// Sets the gauge.
    public func set(_ value: Int64) {
        current.store(value, ordering: .relaxed)
    }

    /// What the gauge shows now.
    public var value: Int64 { current.load(ordering: .relaxed) }
}
