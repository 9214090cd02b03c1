public import Metrics
import Synchronization

/// One series of a histogram. Each bucket counts only its own values; they are added up when scraped, so that recording
/// is two relaxed atomic additions.
public final class HistogramHandle: TimerHandler, RecorderHandler {
    let buckets: HistogramBuckets
    private let counts = InlineArray<16, Atomic<UInt64>> { _ in Atomic<UInt64>(0) }
    /// Wraps after 584 years of summed durations; a scraper takes that for a restart, as it should.
    private let sum = Atomic<UInt64>(0)

    init(buckets: HistogramBuckets) {
        self.buckets = buckets
    }

    /// Records a duration.
    public func record(nanoseconds: UInt64) {
        record(ticks: nanoseconds)
    }

    /// Records a duration; a negative one, from a clock that was set back, counts as zero.
    public func recordNanoseconds(_ duration: Int64) {
        record(ticks: UInt64(max(0, duration)))
    }

    /// Records a plain number; negative ones count as zero.
    public func record(_ value: Int64) {
        record(Double(value))
    }

    /// Records a plain number; negative ones and NaN count as zero.
    public func record(_ value: Double) {
        let ticks = (value * buckets.ticksPerUnit).rounded()
        record(ticks: ticks > 0 ? UInt64(exactly: min(ticks, 0x1p62)) ?? 0 : 0)
    }

    private func record(ticks: UInt64) {
        var slot = 0
        let bounds = buckets.bounds
        while slot < bounds.count, ticks > bounds[slot] { slot += 1 }
        counts[slot].wrappingAdd(1, ordering: .relaxed)
        sum.wrappingAdd(ticks, ordering: .relaxed)
    }

    /// What was recorded so far. The buckets are read one after the other while others record, so `sum` may be ahead or
    /// behind by what was being recorded meanwhile; the count is the buckets' own.
    func snapshot() -> HistogramSnapshot {
        var cumulative: [UInt64] = []
        cumulative.reserveCapacity(buckets.bounds.count + 1)
        var running: UInt64 = 0
        for slot in 0...buckets.bounds.count {
            running &+= counts[slot].load(ordering: .relaxed)
            cumulative.append(running)
        }
        return HistogramSnapshot(
            boundTexts: buckets.boundTexts, cumulative: cumulative,
            sum: Double(sum.load(ordering: .relaxed)) / buckets.ticksPerUnit)
    }

    /// How many values were recorded.
    public var count: UInt64 { snapshot().count }
}
