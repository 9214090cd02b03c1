import CloakroomCore
import TestSupport
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
        expect(number(reading["c_total"].first), equals: 3)
        expect(number(reading["f_total"].first), equals: 0.5)
        expect(number(reading["g"].first), equals: -2)
        expect(number(reading["h"].first), equals: 1.25)
        expect(empty: reading["nothing"])
    }

    @Test("Labels are unchanged, and their order is not significant")
    func labels() {
        registry.gauge("g", help: "G.", labels: [("route", "a \"b\"\n\\"), ("empty", "")]).set(1)
        registry.gauge("g", help: "G.", labels: [("route", "0"), ("empty", "")]).set(2)
        expect(
            registry.snapshot()["g"].map(\.labels),
            equals: [
                ["empty": "", "route": "0"], ["empty": "", "route": "a \"b\"\n\\"],
            ])
    }
}
