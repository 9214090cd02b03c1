import CloakroomCore
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics as values")
struct MetricsSnapshotTests {
    private let registry = PrometheusRegistry()

    private func number(_ series: MetricsSnapshot.Series?) -> Double? {
        guard case .number(let value) = series?.value else { return nil }
        return value
    }

    @Test("Counters and gauges are numbers, independent of their storage")
    func numbers() {
        registry.counter("c_total", help: "C.").increment(by: 3)
        registry.floatingPointCounter("f_total", help: "F.").increment(by: 0.5)
        registry.gauge("g", help: "G.").set(-2)
        registry.floatingPointGauge("h", help: "H.").set(1.25)
        let reading = registry.snapshot()
        #expect(number(reading["c_total"].first) == 3)
        #expect(number(reading["f_total"].first) == 0.5)
        #expect(number(reading["g"].first) == -2)
        #expect(number(reading["h"].first) == 1.25)
        #expect(reading["nothing"].isEmpty)
    }

    @Test("Labels are unchanged, and their order is not significant")
    func labels() {
        registry.gauge("g", help: "G.", labels: [("route", "a \"b\"\n\\"), ("empty", "")]).set(1)
        registry.gauge("g", help: "G.", labels: [("route", "0"), ("empty", "")]).set(2)
        #expect(
            registry.snapshot()["g"].map(\.labels) == [
                ["empty": "", "route": "0"], ["empty": "", "route": "a \"b\"\n\\"],
            ])
    }

    @Test("A histogram contains bounds in seconds and cumulative counts")
    func histograms() throws {
        let handle = registry.histogram("took_seconds", help: "Time.")
        for milliseconds: UInt64 in [1, 20, 20, 20_000] { handle.record(nanoseconds: milliseconds * 1_000_000) }
        guard case .histogram(let histogram) = registry.snapshot()["took_seconds"].first?.value else {
            Issue.record("no histogram")
            return
        }
        #expect(histogram.bounds == MetricsConfiguration.defaultBuckets)
        #expect(histogram.cumulative == [0, 0, 0, 0, 1, 1, 1, 1] + Array(repeating: 3, count: 12) + [4])
        #expect(histogram.count == 4)
        #expect(histogram.sum == 20.041)
    }

    @Test("A reading is immutable, and scrape handlers run for each reading")
    func moment() {
        let gauge = registry.gauge("g", help: "G.")
        registry.onScrape { gauge.add(1) }
        let before = registry.snapshot()
        gauge.set(9)
        #expect(number(before["g"].first) == 1)
        #expect(number(registry.snapshot()["g"].first) == 10)
    }
}
