import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of the configuration")
struct ConfigMetricsTests {
    private static let start = WallTime(milliseconds: 1_700_000_000_250)
    private let metrics = GatewayMetrics(registry: PrometheusRegistry())

    private func expectMetrics(
        success: String, _ isSuccessful: Int, failures: Int, successes: Int,
        _ location: SourceLocation = #_sourceLocation
    ) {
        let lines = metrics.registry.text.split(separator: "\n").filter { $0.hasPrefix("cloakroom_config_") }
        #expect(
            lines.map(String.init) == [
                "cloakroom_config_last_reload_success_timestamp_seconds \(success)",
                "cloakroom_config_last_reload_successful \(isSuccessful)",
                #"cloakroom_config_reloads_total{outcome="failure"} \#(failures)"#,
                #"cloakroom_config_reloads_total{outcome="success"} \#(successes)"#,
            ], sourceLocation: location)
    }

    @Test(
        "A start is no reload; a failed reload is reported and keeps the time of the success, a later success clears it"
    )
    func reloads() {
        metrics.config.recordStart(now: Self.start)
        expectMetrics(success: "1700000000.25", 1, failures: 0, successes: 0)
        metrics.config.recordReload(isSuccess: false, now: Self.start + .seconds(60))
        expectMetrics(success: "1700000000.25", 0, failures: 1, successes: 0)
        metrics.config.recordReload(isSuccess: true, now: Self.start + .seconds(120))
        expectMetrics(success: "1700000120.25", 1, failures: 1, successes: 1)
    }
}

@Suite("Metrics of client connections")
struct ConnectionMetricsTests {
    @Test("Open connections change with each scrape, and the limit is constant")
    func connections() {
        let registry = PrometheusRegistry()
        let metrics = ListenerMetrics(registry: registry)
        metrics.limit.set(20_000)
        for count in [3, 7] {
            metrics.open.set(Int64(count))
            let lines = registry.text.split(separator: "\n")
            expect(lines.contains("cloakroom_connections \(count)"))
            expect(lines.contains("cloakroom_connections_limit 20000"))
        }
    }
}
