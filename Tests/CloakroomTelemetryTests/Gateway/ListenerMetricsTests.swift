import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of connections")
struct ListenerMetricsTests {
    @Test("Connections, pauses, handshakes and the lag of event loops are exposed")
    func families() {
        let registry = PrometheusRegistry()
        let metrics = GatewayMetrics(registry: registry).listeners
        metrics.limit.set(100)
        metrics.add(3, .idle)
        metrics.add(-1, .idle)
        metrics.acceptPaused(.resources)
        metrics.handshakes[.tls13]?.increment()
        metrics.failedHandshakes[.timeout]?.increment()
        metrics.lag.record(nanoseconds: 2_000_000)
        let text = registry.text
        for line in [
            "cloakroom_connections_limit 100", #"cloakroom_connections_by_state{state="idle"} 2"#,
            #"cloakroom_connections_by_state{state="new"} 0"#, "cloakroom_accept_paused_listeners 1",
            #"cloakroom_accept_pauses_total{reason="resources"} 1"#,
            #"cloakroom_tls_handshakes_total{outcome="success",version="1.3"} 1"#,
            #"cloakroom_tls_handshakes_total{outcome="success",version="1.2"} 0"#,
            #"cloakroom_tls_handshakes_total{outcome="timeout",version=""} 1"#,
            "cloakroom_event_loop_lag_seconds_count 1",
        ] {
            expect(text.contains(line + "\n"), "\(line)")
        }
        metrics.acceptResumed()
        expect(registry.text.contains("paused_listeners 0\n"))
    }
}
