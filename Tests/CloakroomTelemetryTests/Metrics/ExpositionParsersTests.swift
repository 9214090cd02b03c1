import CloakroomCore
import CloakroomWire
import Metrics
import TestSupport
import Testing

@testable import CloakroomTelemetry

/// Parses expositions with scrapers' own code: `promtool` and the parser of `prometheus_client`.
@Suite("Expositions in third-party parsers")
struct ExpositionParsersTests {
    private static let oddValue = "quote \" backslash \\ newline \n tab \t return \r {a=\"b\"} # é 漢 😀 \u{1}"

    /// Metrics that libraries may create, and extreme values.
    private static func oddRegistry() -> PrometheusRegistry {
        let registry = PrometheusRegistry()
        Counter(label: "http.requests-in/é", dimensions: [("9 lives", oddValue), ("__name__", "y")], factory: registry)
            .increment(by: 2)
        Timer(label: "", dimensions: [("", "none"), ("le", "mine"), ("quantile", "0.5")], factory: registry)
            .recordNanoseconds(20_000_000)
        Recorder(label: "body size", dimensions: [], aggregate: true, factory: registry).record(650)
        Gauge(label: "9.queue", factory: registry).record(1e-7)
        registry.counter("no_suffix", help: "No suffix.").increment()
        registry.counter("_total", help: "").increment()
        registry.counter("overflow_total", help: "").increment(by: .max)
        registry.counter("overflow_total", help: "").increment(by: 2)
        registry.floatingPointCounter("fraction", help: "back\\slash \"quote\"\nnewline").set(total: .nan)
        registry.floatingPointCounter("fraction", help: "").set(total: -1)
        registry.floatingPointCounter("endless_total", help: "E.").set(total: .infinity)
        for (name, value) in [
            ("nan", Double.nan), ("up", .infinity), ("down", -.infinity), ("small", Double.leastNonzeroMagnitude),
        ] {
            registry.floatingPointGauge("special", help: "S.", labels: [("v", name)]).set(value)
        }
        registry.gauge("lowest", help: "L.").set(.min)
        let emptied = registry.counter("emptied_total", help: "Nothing is left of it.")
        registry.destroyCounter(emptied)
        return registry
    }

    @Test("Both parsers read names, types, labels and values back, including unusual ones")
    func odd() throws {
        let exposition = Self.oddRegistry().exposition()
        let families = try PrometheusClientParser().parse(exposition)
        let odd = try require(families["http_requests_in___"])
        expect(odd.type, equals: "counter")
        expect(odd.samples.map(\.name), equals: ["http_requests_in____total"])
        expect(odd.samples.first?.labels, equals: ["_9_lives": Self.oddValue, "label__name__": "y"])
        expect(odd.samples.first?.value, equals: "2.0")
        let timer = try require(families["__seconds"])
        expect(timer.type, equals: "histogram")
        expect(timer.samples.count, equals: 23)
        expect(timer.samples.first?.labels, equals: ["_": "none", "le": "0.0001", "le_": "mine", "quantile": "0.5"])
        expect(timer.samples.last?.value, equals: "1.0")
        expect(families["body_size"]?.samples.first { $0.name == "body_size_sum" }?.value, equals: "650.0")
        expect(families["_9_queue"]?.samples.first?.value, equals: "1e-07")
        expect(families["no_suffix"]?.samples.first?.name, equals: "no_suffix_total")
        expect(families["_"]?.samples.first?.name, equals: "__total")
        expect(families["overflow"]?.samples.first?.value, equals: "\(Double(UInt64(Int64.max) + 2))")
        expect(families["fraction"]?.help, equals: "back\\slash \"quote\"\nnewline")
        expect(families["fraction"]?.samples.first?.value, equals: "0.0")
        expect(families["endless"]?.samples.first?.value, equals: "inf")
        expect(families["special"]?.samples.map(\.value), equals: ["-inf", "nan", "5e-324", "inf"])
        expect(families["lowest"]?.samples.first?.value, equals: "\(Double(Int64.min))")
        expect(families["emptied"] == nil)
        let (status, problems) = try Promtool().checkMetrics(exposition)
        // 3: promtool parses the text, but reports the names made for this test.
        expect(status, equals: 3, "\(problems)")
        expect(problems.contains("no help text"))
        expect(!problems.contains("error while linting"))
    }

    @Test("The gateway's metrics follow all conventions, and a parser reads them")
    func own() throws {
        let registry = PrometheusRegistry()
        let metrics = GatewayMetrics(registry: registry)
        metrics.config.recordStart(now: WallTime(seconds: 1_700_000_000))
        metrics.config.recordReload(isSuccess: false, now: WallTime(seconds: 1_700_000_100))
        metrics.upstreamCircuit(upstream: "api", target: "http://[::1]:9000").set(.open)
        let upstream = metrics.upstream("api")
        upstream.idleConnections.add(2)
        upstream.pendingRequests.add(1)
        upstream.retries[.reset]?[.sent]?.increment()
        metrics.rejections(reason: "bad_host").increment()
        metrics.sessionStore(backend: "valkey", operations: ["read"]).up.set(1)
        metrics.setBuildInfo(version: "1.2.3", commit: "abc")
        ProcessMetrics(registry: registry).update()
        var record = ExchangeRecord()
        record.status = 502
        record.upstreamDurationNanoseconds = 1_000
        _ = metrics.activeRequests(method: .get, scheme: .https)
        _ = metrics.authDecisions(route: "a", decision: .forwarded)
        metrics.serverRequestDuration(record, route: RouteLabels(name: "a \"quoted\\\nname\"", pattern: "/a")).record(
            nanoseconds: 7)
        metrics.clientRequestDuration(record, target: UpstreamTarget(upstream: "api", address: "::1", port: 9_000))
            .record(nanoseconds: 7)
        metrics.overheadDuration(route: "a").record(nanoseconds: 7)

        let (status, problems) = try Promtool().checkMetrics(registry.exposition())
        expect(status, equals: 0, "\(problems)")
        expect(empty: problems)
        let families = try PrometheusClientParser().parse(registry.exposition())
        for (name, family) in families { expect(!family.help.isEmpty, "\(name)") }
        expect(
            families["http_server_request_duration_seconds"]?.samples.first?.labels["route"],
            equals: "a \"quoted\\\nname\"")
    }
}
