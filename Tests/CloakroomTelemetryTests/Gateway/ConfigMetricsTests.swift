import CloakroomCore
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of the configuration")
struct ConfigMetricsTests {
    private static let start = WallTime(milliseconds: 1_700_000_000_250)

    private func lines(_ metrics: GatewayMetrics) -> [String] {
        metrics.registry.text.split(separator: "\n").map(String.init)
            .filter { $0.hasPrefix("cloakroom_config_") }
    }

    @Test("A start is a success that is not a reload")
    func start() {
        let metrics = GatewayMetrics(registry: PrometheusRegistry())
        metrics.config.recordStart(now: Self.start)
        #expect(
            lines(metrics) == [
                "cloakroom_config_last_reload_success_timestamp_seconds 1700000000.25",
                "cloakroom_config_last_reload_successful 1",
                #"cloakroom_config_reloads_total{outcome="failure"} 0"#,
                #"cloakroom_config_reloads_total{outcome="success"} 0"#,
            ])
    }

    @Test("A failed reload is reported and keeps the time of the last success; a later success clears it")
    func reloads() {
        let metrics = GatewayMetrics(registry: PrometheusRegistry())
        metrics.config.recordStart(now: Self.start)
        metrics.config.recordReload(isSuccess: false, now: Self.start + .seconds(60))
        #expect(
            lines(metrics) == [
                "cloakroom_config_last_reload_success_timestamp_seconds 1700000000.25",
                "cloakroom_config_last_reload_successful 0",
                #"cloakroom_config_reloads_total{outcome="failure"} 1"#,
                #"cloakroom_config_reloads_total{outcome="success"} 0"#,
            ])
        metrics.config.recordReload(isSuccess: true, now: Self.start + .seconds(120))
        #expect(
            lines(metrics) == [
                "cloakroom_config_last_reload_success_timestamp_seconds 1700000120.25",
                "cloakroom_config_last_reload_successful 1",
                #"cloakroom_config_reloads_total{outcome="failure"} 1"#,
                #"cloakroom_config_reloads_total{outcome="success"} 1"#,
            ])
    }
}

@Suite("Metrics of client connections")
struct ConnectionMetricsTests {
    @Test("Open connections change with each scrape, and the limit is constant")
    func connections() {
        let registry = PrometheusRegistry()
        let metrics = ListenerMetrics(registry: registry)
        metrics.setLimit(20_000)
        for count in [3, 7] {
            metrics.show(open: count)
            let lines = registry.text.split(separator: "\n")
            #expect(lines.contains("cloakroom_connections \(count)"))
            #expect(lines.contains("cloakroom_connections_limit 20000"))
        }
    }
}
