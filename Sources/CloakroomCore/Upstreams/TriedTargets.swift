/// The targets that a request was sent to, at most four, by ``TargetState/slot``, so that a change of the table between
/// two attempts has no effect.
public struct TriedTargets: Sendable, Equatable {
    /// 16 bits for each target; all bits set for none.
    private var slots: UInt64 = .max

    /// None.
    public static let none = TriedTargets()

    /// None yet.
    public init() {}

    /// Whether there is none.
    public var isEmpty: Bool { slots == .max }

    /// Adds a target; the oldest of four others is dropped.
    public mutating func insert(_ slot: Int) {
        if !contains(slot) { slots = slots << 16 | UInt64(slot) & 0xffff }
    }

    /// Whether a target was tried.
    public func contains(_ slot: Int) -> Bool {
        let slot = UInt64(slot) & 0xffff
        return slots & 0xffff == slot || slots >> 16 & 0xffff == slot || slots >> 32 & 0xffff == slot
            || slots >> 48 == slot
    }
}
