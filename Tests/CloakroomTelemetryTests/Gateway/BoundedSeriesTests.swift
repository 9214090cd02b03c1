import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Bounded series")
struct BoundedSeriesTests {
    private static let families = [
        "http_server_request_duration_seconds", "http_client_request_duration_seconds", "http_server_active_requests",
        "cloakroom_overhead_seconds", "cloakroom_auth_decisions_total",
    ]

    private func seriesCount(_ registry: PrometheusRegistry) -> Int {
        let reading = registry.snapshot()
        return reading.families.reduce(0) { $0 + $1.value.count }
    }

    @Test("100,000 different paths and methods, with or without a route, add no series")
    func randomPaths() {
        let registry = PrometheusRegistry()
        let loop = LoopTelemetry(
            metrics: GatewayMetrics(registry: registry), writer: nil,
            routes: [RouteLabels(name: "video", pattern: "/videos/{id}")],
            upstreams: [UpstreamTarget(upstream: "api", address: "::1", port: 9_000)])
        var generator = SeededGenerator(seed: 5)

        func exchange(isMatched: Bool) {
            let path = Array(
                "/videos/\(UInt64.random(in: .min ... .max, using: &generator))?q=\(generator.next())".utf8)
            let method = Array("M\(generator.next())".utf8)
            var record = ExchangeRecord()
            record.method = RequestMethod(method.span)
            record.status = isMatched ? 200 : 404
            if isMatched {
                record.routeIndex = 0
                record.decision = .forwarded
                record.upstreamIndex = 0
                record.upstreamDurationNanoseconds = 1_000
            }
            loop.requestStarted(scheme: record.scheme, method: record.method)
            loop.requestCompleted(record, method: method.span, path: path.span)
        }

        exchange(isMatched: true)
        exchange(isMatched: false)
        let atFirst = seriesCount(registry)
        for index in 0..<100_000 { exchange(isMatched: index.isMultiple(of: 2)) }
        expect(seriesCount(registry), equals: atFirst)

        let reading = registry.snapshot()
        expect(Self.families.map { reading[$0].count }, equals: [2, 1, 1, 1, 1])
        let durations = reading["http_server_request_duration_seconds"]
        expect(Set(durations.compactMap { $0.labels["http_route"] }), equals: ["/videos/{id}", ""])
        expect(Set(durations.compactMap { $0.labels["route"] }), equals: ["video", "(unmatched)"])
        expect(Set(durations.compactMap { $0.labels["http_request_method"] }), equals: ["_OTHER"])
        let counts = durations.compactMap { series -> UInt64? in
            guard case .histogram(let histogram) = series.value else { return nil }
            return histogram.count
        }
        expect(counts, equals: [50_001, 50_001])
    }
}
