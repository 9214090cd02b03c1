public import CloakroomCore
import CloakroomWire

/// The metric families of the gateway, with the names and labels of OpenTelemetry's HTTP conventions in Prometheus
/// notation. Series known in advance are exposed from the start with zero.
///
/// Methods that return a handle take a lock: call them once per route table or pool and keep the handle. Methods that
/// record can be called at any time.
///
/// Folder `Gateway/`: the names, labels and handles of all metric families.
public struct GatewayMetrics: Sendable {
    let registry: PrometheusRegistry

    /// Dropped traffic log lines: `cloakroom_telemetry_dropped_total{signal="logs"}`.
    public let droppedLogs: CounterHandle
    /// Dropped audit lines, warnings and errors: `cloakroom_telemetry_dropped_total{signal="events"}`.
    public let droppedEvents: CounterHandle
    /// Dropped spans: `cloakroom_telemetry_dropped_total{signal="traces"}`.
    public let droppedTraces: CounterHandle

    /// `cloakroom_slow_clients_total` and `cloakroom_client_cap_total`.
    public let clientLimits: ClientLimitMetrics
    /// The metrics of listeners, their connections and event loops.
    public let listeners: ListenerMetrics
    /// The metrics of OpenID Providers.
    public let identities: IdentityMetricsTable

    private let sessionsCreated: CounterHandle
    private let sessionsEnded: [SessionEndReason: CounterHandle]
    private let signIns: [AccountEvent.SignInOutcome: CounterHandle]
    private let signInDurations: [AccountEvent.SignInOutcome: HistogramHandle]
    private let signOuts: [SignOutKind: CounterHandle]
    private let refreshes: [AccountEvent.RefreshResult: CounterHandle]
    private let refreshDurations: [AccountEvent.RefreshResult: HistogramHandle]
    private let unauthorizedResponses: [UnauthorizedReason: CounterHandle]
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
        clientLimits = ClientLimitMetrics(registry: registry)
        listeners = ListenerMetrics(registry: registry)
        identities = IdentityMetricsTable(registry: registry)
        sessionsCreated = registry.counter("cloakroom_sessions_created_total", help: "Sessions created by sign-in.")
        sessionsEnded = Self.handles("reason") {
            registry.counter("cloakroom_sessions_ended_total", help: "Ended sessions, by reason.", labels: $0)
        }
        signIns = Self.handles("outcome") {
            registry.counter("cloakroom_sign_ins_total", help: "Sign-in attempts, by outcome.", labels: $0)
        }
        signInDurations = Self.handles("outcome") {
            registry.histogram(
                "cloakroom_sign_in_duration_seconds", help: "Duration of sign-in attempts, by outcome.",
                labels: $0)
        }
        signOuts = Self.handles("kind") {
            registry.counter("cloakroom_sign_outs_total", help: "Sign-out requests, by kind.", labels: $0)
        }
        refreshes = Self.handles("outcome") {
            registry.counter("cloakroom_token_refreshes_total", help: "Token refreshes, by outcome.", labels: $0)
        }
        refreshDurations = Self.handles("outcome") {
            registry.histogram(
                "cloakroom_token_refresh_duration_seconds", help: "Duration of token refreshes, by outcome.",
                labels: $0)
        }
        unauthorizedResponses = Self.handles("reason") {
            registry.counter(
                "cloakroom_unauthorized_responses_total", help: "401 responses of the gateway, by reason.", labels: $0)
        }
        config = ConfigMetrics(registry: registry)
    }

    /// One handle per value of a label.
    static func handles<Value: CaseIterable & Hashable & RawRepresentable<String>, Handle>(
        _ label: String, _ make: ([(String, String)]) -> Handle
    ) -> [Value: Handle] {
        Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, make([(label, $0.rawValue)])) })
    }
}

extension GatewayMetrics {
    /// Records a sign-in attempt.
    public func recordSignIn(_ outcome: AccountEvent.SignInOutcome, durationNanoseconds: UInt64) {
        signIns[outcome]?.increment()
        signInDurations[outcome]?.record(nanoseconds: durationNanoseconds)
    }

    /// Records a sign-out.
    public func recordSignOut(_ kind: SignOutKind) {
        signOuts[kind]?.increment()
    }

    /// Records a token refresh.
    public func recordRefresh(_ result: AccountEvent.RefreshResult, durationNanoseconds: UInt64) {
        refreshes[result]?.increment()
        refreshDurations[result]?.record(nanoseconds: durationNanoseconds)
    }

    /// Records a token exchange for an upstream.
    public func recordExchange(
        _ result: AccountEvent.ExchangeResult, upstream: String, durationNanoseconds: UInt64
    ) {
        let handle = registry.histogram(
            "cloakroom_token_exchange_duration_seconds",
            help: "Duration of token exchanges for an upstream, by outcome.",
            labels: [("upstream", upstream), ("outcome", result.rawValue)])
        handle.record(nanoseconds: durationNanoseconds)
    }

