public import CloakroomCore

/// The reachability of one target of an upstream: `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state`.
public struct UpstreamCircuitMetrics: Sendable {
    private let healthy: GaugeHandle
    private let states: [CircuitState: GaugeHandle]
    private let registry: PrometheusRegistry

    init(registry: PrometheusRegistry, upstream: String, target: String) {
        self.registry = registry
        let labels = [("upstream", upstream), ("target", target)]
        healthy = registry.gauge(
            "cloakroom_upstream_healthy",
            help: "Whether a target of an upstream is used: 0 while its circuit is open.", labels: labels)
        states = Dictionary(
            uniqueKeysWithValues: CircuitState.allCases.map { state in
                let handle = registry.gauge(
                    "cloakroom_upstream_circuit_state",
                    help: "The circuit of a target of an upstream: 1 for its current state, 0 for the others.",
                    labels: labels + [("state", state.rawValue)])
                return (state, handle)
            })
        // Handles that already exist keep their state.
        if states.values.allSatisfy({ $0.value == 0 }) { set(.closed) }
    }

    /// Sets the current circuit state. The gauges are not updated atomically, so calls for one target must be
    /// serialized. A concurrent scrape may see two states at 1, but never none.
    public func set(_ state: CircuitState) {
        healthy.set(state == .open ? 0 : 1)
        states[state]?.set(1)
        for (other, handle) in states where other != state { handle.set(0) }
    }

    /// Removes the series of a target that is no longer configured; otherwise an open circuit would be reported as
    /// unhealthy forever. Call it only if no active route table contains the target.
    public func unregister() {
        registry.remove(healthy)
        for handle in states.values { registry.remove(handle) }
    }
}
