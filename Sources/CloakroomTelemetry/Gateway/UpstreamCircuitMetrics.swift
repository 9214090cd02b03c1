public import CloakroomCore

/// Whether one target of an upstream can be reached: `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state`.
public struct UpstreamCircuitMetrics: Sendable {
    private let healthy: GaugeHandle
    private let states: [CircuitState: GaugeHandle]
    private let registry: PrometheusRegistry

    init(registry: PrometheusRegistry, upstream: String, target: String) {
        self.registry = registry
        let labels = [("upstream", upstream), ("target", target)]
        healthy = registry.gauge(
            "cloakroom_upstream_healthy",
            help: "Whether connections are made to an upstream's target: 0 while its circuit is open.", labels: labels)
        states = Dictionary(
            uniqueKeysWithValues: CircuitState.allCases.map { state in
                let handle = registry.gauge(
                    "cloakroom_upstream_circuit_state",
                    help: "The circuit of an upstream's target: 1 for the state that it is in, 0 for the others.",
                    labels: labels + [("state", state.rawValue)])
                return (state, handle)
            })
        // Who asks for the handles again finds the state as it is.
        if states.values.allSatisfy({ $0.value == 0 }) { set(.closed) }
    }

    /// The circuit is in this state now. A target's states are set by one caller, or one after the other: the gauges are
    /// not changed in one step. A scrape in between may see two states at 1 for a moment, but never none.
    public func set(_ state: CircuitState) {
        healthy.set(state == .open ? 0 : 1)
        states[state]?.set(1)
        for (other, handle) in states where other != state { handle.set(0) }
    }

    /// Takes the target's series off the exposition, once it is no longer configured: otherwise one that was open would
    /// be reported as unhealthy for ever. Only for a target that no table in force names.
    public func unregister() {
        registry.remove(healthy)
        for handle in states.values { registry.remove(handle) }
    }
}
