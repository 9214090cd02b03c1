public import Metrics
import Synchronization

/// One series of a histogram. Each bucket counts only its own values; a scrape accumulates them. Recording is therefore
/// two relaxed atomic additions.
public final class HistogramHandle: TimerHandler, RecorderHandler {
    let buckets: HistogramBuckets
    private let counts = InlineArray<16, Atomic<UInt64>> { _ in Atomic<UInt64>(0) }
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
    func cumulative() -> InlineArray<16, UInt64> {
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