    /// Records an attempt of an identity call in `http_client_request_duration_seconds`, with the labels of requests to
    /// an upstream and `call`; for calls to a provider, `upstream` is the name of the
    /// identity, which is the label `identity` too.
    public func recordIdentityCall(_ attempt: IdentityCallAttempt) {
        let status = attempt.status.map { UInt16(clamping: $0) } ?? 0
        let error = attempt.errorType ?? ((400...599).contains(status) ? String(status) : "")
        let source: [(String, String)] =
            switch attempt.source {
            case .upstream(let name): [("upstream", name)]
            case .identity(let name): [("upstream", name), ("identity", name)]
            }
        let handle = registry.histogram(
            Self.clientDurationName, help: Self.clientDurationHelp,
            labels: [
                ("http_request_method", attempt.method), ("http_response_status_code", Self.statusLabel(status)),
                ("server_address", attempt.serverAddress), ("server_port", attempt.serverPort.map(String.init) ?? ""),
                ("error_type", error), ("call", attempt.call.rawValue),
            ] + source)
        handle.record(nanoseconds: attempt.nanoseconds)
    }

    /// Records a 401 of the gateway.
    public func recordUnauthorized(_ reason: UnauthorizedReason) {
        unauthorizedResponses[reason]?.increment()
    }

    /// Records a created session.
    public func recordSessionCreated() {
        sessionsCreated.increment()
    }

    /// Records ended sessions.
    public func recordSessionEnded(_ reason: SessionEndReason, count: Int = 1) {
        sessionsEnded[reason]?.increment(by: Int64(count))
    }

    /// Records the configuration loaded at start: sets `cloakroom_config_last_reload_successful` to 1 and
    /// `cloakroom_config_last_reload_success_timestamp_seconds` to now. This does not count as a reload.
    public func recordStart(now: Timestamp) {
        config.started(now: now)
    }

    /// Records a reload: `cloakroom_config_reloads_total{outcome}` and the two gauges of ``recordStart(now:)``. A
    /// failure does not change the timestamp of the last success.
    public func recordReload(isSuccess: Bool, now: Timestamp) {
        config.reloaded(isSuccess: isSuccess, now: now)
    }
}

extension GatewayMetrics {
    /// `cloakroom_upstream_connections`: one pool's connections in one state; pools change it by differences.
    public func upstreamConnections(upstream: String, state: UpstreamConnectionState) -> GaugeHandle {
        registry.gauge(
            "cloakroom_upstream_connections", help: "Upstream connections, by state.",
            labels: [("upstream", upstream), ("state", state.rawValue)])
    }

    /// `cloakroom_upstream_pending_requests`: requests waiting for a connection.
    public func upstreamPendingRequests(upstream: String) -> GaugeHandle {
        registry.gauge(
            "cloakroom_upstream_pending_requests", help: "Requests waiting for an upstream connection.",
            labels: [("upstream", upstream)])
    }

    /// `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state` of one target. The initial state is closed
    /// until ``UpstreamCircuitMetrics/set(_:)`` changes it.
    /// - Parameters:
    ///   - upstream: The configured name of the upstream.
    ///   - target: The configured address of the target, as in ``UpstreamStatus/Target/address``.
    public func upstreamCircuit(upstream: String, target: String) -> UpstreamCircuitMetrics {
        UpstreamCircuitMetrics(registry: registry, upstream: upstream, target: target)
    }

    static let retriesName = "cloakroom_upstream_retries_total"
    static let retriesHelp = "Failed requests that were sent again to an upstream, or were not, by reason and outcome."

    /// `cloakroom_upstream_retries_total` of requests that were sent again. The reason is a source constant, which
    /// bounds the number of series. Other outcomes are counted by ``UpstreamMetrics/countRetry(_:outcome:)``.
    public func upstreamRetries(upstream: String, reason: StaticString) -> CounterHandle {
        registry.counter(
            Self.retriesName, help: Self.retriesHelp,
            labels: [
                ("upstream", upstream), ("reason", reason.description),
                ("outcome", UpstreamRetryOutcome.sent.rawValue),
            ])
    }

    /// The metric families of one upstream besides connections and circuits.
    public func upstream(_ name: String) -> UpstreamMetrics {
        UpstreamMetrics(registry: registry, upstream: name)
    }

    /// `cloakroom_response_fields_removed_total`: upstream response fields that must not reach the client. The reason
    /// is a source constant.
    public func removedResponseFields(upstream: String, reason: StaticString) -> CounterHandle {
        registry.counter(
            "cloakroom_response_fields_removed_total",
            help: "Fields removed from upstream responses because of their content, by reason.",
            labels: [("upstream", upstream), ("reason", reason.description)])
    }

