import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Resolution of histograms")
struct HistogramResolutionTests {
    /// The percentile as `histogram_quantile` of Prometheus estimates it.
    private func quantile(_ quantile: Double, of histogram: MetricsSnapshot.Histogram) -> Double {
        let rank = quantile * Double(histogram.count)
        guard let bucket = histogram.cumulative.firstIndex(where: { Double($0) >= rank }),
            bucket < histogram.bounds.count
        else { return .infinity }
        let lower = bucket == 0 ? 0 : histogram.bounds[bucket - 1]
        let before = bucket == 0 ? 0 : Double(histogram.cumulative[bucket - 1])
        let inside = Double(histogram.cumulative[bucket]) - before
        return lower + (histogram.bounds[bucket] - lower) * (rank - before) / inside
    }

    @Test("The median of a route that takes about 0.5 ms is about 0.5 ms, not 2.5 ms")
    func fastRoute() {
        let handle = PrometheusRegistry().histogram("took_seconds", help: "Time.")
        // 0.4 ms to 0.6 ms, evenly.
        for index: UInt64 in 0..<1_000 { handle.record(nanoseconds: 400_000 + index * 200) }
        let median = quantile(0.5, of: handle.snapshot())
        expect((0.0004...0.0006).contains(median))
        #expect(quantile(0.99, of: handle.snapshot()) < 0.00076)
    }
}
