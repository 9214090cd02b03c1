import CloakroomTelemetry

/// The count and duration of operations: a sum of histograms.
struct DurationStats: Sendable, Equatable {
    /// The upper bounds of the buckets in seconds, without `+Inf`; empty if nothing was added.
    private(set) var bounds: [Double] = []
    /// The cumulative counts per bound, followed by the total count.
    private(set) var cumulative: [UInt64] = []
    /// The same durations in finer slots; `nil` if there is no such histogram.
    var latencies: LatencyCounts?

    var count: UInt64 { cumulative.last ?? 0 }

    /// The percentile in seconds; `nil` if there are no values.
    func quantile(_ quantile: Double) -> HistogramQuantile? {
        if let fine = latencies?.quantile(quantile) {
            return HistogramQuantile(seconds: fine.seconds, isLowerBound: fine.isLowerBound)
        }
        return HistogramQuantile(quantile, bounds: bounds, cumulative: cumulative)
    }

    mutating func add(_ histogram: MetricsSnapshot.Histogram) { add(histogram.cumulative, within: histogram.bounds) }

    /// The sum has no ``latencies``: one part may lack them.
    mutating func add(_ other: DurationStats) {
        add(other.cumulative, within: other.bounds)
        latencies = nil
    }

    private mutating func add(_ counts: [UInt64], within bounds: [Double]) {
        if cumulative.isEmpty {
            (self.bounds, cumulative) = (bounds, counts)
        } else if self.bounds == bounds {
            for index in cumulative.indices { cumulative[index] &+= counts[index] }
        }
    }

    /// The difference from an earlier tally.
    func subtracting(_ earlier: DurationStats) -> DurationStats {
        guard bounds == earlier.bounds else { return self }
        var change = self
        for index in cumulative.indices {
            change.cumulative[index] = cumulative[index].countSince(earlier.cumulative[index])
        }
        if let before = earlier.latencies { change.latencies = latencies?.subtracting(before) }
        return change
    }
}

/// The requests or operations of one kind.
struct RequestStats: Sendable, Equatable {
    /// The total.
    var durations = DurationStats()
    /// The failed ones: status 5xx, or no response because of an error of the gateway or the upstream.
    var failures: UInt64 = 0
    /// The ones with status 401.
    var unauthorized: UInt64 = 0

    var count: UInt64 { durations.count }

    /// The fraction of failures, 0...1; `nil` if there are no requests.
    var failureShare: Double? { count == 0 ? nil : min(Double(failures) / Double(count), 1) }

    mutating func add(_ other: RequestStats) {
        durations.add(other.durations)
        failures &+= other.failures
        unauthorized &+= other.unauthorized
    }

    /// The difference from an earlier tally.
    func subtracting(_ earlier: RequestStats) -> RequestStats {
        RequestStats(
            durations: durations.subtracting(earlier.durations), failures: failures.countSince(earlier.failures),
            unauthorized: unauthorized.countSince(earlier.unauthorized))
    }
}

extension UInt64 {
    /// The increase of a counter. Series of a snapshot are read one after the other, so a sum can seem to decrease by
    /// concurrently recorded values.
    func countSince(_ earlier: UInt64) -> UInt64 { self < earlier ? 0 : self - earlier }
}

/// A percentile estimated from histogram buckets.
struct HistogramQuantile: Sendable, Equatable {
    /// The estimate or the highest bound, in the unit of the histogram.
    var seconds: Double
    /// Whether the percentile is above the highest bound; the exact value is unknown.
    var isLowerBound = false
}

extension HistogramQuantile {
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
            self.init(seconds: last, isLowerBound: true)
            return
        }
        let before = bucket == 0 ? 0 : cumulative[bucket - 1]
        let floor = bucket == 0 ? min(0, bounds[0]) : bounds[bucket - 1]
        let share = (rank - Double(before)) / Double(cumulative[bucket] - before)
        self.init(seconds: floor + (bounds[bucket] - floor) * max(share, 0))
    }
}
