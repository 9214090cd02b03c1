public import CloakroomCore

/// The metrics of configuration reloads: `cloakroom_config_…`.
public struct ConfigMetrics: Sendable {
    private enum Outcome: String, CaseIterable {
        case success, failure
    }

    private let reloads: [Outcome: CounterHandle]
    private let lastSuccessful: GaugeHandle
    private let lastSuccess: FloatingPointGaugeHandle

    init(registry: PrometheusRegistry) {
        let scope = MetricScope(registry)
        reloads = scope.counters(
            "cloakroom_config_reloads_total", help: "Configuration reloads, by outcome.", by: "outcome")
        lastSuccessful = scope.gauge(
            "cloakroom_config_last_reload_successful",
            help: "Whether the last configuration reload succeeded; 1 before the first reload.")
        lastSuccess = scope.floatingPointGauge(
            "cloakroom_config_last_reload_success_timestamp_seconds",
            help: "Time at which the effective configuration was loaded, in seconds since 1970.")
        lastSuccessful.set(1)
    }

    /// Records the configuration loaded at start, which does not count as a reload.
    public func recordStart(now: WallTime) {
        lastSuccess.set(Double(now.milliseconds) / 1_000)
    }

    /// Records a reload. A failure does not change the time of the last success.
    public func recordReload(isSuccess: Bool, now: WallTime) {
        reloads[isSuccess ? .success : .failure]?.increment()
        if isSuccess { recordStart(now: now) }
        lastSuccessful.set(isSuccess ? 1 : 0)
    }
}

/// The metrics of a session store.
public struct SessionStoreMetrics: Sendable {
    /// `cloakroom_session_store_up`: 1 while the store is reachable, otherwise 0.
    public let up: GaugeHandle

    /// By operation.
    private let successes: [String: HistogramHandle]
    private let failures: [String: HistogramHandle]
    /// Writes that fewer replicas of the server have confirmed than configured.
    public let unconfirmed: CounterHandle?
    /// The seconds for which the primary in use was not confirmed.
    public let unconfirmedPrimary: FloatingPointGaugeHandle?
    /// Repeated writes, by kind.
    public let reasserted: [String: CounterHandle]
    /// Failed operations.
    public let errors: [SessionStoreError.Reason: CounterHandle]

    init(
        registry: PrometheusRegistry, backend: String, operations: [String], reassertedKinds: [String]
    ) {
        let scope = MetricScope(registry, [("backend", backend)])
        func durations(_ outcome: String) -> [String: HistogramHandle] {
            operations.reduce(into: [:]) { durations, operation in
                durations[operation] = scope.histogram(
                    "cloakroom_session_store_operation_duration_seconds",
                    help: "Duration of session store operations.", [("operation", operation), ("outcome", outcome)])
            }
        }
        up = scope.gauge("cloakroom_session_store_up", help: "Whether the session store is reachable.")
        successes = durations("success")
        failures = durations("error")
        // The memory store has no operations that are measured, and none that fails.
        errors =
            operations.isEmpty
            ? [:]
            : scope.counters(
                "cloakroom_session_store_errors_total", help: "Failed session store operations, by reason.",
                by: "reason")
        unconfirmed =
            reassertedKinds.isEmpty
            ? nil
            : scope.counter(
                "cloakroom_session_store_unconfirmed_writes_total",
                help: "Session store writes that fewer replicas of the server have confirmed than configured.")
        unconfirmedPrimary =
            reassertedKinds.isEmpty
            ? nil
            : scope.floatingPointGauge(
                "cloakroom_session_store_primary_unconfirmed_seconds",
                help: "Time since sentinels confirmed the primary in use; 0 while confirmed, and without sentinels.")
        reasserted = reassertedKinds.reduce(into: [:]) { reasserted, kind in
            reasserted[kind] = scope.counter(
                "cloakroom_session_store_reasserted_total",
                help: "Session store writes that a server had lost, and that were repeated.", [("kind", kind)])
        }
    }

    /// Records the result of an operation. Operations that were not registered are ignored.
    public func record(operation: String, isSuccess: Bool, nanoseconds: UInt64) {
        (isSuccess ? successes : failures)[operation]?.record(nanoseconds: nanoseconds)
    }
}

/// The reachability of one target of an upstream: `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state`.
public struct UpstreamCircuitMetrics: Sendable {
    private let scope: MetricScope
    private let healthy: GaugeHandle
    private let states: StateGauges<CircuitState>

    init(registry: PrometheusRegistry, upstream: String, target: String) {
        scope = MetricScope(registry, [("upstream", upstream), ("target", target)])
        healthy = scope.gauge(
            "cloakroom_upstream_healthy",
            help: "Whether a target of an upstream is used: 0 while its circuit is open.")
        states = StateGauges(
            scope, "cloakroom_upstream_circuit_state",
            help: "The circuit of a target of an upstream: 1 for its current state, 0 for the others.")
        if states.current == nil { set(.closed) }
    }

    /// Sets the current circuit state; see ``StateGauges/set(_:)``.
    public func set(_ state: CircuitState) {
        healthy.set(state == .open ? 0 : 1)
        states.set(state)
    }

    /// Removes the series of a target that is no longer configured; otherwise an open circuit would be reported as
    /// unhealthy forever. Call it only if no active route table contains the target.
    public func unregister() { scope.close() }
}
