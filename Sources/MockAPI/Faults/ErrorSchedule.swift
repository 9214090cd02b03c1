/// Spreads failures evenly over requests: of every `n` in a row, `rate · n` fail, rounded down or up.
///
/// A count and no dice, so that a test knows which: at a rate of 0.25 and seed 0 the 4th, the 8th and so on.
struct ErrorSchedule {
    /// 0...1; what lies outside is taken for the nearer end.
    var rate: Double {
        didSet { rate = Self.clamp(rate) }
    }
    private var count: Int

    init(rate: Double, seed: Int) {
        self.rate = Self.clamp(rate)
        // A seed beyond this would leave the range where a Double counts in ones.
        count = seed % 1_000_000_000
    }

    /// Whether the next request fails.
    mutating func nextFails() -> Bool {
        let before = (Double(count) * rate).rounded(.down)
        count += 1
        return (Double(count) * rate).rounded(.down) > before
    }

    private static func clamp(_ rate: Double) -> Double {
        rate.isNaN ? 0 : min(max(rate, 0), 1)
    }
}
