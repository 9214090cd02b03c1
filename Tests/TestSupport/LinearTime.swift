/// Compares the durations of two functions.
package enum LinearTime {
    /// The duration of the second function relative to the first, each the shortest of several runs.
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
