import CloakroomTelemetry

/// How long something took, as often as it happened: histograms added up.
struct DurationStats: Sendable, Equatable {
    /// The buckets' upper bounds in seconds, without `+Inf`; empty while nothing was added.
    private(set) var bounds: [Double] = []
    /// One number per bound and one for all values.
    private(set) var cumulative: [UInt64] = []

    var count: UInt64 { cumulative.last ?? 0 }

    /// Seconds; `nil` if nothing happened.
    func quantile(_ quantile: Double) -> HistogramQuantile? {
        HistogramQuantile(quantile, bounds: bounds, cumulative: cumulative)
    }

    mutating func add(_ histogram: MetricsSnapshot.Histogram) {
        if cumulative.isEmpty {
            bounds = histogram.bounds
            cumulative = histogram.cumulative
        } else if bounds == histogram.bounds {
            for index in cumulative.indices { cumulative[index] &+= histogram.cumulative[index] }
        }
    }

    mutating func add(_ other: DurationStats) {
        if cumulative.isEmpty {
            self = other
        } else if bounds == other.bounds {
            for index in cumulative.indices { cumulative[index] &+= other.cumulative[index] }
        }
    }

    /// What came after an earlier tally of the same.
    func subtracting(_ earlier: DurationStats) -> DurationStats {
        guard bounds == earlier.bounds else { return self }
        var change = self
        for index in cumulative.indices {
            change.cumulative[index] = cumulative[index].countSince(earlier.cumulative[index])
        }
        return change
    }
}

/// Requests, or operations, of one kind.
struct RequestStats: Sendable, Equatable {
    /// All of them.
    var durations = DurationStats()
    /// Those that failed: answered 5xx, or not at all for a reason of ours or the upstream's.
    var failures: UInt64 = 0
    /// Those that were answered 401.
    var unauthorized: UInt64 = 0

    var count: UInt64 { durations.count }

    /// 0...1; `nil` if there were none.
    var failureShare: Double? { count == 0 ? nil : min(Double(failures) / Double(count), 1) }

    mutating func add(_ other: RequestStats) {
        durations.add(other.durations)
        failures &+= other.failures
        unauthorized &+= other.unauthorized
    }

    /// What came after an earlier tally of the same.
    func subtracting(_ earlier: RequestStats) -> RequestStats {
        RequestStats(
            durations: durations.subtracting(earlier.durations), failures: failures.countSince(earlier.failures),
            unauthorized: unauthorized.countSince(earlier.unauthorized))
    }
}

extension UInt64 {
    /// How far a counter has come. The parts of a reading are read one after the other, so that sums can seem to go back
    /// by what was being recorded.
    func countSince(_ earlier: UInt64) -> UInt64 { self < earlier ? 0 : self - earlier }
}
