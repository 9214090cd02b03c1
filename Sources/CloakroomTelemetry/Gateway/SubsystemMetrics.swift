public import CloakroomCore

/// The metrics of configuration reloads: `cloakroom_config_…`.
struct ConfigMetrics: Sendable {
    private let successes: CounterHandle
    private let failures: CounterHandle
    private let lastSuccessful: GaugeHandle
    private let lastSuccess: FloatingPointGaugeHandle

    init(registry: PrometheusRegistry) {
        func reloads(_ outcome: String) -> CounterHandle {
            registry.counter(
                "cloakroom_config_reloads_total", help: "Configuration reloads, by outcome.",
                labels: [("outcome", outcome)])
        }
        successes = reloads("success")
        failures = reloads("failure")
        lastSuccessful = registry.gauge(
            "cloakroom_config_last_reload_successful",
            help: "Whether the last configuration reload succeeded; 1 before the first reload.")
        lastSuccess = registry.floatingPointGauge(
            "cloakroom_config_last_reload_success_timestamp_seconds",
            help: "Time at which the effective configuration was loaded, in seconds since 1970.")
        lastSuccessful.set(1)
    }

    func started(now: Timestamp) {
        lastSuccess.set(Self.seconds(now))
    }

    func reloaded(isSuccess: Bool, now: Timestamp) {
        if isSuccess {
            successes.increment()
            lastSuccess.set(Self.seconds(now))
        } else {
            failures.increment()
        }
        lastSuccessful.set(isSuccess ? 1 : 0)
    }

    private static func seconds(_ time: Timestamp) -> Double {
        Double(time.milliseconds) / 1_000
    }
}

/// The metrics of a session store.
public struct SessionStoreMetrics: Sendable {
    /// `cloakroom_session_store_up`: 1 while the store is reachable, otherwise 0.
    public let up: GaugeHandle

    private let durations: [Call: HistogramHandle]
    private let unconfirmed: CounterHandle?
    private let unconfirmedPrimary: FloatingPointGaugeHandle?
    private let reasserted: [String: CounterHandle]
    private let errors: [SessionStoreError.Reason: CounterHandle]

    private struct Call: Hashable {
        let operation: String
        let isSuccess: Bool
    }

    init(
        registry: PrometheusRegistry, backend: String, operations: [String], reassertedKinds: [String]
    ) {
        up = registry.gauge(
            "cloakroom_session_store_up", help: "Whether the session store is reachable.",
            labels: [("backend", backend)])
        var durations: [Call: HistogramHandle] = [:]
        for operation in operations {
            for isSuccess in [true, false] {
                durations[Call(operation: operation, isSuccess: isSuccess)] = registry.histogram(
                    "cloakroom_session_store_operation_duration_seconds",
                    help: "Duration of session store operations.",
                    labels: [
                        ("backend", backend), ("operation", operation), ("outcome", isSuccess ? "success" : "error"),
                    ])
            }
        }
        self.durations = durations
        // The memory store has no operations that are measured, and none that fails.
        let reasons = operations.isEmpty ? [] : SessionStoreError.Reason.allCases
        errors = Dictionary(
            uniqueKeysWithValues: reasons.map { reason in
                let labels = [("backend", backend), ("reason", reason.rawValue)]
                let counter = registry.counter(
                    "cloakroom_session_store_errors_total", help: "Failed session store operations, by reason.",
                    labels: labels)
                return (reason, counter)
            })
        unconfirmed =
            reassertedKinds.isEmpty
            ? nil
            : registry.counter(
                "cloakroom_session_store_unconfirmed_writes_total",
                help: "Session store writes that fewer replicas of the server have confirmed than configured.",
                labels: [("backend", backend)])
        unconfirmedPrimary =
            reassertedKinds.isEmpty
            ? nil
            : registry.floatingPointGauge(
                "cloakroom_session_store_primary_unconfirmed_seconds",
                help: "Time since sentinels confirmed the primary in use; 0 while confirmed, and without sentinels.",
                labels: [("backend", backend)])
        var reasserted: [String: CounterHandle] = [:]
        for kind in reassertedKinds {
            reasserted[kind] = registry.counter(
                "cloakroom_session_store_reasserted_total",
                help: "Session store writes that a server had lost, and that were repeated.",
                labels: [("backend", backend), ("kind", kind)])
        }
        self.reasserted = reasserted
    }

    /// Counts writes that fewer replicas of the server have confirmed than configured.
    public func recordUnconfirmed(_ count: Int) {
        unconfirmed?.increment(by: Int64(count))
    }

    /// Sets the time for which the primary in use was not confirmed.
    public func setUnconfirmedPrimary(_ time: Duration) {
        unconfirmedPrimary?.set(time / .seconds(1))
    }

    /// Counts repeated writes. Kinds that were not registered are ignored.
    public func recordReasserted(kind: String, count: Int) {
        reasserted[kind]?.increment(by: Int64(count))
    }

    /// Counts a failed operation.
    public func recordFailure(_ reason: SessionStoreError.Reason) {
        errors[reason]?.increment()
    }

    /// Records the result of an operation. Operations that were not registered are ignored.
    public func record(operation: String, isSuccess: Bool, nanoseconds: UInt64) {
        durations[Call(operation: operation, isSuccess: isSuccess)]?.record(nanoseconds: nanoseconds)
    }
}

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
        states = GatewayMetrics.handles("state") {
            registry.gauge(
                "cloakroom_upstream_circuit_state",
                help: "The circuit of a target of an upstream: 1 for its current state, 0 for the others.",
                labels: labels + $0)
        }
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
