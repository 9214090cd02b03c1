import CloakroomCore
public import Metrics
import Synchronization

/// One series of a histogram. Each bucket counts only its own values; a scrape accumulates them. Recording is therefore
/// two relaxed atomic additions.
public final class HistogramHandle: TimerHandler, RecorderHandler {
    let buckets: HistogramBuckets
    private let counts = InlineArray<32, Atomic<UInt64>> { _ in Atomic<UInt64>(0) }
    /// Wraps after 584 years of accumulated durations; a scraper treats that as a restart.
    private let total = Atomic<UInt64>(0)

    init(buckets: HistogramBuckets) {
        self.buckets = buckets
    }

    /// Records a duration.
    public func record(nanoseconds: UInt64) {
        record(ticks: nanoseconds)
    }

    /// Records a duration; a negative one, caused by a clock set back, counts as zero.
    public func recordNanoseconds(_ duration: Int64) {
        record(ticks: UInt64(max(0, duration)))
    }

    /// Records a number; negative ones count as zero.
    public func record(_ value: Int64) {
        record(Double(value))
    }

    /// Records a number; negative ones and NaN count as zero.
    public func record(_ value: Double) {
        let ticks = (value * buckets.ticksPerUnit).rounded()
        record(ticks: ticks > 0 ? UInt64(exactly: min(ticks, 0x1p62)) ?? 0 : 0)
    }

    private func record(ticks: UInt64) {
        var slot = 0
        let bounds = buckets.bounds
        while slot < bounds.count, ticks > bounds[slot] { slot += 1 }
        counts[slot].wrappingAdd(1, ordering: .relaxed)
        total.wrappingAdd(ticks, ordering: .relaxed)
    }

    /// The cumulative counts per bound; the slot after the last bound, and all following ones, hold the total count.
    /// Buckets are read one after the other while other threads record.
    func cumulative() -> InlineArray<32, UInt64> {
        var running: UInt64 = 0
        return InlineArray { slot in
            running &+= counts[slot].load(ordering: .relaxed)
            return running
        }
    }

    /// The sum in the exposed unit. It may differ from the buckets by values recorded concurrently.
    var sum: Double { Double(total.load(ordering: .relaxed)) / buckets.ticksPerUnit }

    /// The current content.
    func snapshot() -> MetricsSnapshot.Histogram {
        let cumulative = cumulative()
        return MetricsSnapshot.Histogram(
            bounds: buckets.exposedBounds, cumulative: (0...buckets.bounds.count).map { cumulative[$0] }, sum: sum)
    }

    /// The number of recorded values.
    public var count: UInt64 { cumulative()[HistogramBuckets.slots - 1] }
}

/// The upper bounds of a histogram. Values are stored as integer ticks, so recording needs no floating point.
/// `ticksPerUnit` converts them into the exposed unit.
struct HistogramBuckets: Sendable, Equatable {
    /// One additional slot holds the values above all bounds.
    static let slots = 32

    /// Inclusive upper bounds in ticks, ascending; fewer than `slots`.
    let bounds: [UInt64]
    /// The same bounds in the exposed unit.
    let exposedBounds: [Double]
    /// The end of a bucket line before its number, `le="0.005"} `, one per bound and one for `+Inf`.
    let endings: [[UInt8]]
    let ticksPerUnit: Double

    private init(_ bounds: [(ticks: UInt64, text: String)], ticksPerUnit: Double) {
        self.bounds = bounds.map(\.ticks)
        exposedBounds = bounds.map { Double($0.ticks) / ticksPerUnit }
        endings = (bounds.map(\.text) + ["+Inf"]).map(Self.ending)
        self.ticksPerUnit = ticksPerUnit
    }

    static func == (left: HistogramBuckets, right: HistogramBuckets) -> Bool {
        left.bounds == right.bounds && left.ticksPerUnit == right.ticksPerUnit
    }

    private static func ending(_ bound: String) -> [UInt8] {
        Array("le=\"\(bound)\"} ".utf8)
    }

    /// Durations in nanoseconds, exposed as seconds.
    static let seconds = HistogramBuckets(seconds: MetricsConfiguration.defaultBuckets)

    /// Durations in nanoseconds, exposed as seconds.
    /// - Parameter bounds: Ascending bounds in seconds, at most ``MetricsConfiguration/maxBuckets``; further ones are
    ///   ignored.
    init(seconds bounds: [Double]) {
        let known = bounds.prefix(Self.slots - 1).map {
            (ticks: UInt64(max(0, $0 * 1e9).rounded()), text: Self.text(ofSeconds: $0))
        }
        self.init(known, ticksPerUnit: 1_000_000_000)
    }

    /// The shortest decimal text: `0.0001`, `2.5` or `10`.
    private static func text(ofSeconds bound: Double) -> String {
        let text = bound.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// Values of unknown meaning recorded by libraries: powers of ten, stored in thousandths.
    static let magnitudes = HistogramBuckets(
        [
            (1_000, "1"), (10_000, "10"), (100_000, "100"), (1_000_000, "1000"), (10_000_000, "10000"),
            (100_000_000, "100000"), (1_000_000_000, "1e+06"), (10_000_000_000, "1e+07"),
            (100_000_000_000, "1e+08"), (1_000_000_000_000, "1e+09"),
        ], ticksPerUnit: 1_000)
}
