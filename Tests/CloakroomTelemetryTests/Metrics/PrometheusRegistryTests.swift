import TestSupport
import Testing

@testable import CloakroomTelemetry

extension PrometheusRegistry {
    /// What a scrape returns.
    var text: String { String(decoding: exposition(), as: UTF8.self) }
}

@Suite("Prometheus registry")
struct PrometheusRegistryTests {
    private let registry = PrometheusRegistry()

    @Test("The same name and labels return the same handle, for any order of the labels")
    func sameHandle() {
        let one = registry.counter("c_total", help: "C.", labels: [("a", "1"), ("b", "2")])
        let two = registry.counter("c_total", help: "C.", labels: [("b", "2"), ("a", "1")])
        expect(one === two)
    }

    @Test("A series beyond the limit records, is not exposed and is counted")
    func seriesCap() {
        let registry = PrometheusRegistry(seriesLimit: 2)
        for index in 0..<5 {
            registry.counter("c_total", help: "C.", labels: [("i", "\(index)")]).increment()
        }
        let beyond = registry.counter("c_total", help: "C.", labels: [("i", "9")])
        beyond.increment(by: 7)
        expect(beyond.value, equals: 7)
        expect(registry.text.contains("c_total{i=\"1\"} 1\n"))
        expect(!registry.text.contains("c_total{i=\"2\"}"))
        expect(registry.text.contains("cloakroom_telemetry_dropped_total{signal=\"metrics\"} 4\n"))
        expect(registry.counter("c_total", help: "C.", labels: [("i", "0")]).value, equals: 1)
    }

    @Test("Counters of dropped telemetry are exempt from the limit")
    func droppedIsExempt() {
        let metrics = GatewayMetrics(registry: PrometheusRegistry(seriesLimit: 1))
        metrics.droppedLogs.increment(by: 3)
        metrics.droppedTraces.increment(by: 4)
        let exposed = metrics.registry.text
        expect(exposed.contains("cloakroom_telemetry_dropped_total{signal=\"logs\"} 3\n"))
        expect(exposed.contains("cloakroom_telemetry_dropped_total{signal=\"traces\"} 4\n"))
    }

    @Test("A name that another kind uses returns a working handle that is not exposed")
    func kindClash() {
        registry.counter("thing", help: "T.").increment(by: 5)
        let gauge = registry.gauge("thing", help: "T.")
        gauge.set(9)
        let fraction = registry.floatingPointCounter("thing", help: "T.")
        fraction.increment(by: 0.5)
        registry.histogram("thing", help: "T.").record(nanoseconds: 1)
        expect(gauge.value, equals: 9)
        expect(fraction.value, equals: 0.5)
        expect(registry.text.contains("# TYPE thing gauge\nthing 9\n"))
        expect(registry.text.contains("# TYPE thing_total counter\nthing_total 5\n"))
        expect(registry.text.contains("{signal=\"metrics\"} 2\n"))
    }

    @Test("A histogram's sample names cannot be used by another family, in either order")
    func sampleNameClash() {
        _ = registry.histogram("a_seconds", help: "A.")
        registry.gauge("a_seconds_count", help: "A.").set(1)
        registry.gauge("b_seconds_sum", help: "B.").set(1)
        registry.histogram("b_seconds", help: "B.").record(nanoseconds: 1)
        expect(!registry.text.contains("TYPE a_seconds_count"))
        expect(!registry.text.contains("TYPE b_seconds histogram"))
        expect(registry.text.contains("{signal=\"metrics\"} 2\n"))
    }

    @Test("A counter's name ends in _total, whatever name was given")
    func totalSuffix() {
        expect(registry.counter("requests", help: "R.") === registry.counter("requests_total", help: "R."))
    }

    @Test("Labels that are equal only under Unicode equivalence are two series")
    func canonicalEquivalence() {
        let composed = registry.gauge("g", help: "G.", labels: [("l", "\u{e9}")])
        expect(composed !== registry.gauge("g", help: "G.", labels: [("l", "e\u{301}")]))
        expect(composed === registry.gauge("g", help: "G.", labels: [("l", "\u{e9}")]))
    }

    @Test("Counters never decrease")
    func monotonic() {
        let whole = registry.counter("w_total", help: "W.")
        whole.increment(by: 3)
        whole.increment(by: -2)
        let fraction = registry.floatingPointCounter("f_total", help: "F.")
        fraction.increment(by: 1.5)
        fraction.increment(by: -1)
        fraction.increment(by: .nan)
        expect(whole.value, equals: 3)
        expect(fraction.value, equals: 1.5)
    }

    @Test("Recording from several threads concurrently loses nothing")
    func concurrentRecording() async {
        let (tasks, rounds) = (8, 5_000)
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    let counter = registry.counter("c_total", help: "C.")
                    let gauge = registry.floatingPointGauge("g", help: "G.")
                    let level = registry.gauge("l", help: "L.")
                    let histogram = registry.histogram("h_seconds", help: "H.")
                    for round in 0..<rounds {
                        counter.increment()
                        gauge.increment(by: 0.5)
                        level.add(round.isMultiple(of: 2) ? 1 : -1)
                        histogram.record(nanoseconds: UInt64(task) * 20_000_000)
                    }
                }
            }
        }
        expect(registry.counter("c_total", help: "C.").value, equals: 40_000)
        expect(registry.floatingPointGauge("g", help: "G.").value, equals: 20_000)
        expect(registry.gauge("l", help: "L.").value, equals: 0)
        let snapshot = registry.histogram("h_seconds", help: "H.").snapshot()
        expect(snapshot.count, equals: 40_000)
        expect(snapshot.cumulative.first, equals: 5_000)
        expect(snapshot.sum, equals: 2_800)
    }
}
