/// The upper bounds of a histogram. Values are stored as integer ticks, so recording needs no floating point.
/// `ticksPerUnit` converts them into the exposed unit.
struct HistogramBuckets: Sendable, Equatable {
    /// One additional slot holds the values above all bounds.
    static let slots = 16

    /// Inclusive upper bounds in ticks, ascending; fewer than `slots`.
    let bounds: [UInt64]
    /// The same bounds in the exposed unit.
    let exposedBounds: [Double]
    /// The end of a bucket line before its number, `le="0.005"} `, one per bound and one for `+Inf`.
    let textEndings: [[UInt8]]
    /// The same for OpenMetrics, which writes `1.0` where the text format writes `1`.
    let openMetricsEndings: [[UInt8]]
    let ticksPerUnit: Double

    private init(_ bounds: [(ticks: UInt64, text: String)], ticksPerUnit: Double) {
        self.bounds = bounds.map(\.ticks)
        exposedBounds = bounds.map { Double($0.ticks) / ticksPerUnit }
        textEndings = (bounds.map(\.text) + ["+Inf"]).map(Self.ending)
        openMetricsEndings = (bounds.map { Self.canonical($0.text) } + ["+Inf"]).map(Self.ending)
        self.ticksPerUnit = ticksPerUnit
    }

    static func == (left: HistogramBuckets, right: HistogramBuckets) -> Bool {
        left.bounds == right.bounds && left.ticksPerUnit == right.ticksPerUnit
    }

    private static func ending(_ bound: String) -> [UInt8] {
        Array("le=\"\(bound)\"} ".utf8)
    }

    /// OpenMetrics requires bounds in floating-point notation.
    private static func canonical(_ bound: String) -> String {
        bound.contains { $0 == "." || $0 == "e" } ? bound : bound + ".0"
    }

    /// Durations in nanoseconds, exposed as seconds; the buckets recommended by OpenTelemetry's HTTP conventions.
    static let seconds = HistogramBuckets(
        [
            (5_000_000, "0.005"), (10_000_000, "0.01"), (25_000_000, "0.025"), (50_000_000, "0.05"),
            (75_000_000, "0.075"), (100_000_000, "0.1"), (250_000_000, "0.25"), (500_000_000, "0.5"),
            (750_000_000, "0.75"), (1_000_000_000, "1"), (2_500_000_000, "2.5"), (5_000_000_000, "5"),
            (7_500_000_000, "7.5"), (10_000_000_000, "10"),
        ], ticksPerUnit: 1_000_000_000)

    /// Values of unknown meaning recorded by libraries: powers of ten, stored in thousandths.
    static let magnitudes = HistogramBuckets(
        [
            (1_000, "1"), (10_000, "10"), (100_000, "100"), (1_000_000, "1000"), (10_000_000, "10000"),
            (100_000_000, "100000"), (1_000_000_000, "1e+06"), (10_000_000_000, "1e+07"),
            (100_000_000_000, "1e+08"), (1_000_000_000_000, "1e+09"),
        ], ticksPerUnit: 1_000)
}
