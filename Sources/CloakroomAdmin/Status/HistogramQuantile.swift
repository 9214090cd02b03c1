/// A percentile estimated from histogram buckets.
enum HistogramQuantile: Sendable, Equatable {
    /// The estimate, in the unit of the histogram.
    case estimate(Double)
    /// Above the highest bound; the exact value is unknown.
    case aboveHighestBucket(Double)

    /// Estimates a percentile with linear interpolation within buckets, like Prometheus' `histogram_quantile`.
    /// - Parameters:
    ///   - quantile: 0...1; 0.95 is the 95th percentile.
    ///   - bounds: The buckets' inclusive upper bounds, ascending, without `+Inf`.
    ///   - cumulative: The cumulative counts per bound, followed by the total count.
    /// - Returns: `nil` if there are no values or the lists do not match.
    init?(_ quantile: Double, bounds: [Double], cumulative: [UInt64]) {
        guard cumulative.count == bounds.count + 1, let count = cumulative.last, count > 0, let last = bounds.last
        else { return nil }
        let rank = min(max(quantile, 0), 1) * Double(count)
        // An empty bucket contains no value, however low the rank.
        guard let bucket = cumulative.firstIndex(where: { $0 > 0 && Double($0) >= rank }), bucket < bounds.count else {
            self = .aboveHighestBucket(last)
            return
        }
        let before = bucket == 0 ? 0 : cumulative[bucket - 1]
        let floor = bucket == 0 ? min(0, bounds[0]) : bounds[bucket - 1]
        let share = (rank - Double(before)) / Double(cumulative[bucket] - before)
        self = .estimate(floor + (bounds[bucket] - floor) * max(share, 0))
    }
}
