public import CloakroomCore

/// The families that the gateway records, under the names and labels of OpenTelemetry's HTTP conventions in their
/// Prometheus spelling. What is known in advance is exposed from the start with zero.
///
/// Methods that return a handle look it up under a lock: call them when a route table or a pool is made and keep the
/// handle. Methods that record may be called at any time.
public struct GatewayMetrics: Sendable {
    let registry: PrometheusRegistry

    /// Log lines of traffic that were dropped: `cloakroom_telemetry_dropped_total{signal="logs"}`.
    public let droppedLogs: CounterHandle
    /// Audit lines, warnings and errors that were dropped: `cloakroom_telemetry_dropped_total{signal="events"}`.
    public let droppedEvents: CounterHandle
    /// Spans that were dropped: `cloakroom_telemetry_dropped_total{signal="traces"}`.
    public let droppedTraces: CounterHandle
    /// `cloakroom_sessions_active`.
    public let sessionsActive: GaugeHandle

    private let sessionsCreated: CounterHandle
    private let sessionsEnded: [SessionEndReason: CounterHandle]
    private let signIns: [AccountEvent.SignInOutcome: CounterHandle]
    private let signInDurations: [AccountEvent.SignInOutcome: HistogramHandle]
    private let signOuts: [SignOutKind: CounterHandle]
    private let refreshes: [AccountEvent.RefreshResult: CounterHandle]
    private let refreshDurations: [AccountEvent.RefreshResult: HistogramHandle]
    private let config: ConfigMetrics

    /// Registers the families.
    public init(registry: PrometheusRegistry) {
        self.registry = registry
        droppedLogs = registry.counter(
            PrometheusRegistry.droppedName, help: PrometheusRegistry.droppedHelp, labels: [("signal", "logs")])
        droppedEvents = registry.counter(
            PrometheusRegistry.droppedName, help: PrometheusRegistry.droppedHelp, labels: [("signal", "events")])
        droppedTraces = registry.counter(
            PrometheusRegistry.droppedName, help: PrometheusRegistry.droppedHelp, labels: [("signal", "traces")])
        sessionsActive = registry.gauge(
            "cloakroom_sessions_active",
            help: "Sessions that are alive, as far as this process knows; 0 where only a server could count them.")
        sessionsCreated = registry.counter("cloakroom_sessions_created_total", help: "Sessions made by signing in.")
        sessionsEnded = Self.handles("reason") {
            registry.counter("cloakroom_sessions_ended_total", help: "Sessions that ended, by reason.", labels: $0)
        }
        signIns = Self.handles("outcome") {
            registry.counter("cloakroom_sign_ins_total", help: "Attempts to sign in, by outcome.", labels: $0)
        }
        signInDurations = Self.handles("outcome") {
            registry.histogram(
                "cloakroom_sign_in_duration_seconds", help: "Time that an attempt to sign in took, by outcome.",
                labels: $0)
        }
        signOuts = Self.handles("kind") {
            registry.counter("cloakroom_sign_outs_total", help: "Requests to sign out, by kind.", labels: $0)
        }
        refreshes = Self.handles("outcome") {
            registry.counter("cloakroom_token_refreshes_total", help: "Renewals of tokens, by outcome.", labels: $0)
        }
        refreshDurations = Self.handles("outcome") {
            registry.histogram(
                "cloakroom_token_refresh_duration_seconds", help: "Time that a renewal of tokens took, by outcome.",
                labels: $0)
        }
        config = ConfigMetrics(registry: registry)
    }

    /// One handle for each value of a label.
    private static func handles<Value: CaseIterable & Hashable & RawRepresentable<String>, Handle>(
        _ label: String, _ make: ([(String, String)]) -> Handle
    ) -> [Value: Handle] {
        Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, make([(label, $0.rawValue)])) })
    }
}

extension GatewayMetrics {
    /// An attempt to sign in has ended.
    public func recordSignIn(_ outcome: AccountEvent.SignInOutcome, durationNanoseconds: UInt64) {
        signIns[outcome]?.increment()
        signInDurations[outcome]?.record(nanoseconds: durationNanoseconds)
    }

    /// Somebody signed out.
    public func recordSignOut(_ kind: SignOutKind) {
        signOuts[kind]?.increment()
    }

