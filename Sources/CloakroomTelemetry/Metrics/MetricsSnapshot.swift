/// A snapshot of all metrics as values. The status page computes rates and percentiles from two snapshots. Scrapers use
/// ``PrometheusRegistry/exposition(accept:)``.
public struct MetricsSnapshot: Sendable {
    /// One series of a family.
    public struct Series: Sendable {
        /// Its labels, unescaped, including empty ones.
        public let labels: [String: String]
        /// Its value.
        public let value: Value
    }

    /// The value of a series.
    public enum Value: Sendable {
        /// The number of a counter or gauge.
        case number(Double)
        case histogram(Histogram)
    }

    /// A snapshot of a histogram.
    public struct Histogram: Sendable {
        /// The buckets' inclusive upper bounds in the exposed unit, ascending, without `+Inf`.
        public let bounds: [Double]
        /// The cumulative counts per bound, followed by the total count; one element more than ``bounds``.
        public let cumulative: [UInt64]
        /// The sum of all values, in the exposed unit.
        public let sum: Double

        /// The number of values.
        public var count: UInt64 { cumulative.last ?? 0 }
    }

    let families: [String: [(labels: LabelSet, value: Value)]]
    /// The durations of requests by route, for routes with a histogram of their own and requests, and of all routes. More
    /// precise than the families.
    public let latencies: (routes: [String: LatencyCounts], all: LatencyCounts)

    /// The series of a family, ordered by labels; empty if there is no such family. The family is converted on each
    /// call: store the result if it is used more than once.
    public subscript(family: String) -> [Series] {
        (families[family] ?? []).map { series in
            let labels = series.labels.pairs.map { ($0.name, $0.value) }
            return Series(labels: Dictionary(labels) { first, _ in first }, value: series.value)
        }
    }
}

extension PrometheusRegistry {
    /// A snapshot of all metrics. Values are read one after the other while other threads record, as at any scrape.
    public func snapshot() -> MetricsSnapshot { snapshot(of: collected()) }

    /// The same without running the collection callbacks, such as those of the process metrics, which keep their values
    /// of the last scrape. For frequent callers that do not need them.
    public func recordedReading() -> MetricsSnapshot { snapshot(of: recorded()) }

    private func snapshot(of families: [String: MetricFamily]) -> MetricsSnapshot {
        MetricsSnapshot(
            families: families.mapValues { family in
                family.series.map { (labels: $0.labels, value: $0.handle.snapshot) }
            }, latencies: latencies.reading())
    }
}
