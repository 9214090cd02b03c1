import Metrics
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of libraries")
struct MetricsFactoryTests {
    private let registry = PrometheusRegistry()

    @Test("Names and labels are mapped to Prometheus' alphabet")
    func names() {
        Counter(label: "http.requests-in/é", dimensions: [("9 lives", "x"), ("__name__", "y")], factory: registry)
            .increment(by: 2)
        expect(registry.text.contains(#"http_requests_in____total{_9_lives="x",label__name__="y"} 2"# + "\n"))
    }

    @Test("Timers are histograms in seconds")
    func timers() {
        Timer(label: "db.query", factory: registry).recordNanoseconds(20_000_000)
        expect(registry.text.contains("# TYPE db_query_seconds histogram\n"))
        expect(registry.text.contains("db_query_seconds_bucket{le=\"0.025\"} 1\n"))
        expect(registry.text.contains("db_query_seconds_sum 0.02\n"))
    }

    @Test("Plain recorders and meters are gauges, aggregating recorders are histograms")
    func recorders() {
        Gauge(label: "queue.length", factory: registry).record(12)
        let meter = Meter(label: "temperature", factory: registry)
        meter.set(20.5)
        meter.decrement(by: 1)
        let sizes = Recorder(label: "body.size", dimensions: [("le", "mine")], aggregate: true, factory: registry)
        sizes.record(650)
        sizes.record(-1)
        sizes.record(Double.infinity)
        expect(registry.text.contains("queue_length 12.0\n"))
        expect(registry.text.contains("temperature 19.5\n"))
        expect(registry.text.contains(#"body_size_bucket{le_="mine",le="1"} 1"# + "\n"))
        expect(registry.text.contains(#"body_size_bucket{le_="mine",le="1000"} 2"# + "\n"))
        expect(registry.text.contains(#"body_size_bucket{le_="mine",le="+Inf"} 3"# + "\n"))
    }

    @Test("A floating-point counter keeps its fraction")
    func floatingPointCounters() {
        let counter = FloatingPointCounter(label: "cost", factory: registry)
        counter.increment(by: 0.25)
        counter.increment(by: 0.5)
        expect(registry.text.contains("cost_total 0.75\n"))
    }

    @Test("A destroyed metric is no longer exposed, and its name is available again")
    func destroy() {
        let counter = Counter(label: "c_total", dimensions: [], factory: registry)
        counter.increment()
        expect(registry.text.contains("c_total 1\n"))
        counter.destroy()
        expect(!registry.text.contains("c_total 1\n"))
        registry.gauge("c_total", help: "C.").set(4)
        expect(registry.text.contains("# TYPE c_total gauge\nc_total 4\n"))
    }
}
