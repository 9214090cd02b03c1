import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Many series")
struct LargeExpositionTests {
    private static let name = "http_server_request_duration_seconds"

    private func fill(_ registry: PrometheusRegistry, routes: Int, statuses: Int) {
        let metrics = GatewayMetrics(registry: registry)
        var record = ExchangeRecord()
        // In descending order, so that each series is inserted before the existing ones.
        for route in (0..<routes).reversed() {
            for status in (0..<statuses).reversed() {
                record.status = UInt16(200 + status)
                let labels = RouteLabels(name: "route-\(route)", pattern: "/\(route)")
                metrics.serverRequestDuration(record, route: labels).record(nanoseconds: UInt64(route) * 1_000_000)
            }
        }
    }

    @Test("500 routes with 10 statuses each are all exposed, sorted and quickly")
    func manySeries() throws {
        let registry = PrometheusRegistry()
        fill(registry, routes: 500, statuses: 10)
        var exposition: [UInt8] = []
        let time = ContinuousClock().measure { exposition = registry.exposition() }
        #expect(time < .seconds(3))

        let lines = exposition.split(separator: UInt8(ascii: "\n")).filter { $0.starts(with: Self.name.utf8) }
        expect(lines.count, equals: 5_000 * 23)
        let counts = lines.map { String(decoding: $0, as: UTF8.self) }.filter { $0.hasPrefix(Self.name + "_count{") }
        expect(counts.count, equals: 5_000)
        expect(counts, equals: counts.sorted())
        expect(counts.allSatisfy { $0.hasSuffix("} 1") })
        let line = Self.name + #"_bucket{error_type="",http_request_method="_OTHER",http_response_status_code="203","#
        expect(
            lines.contains {
                $0.elementsEqual(
                    (line + #"http_route="/77",network_protocol_version="1.1",route="route-77",url_scheme="http","#
                        + #"le="0.075"} 0"#)
                        .utf8)
            })
    }

    @Test("A family holds 10,000 series; further ones work and are not exposed, but counted")
    func cap() {
        let registry = PrometheusRegistry()
        fill(registry, routes: 1_000, statuses: 10)
        let beyond = registry.histogram(Self.name, help: "", labels: [("http_route", "one more")])
        beyond.record(nanoseconds: 1)
        expect(beyond.count, equals: 1)
        expect(registry.snapshot()[Self.name].count, equals: 10_000)
        expect(registry.text.contains("cloakroom_telemetry_dropped_total{signal=\"metrics\"} 1\n"))
        expect(!registry.text.contains("one more"))
    }

    @Test("Scrapes and new series do not conflict when concurrent")
    func concurrentScrapes() async {
        let registry = PrometheusRegistry()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    for index in 0..<200 {
                        registry.counter("c_total", help: "C.", labels: [("i", "\(task)-\(index)")]).increment()
                    }
                }
                group.addTask {
                    for _ in 0..<20 {
                        expect(registry.exposition().last, equals: UInt8(ascii: "\n"))
                    }
                }
            }
        }
        expect(registry.snapshot()["c_total"].count, equals: 800)
    }
}
