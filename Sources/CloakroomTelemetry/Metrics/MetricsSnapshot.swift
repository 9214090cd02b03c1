/// What a family is, in Prometheus' words.
enum MetricKind: String, Sendable {
    case counter
    case gauge
    case histogram
}

/// A histogram at one moment.
struct HistogramSnapshot: Equatable, Sendable {
    /// The `le` texts, without `+Inf`.
    let boundTexts: [String]
    /// One number per bound and one for `+Inf`, each including those before it.
    let cumulative: [UInt64]
    /// In the exposed unit.
    let sum: Double

    var count: UInt64 { cumulative.last ?? 0 }
}

/// A series' value at one moment.
enum SampleValue: Equatable, Sendable {
    case whole(Int64)
    case fraction(Double)
    case histogram(HistogramSnapshot)
}

/// One series: its labels as they are written, without the braces.
struct SeriesSnapshot: Equatable, Sendable {
    let labels: String
    let value: SampleValue
}

/// A family with all its series, sorted. An exposition format is a function of a list of these.
struct FamilySnapshot: Equatable, Sendable {
    let name: String
    let help: String
    let kind: MetricKind
    let series: [SeriesSnapshot]
}