    /// `cloakroom_sessions_active`. Not requested for a store that cannot count its sessions.
    public func sessionsActive() -> GaugeHandle {
        registry.gauge("cloakroom_sessions_active", help: "Active sessions in the session store.")
    }

    /// The metric families of the session store.
    /// - Parameters:
    ///   - backend: The kind of store.
    ///   - operations: The names of its operations, a bounded set.
    ///   - reassertedKinds: The kinds of writes that are repeated after a failover, a bounded set; empty for a store
    ///     without replicas of its own.
    public func sessionStore(
        backend: String, operations: [String], reassertedKinds: [String] = []
    ) -> SessionStoreMetrics {
        SessionStoreMetrics(
            registry: registry, backend: backend, operations: operations, reassertedKinds: reassertedKinds)
    }

    /// `cloakroom_rejections_total`: malformed messages and connections that were rejected. The reason is a source
    /// constant.
    public func rejections(reason: StaticString) -> CounterHandle {
        registry.counter(
            "cloakroom_rejections_total", help: "Rejected messages and connections, by reason.",
            labels: [("reason", reason.description)])
    }

    /// `cloakroom_build_info`, always 1.
    func setBuildInfo(version: String, commit: String) {
        registry.gauge(
            "cloakroom_build_info", help: "The running version.",
            labels: [("version", version), ("commit", commit)]
        ).set(1)
    }
}

/// The metric families of exchanges. ``LoopTelemetry`` requests each handle once and caches it.
extension GatewayMetrics {
    func activeRequests(method: RequestMethod, scheme: URIScheme) -> GaugeHandle {
        registry.gauge(
            "http_server_active_requests", help: "Requests in progress.",
            labels: [("http_request_method", method.label.description), ("url_scheme", scheme.name.description)])
    }

    func serverRequestDuration(_ record: borrowing ExchangeRecord, route: RouteLabels) -> HistogramHandle {
        registry.histogram(
            "http_server_request_duration_seconds",
            help: "Time from the first byte of a request to the last byte of its response.",
            labels: [
                ("http_request_method", record.method.label.description),
                ("http_route", route.pattern),
                ("route", route.name),
                ("http_response_status_code", Self.statusLabel(record.status)),
                ("url_scheme", record.scheme.name.description),
                ("network_protocol_version", record.protocolVersion.name.description),
                ("error_type", Self.errorLabel(record.errorType, status: record.status)),
            ])
    }

    func clientRequestDuration(_ record: borrowing ExchangeRecord, target: UpstreamTarget) -> HistogramHandle {
        let status = record.upstreamStatus ?? record.status
        return registry.histogram(
            Self.clientDurationName, help: Self.clientDurationHelp,
            labels: [
                ("http_request_method", record.method.label.description),
                ("http_response_status_code", Self.statusLabel(status)),
                ("server_address", target.address),
                ("server_port", target.port == 0 ? "" : String(target.port)),
                // For a client, 4xx is an error too.
                ("error_type", Self.errorLabel(record.errorType, status: status, errors: 400...599)),
                ("upstream", target.upstream),
            ])
    }

    private static let clientDurationName = "http_client_request_duration_seconds"
    private static let clientDurationHelp = "Time spent waiting for the upstream."

    func overheadDuration(route: String) -> HistogramHandle {
        registry.histogram(
            "cloakroom_overhead_seconds",
            help: "Time added by the gateway to forwarded requests: total minus upstream.",
            labels: [("route", route)])
    }

    func authDecisions(route: String, decision: ExchangeDecision) -> CounterHandle {
        registry.counter(
            "cloakroom_auth_decisions_total", help: "Authorization decisions, by route and decision.",
            labels: [("route", route), ("decision", decision.label.description)])
    }

    /// Three digits; empty if no response was sent.
    private static func statusLabel(_ status: UInt16) -> String {
        (100...999).contains(status) ? String(status) : ""
    }

    /// The error type of the gateway, otherwise the status if it is an error, as in the OpenTelemetry conventions.
    private static func errorLabel(
        _ error: ExchangeErrorType?, status: UInt16, errors: ClosedRange<UInt16> = 500...599
    ) -> String {
        if let error { return error.label.description }
        return errors.contains(status) ? String(status) : ""
    }
}

/// The actor of a sign-out: the label `kind`.
public enum SignOutKind: String, Sendable, CaseIterable {
    /// The user, for this session.
    case user
    /// The user, for all or all other sessions.
    case everywhere
    /// An operator.
    case admin
    /// An OpenID Provider.
    case provider
}

/// The state of an upstream connection: the label `state`.
public enum UpstreamConnectionState: String, Sendable, CaseIterable {
    /// In use by an exchange, or idle in the pool.
    case active, idle
}