    /// A renewal of tokens has ended.
    public func recordRefresh(_ result: AccountEvent.RefreshResult, durationNanoseconds: UInt64) {
        refreshes[result]?.increment()
        refreshDurations[result]?.record(nanoseconds: durationNanoseconds)
    }

    /// A session was made. ``sessionsActive`` is the store's to set.
    public func recordSessionCreated() {
        sessionsCreated.increment()
    }

    /// Sessions have ended.
    public func recordSessionEnded(_ reason: SessionEndReason, count: Int = 1) {
        sessionsEnded[reason]?.increment(by: Int64(count))
    }

    /// The configuration was loaded when the process started: `cloakroom_config_last_reload_successful` is 1, and
    /// `cloakroom_config_last_reload_success_timestamp_seconds` is now. It does not count as a reload.
    public func recordStart(now: Timestamp) {
        config.started(now: now)
    }

    /// An attempt to load the configuration anew has ended: `cloakroom_config_reloads_total{outcome}`, and the two gauges
    /// of ``recordStart(now:)``. A failure leaves the timestamp of the last success as it is.
    public func recordReload(isSuccess: Bool, now: Timestamp) {
        config.reloaded(isSuccess: isSuccess, now: now)
    }
}

extension GatewayMetrics {
    /// `cloakroom_upstream_connections`: one pool's connections in one state; pools add to it and take away from it.
    public func upstreamConnections(upstream: String, state: UpstreamConnectionState) -> GaugeHandle {
        registry.gauge(
            "cloakroom_upstream_connections", help: "Connections to upstreams, by what they are doing.",
            labels: [("upstream", upstream), ("state", state.rawValue)])
    }

    /// `cloakroom_upstream_pending_requests`: exchanges that wait for a connection.
    public func upstreamPendingRequests(upstream: String) -> GaugeHandle {
        registry.gauge(
            "cloakroom_upstream_pending_requests", help: "Exchanges that wait for an upstream connection.",
            labels: [("upstream", upstream)])
    }

    /// `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state` of one target. It counts as closed until
    /// ``UpstreamCircuitMetrics/set(_:)`` says otherwise.
    /// - Parameters:
    ///   - upstream: The upstream's configured name.
    ///   - target: The target's configured address, as ``UpstreamStatus/Target/address`` has it.
    public func upstreamCircuit(upstream: String, target: String) -> UpstreamCircuitMetrics {
        UpstreamCircuitMetrics(registry: registry, upstream: upstream, target: target)
    }

    /// `cloakroom_upstream_retries_total`. The reason is a constant of the source, so that it is bounded.
    public func upstreamRetries(upstream: String, reason: StaticString) -> CounterHandle {
        registry.counter(
            "cloakroom_upstream_retries_total", help: "Requests sent to an upstream again, by reason.",
            labels: [("upstream", upstream), ("reason", reason.description)])
    }

    /// `cloakroom_response_fields_removed_total`: fields of an upstream's responses that the client must not get. The reason
    /// is a constant of the source.
    public func removedResponseFields(upstream: String, reason: StaticString) -> CounterHandle {
        registry.counter(
            "cloakroom_response_fields_removed_total",
            help: "Fields removed from responses of an upstream because of what they hold, by reason.",
            labels: [("upstream", upstream), ("reason", reason.description)])
    }

    /// The families of the session store.
    /// - Parameters:
    ///   - backend: The kind of store.
    ///   - operations: What it may be asked to do, by bounded names.
    public func sessionStore(backend: String, operations: [String]) -> SessionStoreMetrics {
        SessionStoreMetrics(registry: registry, backend: backend, operations: operations)
    }

    /// `cloakroom_wire_rejections_total`: requests that were refused as malformed. The kind is a constant of the source.
    public func wireRejections(kind: StaticString) -> CounterHandle {
        registry.counter(
            "cloakroom_wire_rejections_total", help: "Requests refused because of their form, by what was wrong.",
            labels: [("kind", kind.description)])
    }

    /// `cloakroom_build_info`, always 1.
    func setBuildInfo(version: String, commit: String) {
        registry.gauge(
            "cloakroom_build_info", help: "The version that is running.",
            labels: [("version", version), ("commit", commit)]
        ).set(1)
    }
}
