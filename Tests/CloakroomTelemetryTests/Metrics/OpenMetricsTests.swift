import Testing

@testable import CloakroomTelemetry

@Suite("OpenMetrics")
struct OpenMetricsTests {
    private func text(_ registry: PrometheusRegistry) -> String {
        String(decoding: registry.exposition(as: .openMetrics), as: UTF8.self)
    }

    @Test("A counter's family lacks _total, units are named, and the end is marked")
    func golden() {
        let registry = PrometheusRegistry()
        registry.floatingPointCounter("cpu_seconds_total", help: "Time \"spent\".").increment(by: 1.5)
        registry.gauge("memory_bytes", help: "Memory.").set(-3)
        registry.counter("plain", help: "Plain.", labels: [("a", "1")]).increment()
        #expect(
            text(registry) == """
                # HELP cloakroom_telemetry_dropped Dropped telemetry, by signal.
                # TYPE cloakroom_telemetry_dropped counter
                cloakroom_telemetry_dropped_total{signal="metrics"} 0
                # HELP cpu_seconds Time \\"spent\\".
                # TYPE cpu_seconds counter
                # UNIT cpu_seconds seconds
                cpu_seconds_total 1.5
                # HELP memory_bytes Memory.
                # TYPE memory_bytes gauge
                # UNIT memory_bytes bytes
                memory_bytes -3
                # HELP plain Plain.
                # TYPE plain counter
                plain_total{a="1"} 1
                # EOF

                """)
    }

    @Test("Bounds of buckets are canonical floating-point numbers")
    func bounds() {
        let registry = PrometheusRegistry()
        registry.histogram("took_seconds", help: "Time.").record(nanoseconds: 2_000_000_000)
        _ = registry.histogram("sizes", help: "Sizes.", labels: [("x", "y")], buckets: .magnitudes)
        let exposed = text(registry)
        #expect(exposed.contains("took_seconds_bucket{le=\"0.005\"} 0\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"1.0\"} 0\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"10.0\"} 1\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 2.0\ntook_seconds_count 1\n"))
        #expect(exposed.contains("sizes_bucket{x=\"y\",le=\"100000.0\"} 0\n"))
        #expect(exposed.contains("sizes_bucket{x=\"y\",le=\"1e+06\"} 0\n"))
    }

    @Test("Of families with the same OpenMetrics name only one is exposed")
    func clash() {
        let registry = PrometheusRegistry()
        registry.counter("things_total", help: "T.").increment()
        registry.gauge("things", help: "T.").set(2)
        registry.gauge("things_created", help: "T.").set(3)
        let exposed = text(registry)
        #expect(exposed.contains("things_total 1\n"))
        #expect(!exposed.contains("TYPE things gauge"))
        #expect(!exposed.contains("things_created"))
        #expect(exposed.contains("{signal=\"metrics\"} 2\n"))
    }
}
