/// Compares what two pieces of work cost.
package enum LinearTime {
    /// How many times as long the second takes as the first, each at its best of several runs.
    package static func ratio(
        of rounds: Int = 5, _ first: () throws -> Void, to second: () throws -> Void
    ) rethrows -> Double {
        var best = (Duration.seconds(1_000), Duration.seconds(1_000))
        for _ in 0..<rounds {
            let start = ContinuousClock.now
            try first()
            let middle = ContinuousClock.now
            try second()
            best = (min(best.0, middle - start), min(best.1, .now - middle))
        }
        return best.1 / best.0
    }
}
