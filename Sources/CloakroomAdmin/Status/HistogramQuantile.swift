/// A percentile as far as a histogram's buckets tell it.
enum HistogramQuantile: Sendable, Equatable {
    /// About this, in the histogram's unit.
    case estimate(Double)
    /// More than the last bucket's bound, which is all that is known.
    case aboveHighestBucket(Double)

    /// Finds a percentile, taking the values within a bucket to be spread evenly, as Prometheus' `histogram_quantile`
    /// does.
    /// - Parameters:
    ///   - quantile: 0...1; 0.95 is the 95th percentile.
    ///   - bounds: The buckets' inclusive upper bounds, ascending, without `+Inf`.
    ///   - cumulative: How many values were at or below each bound, and last how many there were at all.
    /// - Returns: `nil` if there were no values, or the two lists do not belong together.
    init?(_ quantile: Double, bounds: [Double], cumulative: [UInt64]) {
        guard cumulative.count == bounds.count + 1, let count = cumulative.last, count > 0, let last = bounds.last
        else { return nil }
        let rank = min(max(quantile, 0), 1) * Double(count)
        // A bucket without values holds no value, however low the rank is.
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
