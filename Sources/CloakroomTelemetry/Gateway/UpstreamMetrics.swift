public import CloakroomCore

/// The metrics of one upstream. Create it once per upstream and configuration; equal names share their series.
///
/// Nothing here is used per request except ``queueTime`` (only for requests that waited), ``rejections`` and ``retries``.
/// Gauges are set at the tick of the supervisor.
public struct UpstreamMetrics: Sendable {
    /// The name of the upstream.
    public let upstream: String
    /// Connections in use by an exchange; pools change it by differences, as the next two.
    public let activeConnections: GaugeHandle
    /// Connections idle in a pool.
    public let idleConnections: GaugeHandle
    /// Requests waiting for a connection.
    public let pendingRequests: GaugeHandle
    /// Requests sent again with another access token.
    public let replays: CounterHandle
    /// `nil` for an upstream with HTTP/1.1 only.
    public let http2: UpstreamHTTP2Metrics?
    private let registry: PrometheusRegistry
    private let scope: MetricScope
    private let panic: GaugeHandle
    /// The retries that the budget permits at once.
    public let retryBudget: GaugeHandle
    /// How long requests waited for a connection.
    public let queueTime: HistogramHandle
    /// The permits of one kind.
    public let permits: [UpstreamPermitKind: GaugeHandle]
    /// Requests that were rejected before they were sent.
    public let rejections: [UpstreamRejectionCause: CounterHandle]
    /// Failed requests that were sent again, or were not although ``RetryReason`` applied.
    public let retries: [RetryReason: [UpstreamRetryOutcome: CounterHandle]]
    private let removedFields: [RemovalReason: CounterHandle]
    private let references: [ReferenceOutcome: CounterHandle]

    private enum ReferenceOutcome: String, CaseIterable {
        case rewritten, unmapped
    }

    private enum RemovalReason: String, CaseIterable {
        case injectedName = "injected_name"
        case injectedValue = "injected_value"
        case siteData = "clear_site_data"
    }

    init(registry: PrometheusRegistry, upstream: String, hasHTTP2: Bool) {
        self.registry = registry
        self.upstream = upstream
        let scope = MetricScope(registry, [("upstream", upstream)])
        self.scope = scope
        func connections(_ state: String) -> GaugeHandle {
            scope.gauge("cloakroom_upstream_connections", help: "Upstream connections, by state.", [("state", state)])
        }
        activeConnections = connections("active")
        idleConnections = connections("idle")
        pendingRequests = scope.gauge(
            "cloakroom_upstream_pending_requests", help: "Requests waiting for an upstream connection.")
        panic = scope.gauge(
            "cloakroom_upstream_panic",
            help: "Whether unusable targets of an upstream are used because none is usable.")
        retryBudget = scope.gauge(
            "cloakroom_upstream_retry_budget", help: "Retries that the budget of an upstream permits at once.")
        queueTime = scope.histogram(
            "cloakroom_upstream_queue_seconds", help: "Time that requests waited for an upstream connection.")
        permits = scope.gauges(
            "cloakroom_upstream_permits",
            help: "Permits for connections that event loops share, of an upstream: in use, and available.", by: "kind")
        rejections = scope.counters(
            "cloakroom_upstream_rejected_total",
            help: "Requests rejected because no connection to an upstream was available, by cause.", by: "cause")
        let (name, help) = (
            "cloakroom_upstream_retries_total",
            "Failed requests that were sent again to an upstream, or were not, by reason and outcome."
        )
        retries = scope.counters(name, help: help, by: "reason", "outcome")
        replays = scope.counter(
            name, help: help, [("reason", "rejected_token"), ("outcome", UpstreamRetryOutcome.sent.rawValue)])
        removedFields = scope.counters(
            "cloakroom_response_fields_removed_total",
            help: "Fields removed from upstream responses because of their content, by reason.", by: "reason")
        references = scope.counters(
            "cloakroom_references_total",
            help: "References in upstream responses on routes that rewrite paths, by outcome.", by: "outcome")
        http2 = hasHTTP2 ? UpstreamHTTP2Metrics(scope) : nil
    }

    /// The counters of one target.
    /// - Parameter target: The configured address of the target, as in ``UpstreamStatus/Target/address``.
    public func target(_ target: String) -> UpstreamTargetMetrics {
        UpstreamTargetMetrics(registry: registry, upstream: upstream, target: target)
    }

    /// The gauges of one target, or of one address of a target.
    /// - Parameters:
    ///   - target: The configured address of the target, as in ``UpstreamStatus/Target/address``.
    ///   - peer: The resolved address; `nil` without one. At most ``UpstreamPeerLimit/maxPeers`` are exposed.
    public func peer(_ peer: String?, of target: String) -> UpstreamPeerMetrics {
        UpstreamPeerMetrics(registry: registry, upstream: upstream, target: target, peer: peer ?? "")
    }

    /// The metrics of the resolution of a target's host name.
    /// - Parameter interval: The configured time between two queries.
    public func dns(target: String, interval: Duration) -> UpstreamDNSMetrics {
        UpstreamDNSMetrics(registry: registry, upstream: upstream, target: target, interval: interval)
    }

    /// Removes the series of an upstream that is no longer configured and has no request in flight, except those of its
    /// targets.
    public func unregister() { scope.close() }

    /// Sets whether unusable targets are used.
    public func setPanic(_ isPanic: Bool) { panic.set(isPanic ? 1 : 0) }

    /// Counts fields removed from a response.
    public func count(_ removed: RemovedResponseFields) {
        removedFields[.injectedName]?.increment(by: Int64(removed.injectedNames))
        removedFields[.injectedValue]?.increment(by: Int64(removed.injectedValues))
        removedFields[.siteData]?.increment(by: Int64(removed.siteData))
    }

    /// Counts the references of a response.
    public func countReferences(rewritten: Int, unmapped: Int) {
        references[.rewritten]?.increment(by: Int64(rewritten))
        references[.unmapped]?.increment(by: Int64(unmapped))
    }
}

/// Whether a failed request was sent again: the label `outcome`.
public enum UpstreamRetryOutcome: String, Sendable, CaseIterable {
    /// It was.
    case sent
    /// The budget is spent.
    case noBudget = "no_budget"
    /// Method, body, response or deadline do not permit it.
    case notReplayable = "not_replayable"
    /// There is no target to send it to.
    case noTarget = "no_target"

    /// The outcome of a retry that was not sent.
    public init(_ obstacle: RetryObstacle) {
        switch obstacle {
        case .noBudget: self = .noBudget
        case .noTarget: self = .noTarget
        case .notConfigured, .responseStarted, .tunnel, .bodyNotBuffered, .method, .retryAfter, .attempts, .deadline:
            self = .notReplayable
        }
    }
}

/// Why a request was rejected before it was sent: the label `cause`.
public enum UpstreamRejectionCause: String, Sendable, CaseIterable {
    /// The maximum number of requests waits already.
    case queueFull = "queue_full"
    /// The request waited for ``PoolConfiguration/pendingTimeout``.
    case pendingTimeout = "pending_timeout"
    /// The request waited in a congested queue for ``PoolConfiguration/congestedTimeout``.
    case congested
    /// All targets are draining, or were tried by the request.
    case noTarget = "no_target"
}

/// A kind of permit for connections to an upstream: the label `kind`. Those guaranteed to one event loop are not among
/// them.
public enum UpstreamPermitKind: String, Sendable, CaseIterable {
    /// In use, of the common half.
    case common
    /// Not in use, of the common half.
    case available
}
