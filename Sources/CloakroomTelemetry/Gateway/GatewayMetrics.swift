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

    /// The metrics of slow clients, requests in flight and rate limits.
    public let clientLimits: ClientLimitMetrics
    /// The metrics of listeners, their connections and event loops.
    public let listeners: ListenerMetrics
    /// The metrics of OpenID Providers.
    public let identities: IdentityMetricsTable
    /// The metrics of configuration reloads.
    public let config: ConfigMetrics

    /// Created sessions.
    public let sessionsCreated: CounterHandle
    /// Ended sessions.
    public let sessionsEnded: [SessionEndReason: CounterHandle]
    /// 401 responses of the gateway.
    public let unauthorizedResponses: [UnauthorizedReason: CounterHandle]
    /// Requests for hosts that are not served.
    public let misdirected: [MisdirectedReason: CounterHandle]
    private let signIns: [AccountEvent.SignInOutcome: CounterHandle]
    private let signInDurations: [AccountEvent.SignInOutcome: HistogramHandle]
    private let signOuts: [SignOutKind: CounterHandle]
    private let refreshes: [AccountEvent.RefreshResult: CounterHandle]
    private let refreshDurations: [AccountEvent.RefreshResult: HistogramHandle]
    private let deviceProofs: [DeviceOutcome: CounterHandle]
    private let deviceChecks: [DeviceCheck: CounterHandle]
    /// That of most requests with a bound session, without a look-up.
    private let provenChecks: CounterHandle?

    /// Registers the families.
    public init(registry: PrometheusRegistry) {
        self.registry = registry
        droppedLogs = registry.dropped(signal: "logs")
        droppedEvents = registry.dropped(signal: "events")
        droppedTraces = registry.dropped(signal: "traces")
        clientLimits = ClientLimitMetrics(registry: registry)
        listeners = ListenerMetrics(registry: registry)
        identities = IdentityMetricsTable(registry: registry)
        let scope = MetricScope(registry)
        sessionsCreated = scope.counter("cloakroom_sessions_created_total", help: "Sessions created by sign-in.")
        sessionsEnded = scope.counters(
            "cloakroom_sessions_ended_total", help: "Ended sessions, by reason.", by: "reason")
        signIns = scope.counters("cloakroom_sign_ins_total", help: "Sign-in attempts, by outcome.", by: "outcome")
        signInDurations = scope.histograms(
            "cloakroom_sign_in_duration_seconds", help: "Duration of sign-in attempts, by outcome.", by: "outcome")
        signOuts = scope.counters("cloakroom_sign_outs_total", help: "Sign-out requests, by kind.", by: "kind")
        refreshes = scope.counters(
            "cloakroom_token_refreshes_total", help: "Token refreshes, by outcome.", by: "outcome")
        refreshDurations = scope.histograms(
            "cloakroom_token_refresh_duration_seconds", help: "Duration of token refreshes, by outcome.",
            by: "outcome")
        unauthorizedResponses = scope.counters(
            "cloakroom_unauthorized_responses_total", help: "401 responses of the gateway, by reason.", by: "reason")
        misdirected = scope.counters(
            "cloakroom_misdirected_total", help: "Requests for hosts that are not served, by reason.", by: "reason")
        config = ConfigMetrics(registry: registry)
        deviceProofs = scope.counters(
            "cloakroom_device_proofs_total", help: "Signed proofs of devices, by outcome.", by: "outcome")
        deviceChecks = scope.counters(
            "cloakroom_device_checks_total", help: "Requests with a session that is bound to a device, by outcome.",
            by: "outcome")
        provenChecks = deviceChecks[.proven]
    }
}

