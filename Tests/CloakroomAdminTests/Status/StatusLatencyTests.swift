import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Latencies of the status page")
struct StatusLatencyTests {
    /// Records requests of a route, one per duration.
    private func serve(_ route: Int, _ microseconds: [UInt64], in loop: LoopTelemetry) {
        let empty: [UInt8] = []
        for duration in microseconds {
            var record = ExchangeRecord()
            record.routeIndex = route
            record.status = 200
            record.durationNanoseconds = duration * 1_000
            loop.requestStarted(scheme: record.scheme, method: record.method)
            loop.requestCompleted(record, method: empty.span, path: empty.span)
        }
    }

    /// Runs with a gateway's telemetry and its status.
    private func reporting(_ body: (LoopTelemetry, StatusReporter, ContinuousClock.Instant) throws -> Void) throws {
        var settings = TelemetrySettings()
        settings.isAccessLogEnabled = false
        let telemetry = GatewayTelemetry(settings: settings)
        defer { telemetry.shutdown() }
        let start = ContinuousClock.now
        let reporter = StatusReporter(
            source: SampleStatus().source, registry: telemetry.registry, startedAt: SampleStatus.now, instant: start)
        let loop = telemetry.makeLoopTelemetry(
            routes: [RouteLabels(name: "fast"), RouteLabels(name: "slow")], upstreams: [])
        try body(loop, reporter, start)
    }

    private func document(_ reporter: StatusReporter, at instant: ContinuousClock.Instant) -> StatusDocument {
        reporter.document(readiness: ReadinessReport(checks: []), now: SampleStatus.now, instant: instant)
    }

    @Test("Percentiles of routes and of the gateway differ from the durations by less than 1 %")
    func precision() throws {
        try reporting { loop, reporter, start in
            serve(0, Array(repeating: 520, count: 99) + [3_300], in: loop)
            serve(1, Array(repeating: 61_000, count: 10), in: loop)
            let document = document(reporter, at: start + .seconds(10))
            let fast = try require(document.routes.first { $0.name == "fast" }?.requests.latency)
            #expect(abs(fast.p50Ms - 0.52) < 0.0052 + 0.005)
            #expect(abs(fast.p99Ms - 0.52) < 0.0052 + 0.005)
            let slow = try require(document.routes.first { $0.name == "slow" }?.requests.latency)
            #expect(abs(slow.p50Ms - 61) < 0.61)
            let all = try require(document.traffic.latency)
            #expect(abs(all.p50Ms - 0.52) < 0.0052 + 0.005)
            #expect(abs(all.p95Ms - 61) < 0.61)
        }
    }

    @Test("The durations of fewer requests than p95 needs are listed, shortest first")
    func samples() throws {
        try reporting { loop, reporter, start in
            serve(0, [61_000, 520, 3_300], in: loop)
            let latency = try require(document(reporter, at: start + .seconds(10)).traffic.latency)
            let samples = try require(latency.samplesMs)
            expect(samples.count, equals: 3)
            expect(zip(samples, [0.52, 3.3, 61]).allSatisfy { abs($0 - $1) < $1 / 100 + 0.005 })
            expect(latency.tooFew, equals: ["p95_ms", "p99_ms"])
            expect(latency.p95Ms, equals: samples.last)
            serve(0, Array(repeating: 520, count: 17), in: loop)
            expect(document(reporter, at: start + .seconds(10)).traffic.latency?.samplesMs, equals: nil)
        }
    }

    @Test("Only requests of the window count")
    func window() throws {
        try reporting { loop, reporter, start in
            serve(0, Array(repeating: 50_000, count: 100), in: loop)
            reporter.takeSample(at: start + .seconds(10))
            serve(0, Array(repeating: 2_000, count: 5), in: loop)
            let later = document(reporter, at: start + StatusHistory.length + .seconds(11))
            let latency = try require(later.routes.first?.requests.latency)
            #expect(abs(latency.p99Ms - 2) < 0.02 + 0.005)
            expect(later.routes.first?.requests.recent, equals: 5)
            reporter.takeSample(at: start + .seconds(20))
            let trend = reporter.trends.trend(of: .all).quarter.compactMap(\.p50Milliseconds)
            expect(trend.count, equals: 2)
            expect(zip(trend, [50, 2]).allSatisfy { abs($0 - $1) < $1 / 100 })
        }
    }
}
