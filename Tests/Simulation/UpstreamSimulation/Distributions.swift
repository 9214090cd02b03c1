import Foundation

/// Service times and pauses between requests. Drawn from tables of quantiles, so that a draw is one look-up and depends
/// on its random bits only.
enum Distributions {
    private static let size = 4_096

    /// Nanoseconds, lognormal with a mean of 10 ms and a 99th percentile of 47 ms.
    private static let services: [UInt64] = (0..<size).map { index in
        let deviation = 0.8
        let quantile = normalQuantile((Double(index) + 0.5) / Double(size))
        return UInt64(10e6 * exp(deviation * quantile - deviation * deviation / 2))
    }

    /// Billionths of the mean, exponential.
    private static let pauses: [UInt64] = (0..<size).map { index in
        UInt64(-1e9 * log(1 - (Double(index) + 0.5) / Double(size)))
    }

    /// The time that a target needs for a request, in nanoseconds.
    /// - Parameter bits: Random bits, of which 12 are used.
    static func service(_ bits: UInt64) -> UInt64 {
        services[Int(bits & 0xfff)]
    }

    /// The time until the next request, in nanoseconds.
    /// - Parameter bits: Random bits, of which 12 are used.
    static func pause(_ bits: UInt64, mean: UInt64) -> UInt64 {
        pauses[Int(bits & 0xfff)] * mean / 1_000_000_000
    }

    /// The inverse of the cumulative distribution of the normal distribution, by bisection.
    private static func normalQuantile(_ probability: Double) -> Double {
        var (lower, upper) = (-8.0, 8.0)
        for _ in 0..<50 {
            let middle = (lower + upper) / 2
            if erfc(-middle / 2.0.squareRoot()) / 2 < probability { lower = middle } else { upper = middle }
        }
        return (lower + upper) / 2
    }
}