extension GatewayMetrics {
    /// Records an event of accounts.
    /// - Parameters:
    ///   - upstreams: The names of the upstreams that the event may refer to by index.
    ///   - app: ``AuditContext/app`` of the event.
    public func record(_ event: AccountEvent, upstreams: [String] = [], app: String? = nil) {
        switch event {
        case .signIn(let outcome, _, let duration):
            signIns[outcome]?.increment()
            signInDurations[outcome]?.record(nanoseconds: duration.wholeNanoseconds)
            if outcome == .success { countSession(of: app) }
        case .signOut: signOuts[.user]?.increment()
        case .signOutOthers: signOuts[.everywhere]?.increment()
        case .revoked: signOuts[.admin]?.increment()
        case .evicted, .revokeFailed, .identityMisconfigured: break
        case .deviceProof(let outcome, _, _): deviceProofs[outcome]?.increment()
        case .deviceCheck(let check, _): recordDeviceCheck(check)
        case .tokenRefresh(let result, _, let duration):
            refreshes[result]?.increment()
            refreshDurations[result]?.record(nanoseconds: duration.wholeNanoseconds)
        case .loginBegan(let identity): identities[identity].begun.increment()
        case .login(let outcome, let identity, _, _, let duration):
            identities[identity].logins[outcome]?.increment()
            identities.durations[outcome]?.record(nanoseconds: duration.wholeNanoseconds)
            if outcome == .success { countSession(of: app) }
        case .providerLogout(let sessions, let identity):
            identities[identity].logouts[sessions.isEmpty ? .noSession : .success]?.increment()
            if !sessions.isEmpty { signOuts[.provider]?.increment() }
        case .providerLogoutFailed(let identity, let reason):
            identities[identity].logouts[ProviderLogoutOutcome(failedBy: reason)]?.increment()
        case .tokenExchange(let result, _, let upstream, let duration):
            guard upstreams.indices.contains(upstream) else { return }
            let handle = registry.histogram(
                "cloakroom_token_exchange_duration_seconds",
                help: "Duration of token exchanges for an upstream, by outcome.",
                labels: [("upstream", upstreams[upstream]), ("outcome", result.rawValue)])
            handle.record(nanoseconds: duration.wholeNanoseconds)
        }
    }

    /// Counts a new session, if it is one of an app.
    private func countSession(of app: String?) {
        guard let app else { return }
        registry.counter(
            "cloakroom_app_sessions_created_total", help: "Sessions created by sign-in, of apps.",
            labels: [("app", app)]
        ).increment()
    }

    /// The durations of attempts of an identity call in `http_client_request_duration_seconds`, with the labels of
    /// requests to an upstream and `call`; for calls to a provider, `upstream` is the name of the
    /// identity, which is the label `identity` too.
    public func identityCallDuration(_ attempt: IdentityCallAttempt) -> HistogramHandle {
        let status = attempt.status.map { UInt16(clamping: $0) } ?? 0
        let error = attempt.errorType ?? ((400...599).contains(status) ? String(status) : "")
        let source: [(String, String)] =
            switch attempt.source {
            case .upstream(let name): [("upstream", name)]
            case .identity(let name): [("upstream", name), ("identity", name)]
            }
        return clientDuration(
            [
                ("http_request_method", attempt.method), ("http_response_status_code", Self.statusLabel(status)),
                ("server_address", attempt.serverAddress), ("server_port", attempt.serverPort.map(String.init) ?? ""),
                ("error_type", error), ("call", attempt.call.rawValue),
            ] + source)
    }

    /// Records a request with a session that is bound to a device.
    func recordDeviceCheck(_ check: DeviceCheck) {
        (check == .proven ? provenChecks : deviceChecks[check])?.increment()
    }
}

extension GatewayMetrics {
    /// `cloakroom_upstream_healthy` and `cloakroom_upstream_circuit_state` of one target. The initial state is closed
    /// until ``UpstreamCircuitMetrics/set(_:)`` changes it.
    /// - Parameters:
    ///   - upstream: The configured name of the upstream.
    ///   - target: The configured address of the target, as in ``UpstreamStatus/Target/address``.
    public func upstreamCircuit(upstream: String, target: String) -> UpstreamCircuitMetrics {
        UpstreamCircuitMetrics(registry: registry, upstream: upstream, target: target)
    }

    /// The metric families of one upstream besides circuits.
    /// - Parameter hasHTTP2: Whether its connections may use HTTP/2.
    public func upstream(_ name: String, hasHTTP2: Bool = false) -> UpstreamMetrics {
        UpstreamMetrics(registry: registry, upstream: name, hasHTTP2: hasHTTP2)
    }

    /// `cloakroom_assertions_signed_total` of an upstream.
    public func assertionsSigned(upstream: String) -> CounterHandle {
        registry.counter(
            "cloakroom_assertions_signed_total", help: "Assertions about users that were signed for an upstream.",
            labels: [("upstream", upstream)])
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
        return clientDuration([
            ("http_request_method", record.method.label.description),
            ("http_response_status_code", Self.statusLabel(status)),
            ("server_address", target.address),
            ("server_port", target.port == 0 ? "" : String(target.port)),
            // For a client, 4xx is an error too.
            ("error_type", Self.errorLabel(record.errorType, status: status, errors: 400...599)),
            ("upstream", target.upstream),
        ])
    }

    private func clientDuration(_ labels: [(String, String)]) -> HistogramHandle {
        registry.histogram(
            "http_client_request_duration_seconds", help: "Time spent waiting for the upstream.", labels: labels)
    }

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
