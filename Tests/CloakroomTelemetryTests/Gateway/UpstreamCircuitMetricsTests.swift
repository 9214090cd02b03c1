import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of upstream circuits")
struct UpstreamCircuitMetricsTests {
    private let registry = PrometheusRegistry()
    private var metrics: GatewayMetrics { GatewayMetrics(registry: registry) }

    /// The exposed state of a target, and whether it counts as healthy.
    private func shown(_ target: String) -> (states: [String], healthy: Double?) {
        func values(_ family: String) -> [(labels: [String: String], value: Double)] {
            registry.snapshot()[family].compactMap { series in
                guard series.labels["upstream"] == "api", series.labels["target"] == target,
                    case .number(let value) = series.value
                else { return nil }
                return (series.labels, value)
            }
        }
        let states = values("cloakroom_upstream_circuit_state").filter { $0.value == 1 }
        return (states.compactMap { $0.labels["state"] }, values("cloakroom_upstream_healthy").first?.value)
    }

    @Test("Exactly one of the three states is exposed, and only an open circuit is unhealthy")
    func states() {
        let circuit = metrics.upstreamCircuit(upstream: "api", target: "http://a:1")
        expect(shown("http://a:1") == (["closed"], 1))
        let expected: [(CircuitState, Double)] = [(.open, 0), (.halfOpen, 1), (.open, 0), (.closed, 1)]
        for (state, healthy) in expected {
            circuit.set(state)
            expect(shown("http://a:1") == ([state.rawValue], healthy))
        }
        expect(registry.snapshot()["cloakroom_upstream_circuit_state"].count, equals: 3)
    }

    @Test("Requesting the handles again keeps the state")
    func again() {
        metrics.upstreamCircuit(upstream: "api", target: "http://a:1").set(.open)
        _ = metrics.upstreamCircuit(upstream: "api", target: "http://a:1")
        expect(shown("http://a:1") == (["open"], 0))
    }

    @Test("A withdrawn target is no longer exposed, and the others are")
    func withdraw() {
        let gone = metrics.upstreamCircuit(upstream: "api", target: "http://a:1")
        _ = metrics.upstreamCircuit(upstream: "api", target: "http://b:1")
        gone.set(.open)
        gone.unregister()
        expect(shown("http://a:1") == ([], nil))
        expect(shown("http://b:1") == (["closed"], 1))
    }
}
