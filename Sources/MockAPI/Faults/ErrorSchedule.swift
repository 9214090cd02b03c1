/// Distributes failures evenly over requests: of every `n` consecutive requests, `rate · n` fail, rounded down or up.
///
/// Deterministic, so tests know the failing requests: at a rate of 0.25 and seed 0 the 4th, the 8th and so on.
struct ErrorSchedule {
    /// The failure rate, clamped to 0...1.
    var rate: Double {
        didSet { rate = Self.clamp(rate) }
    }
    private var count: Int

    init(rate: Double, seed: Int) {
        self.rate = Self.clamp(rate)
        // A larger seed would exceed the range in which a Double represents all integers.
        count = seed % 1_000_000_000
    }

    /// Returns whether the next request fails.
    mutating func nextFails() -> Bool {
        let before = (Double(count) * rate).rounded(.down)
        count += 1
        return (Double(count) * rate).rounded(.down) > before
    }

    private static func clamp(_ rate: Double) -> Double {
        rate.isNaN ? 0 : min(max(rate, 0), 1)
    }
}
