/// All metrics at one moment, as values, for whoever computes with them: the status page makes rates and percentiles of
/// two readings. Scrapers get ``PrometheusRegistry/exposition(accept:)``.
public struct MetricsSnapshot: Sendable {
    /// One series of a family.
    public struct Series: Sendable {
        /// Its labels, unescaped. A label that is empty is there.
        public let labels: [String: String]
        /// What it showed.
        public let value: Value
    }

    /// What a series shows.
    public enum Value: Sendable {
        /// A counter's or a gauge's number.
        case number(Double)
        /// A histogram.
        case histogram(Histogram)
    }

    /// A histogram at one moment.
    public struct Histogram: Sendable {
        /// The buckets' inclusive upper bounds in the exposed unit, ascending, without `+Inf`.
        public let bounds: [Double]
        /// How many values were at or below each bound, and last how many there were at all; one more than ``bounds``.
        public let cumulative: [UInt64]
        /// The sum of all values, in the exposed unit.
        public let sum: Double

        /// How many values there were.
        public var count: UInt64 { cumulative.last ?? 0 }
    }

    let families: [String: [(labels: LabelSet, value: Value)]]

    /// The series of a family, ordered by labels; empty where there is no such family. A family is converted when it is
    /// asked for: keep what this returns when it is read more than once.
    public subscript(family: String) -> [Series] {
        (families[family] ?? []).map { series in
            let labels = series.labels.pairs.map { ($0.name, $0.value) }
            return Series(labels: Dictionary(labels) { first, _ in first }, value: series.value)
        }
    }
}

extension PrometheusRegistry {
    /// Everything as it is now. Values are read one after the other while others record, as at any scrape.
    public func snapshot() -> MetricsSnapshot { Self.snapshot(of: collected()) }

    /// The same without what is looked up and not recorded, such as that of the process, which stays what it was at the
    /// last scrape: for who looks often and does not need it.
    public func recordedReading() -> MetricsSnapshot { Self.snapshot(of: recorded()) }

    private static func snapshot(of families: [String: MetricFamily]) -> MetricsSnapshot {
        MetricsSnapshot(
            families: families.mapValues { family in
                family.series.map { (labels: $0.labels, value: $0.handle.snapshot) }
            })
    }
}
