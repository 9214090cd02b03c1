public import CloakroomCore

/// The metrics of one upstream. Create it once per upstream and configuration; equal names share their series.
///
/// Nothing here is called per request except ``recordQueueTime(nanoseconds:)`` (only for requests that waited),
/// ``countRejection(_:)`` and ``countRetry(_:outcome:)``. Gauges are set at the tick of the supervisor.
public struct UpstreamMetrics: Sendable {
    /// The name of the upstream.
    public let upstream: String
    private let registry: PrometheusRegistry
    private let panic: GaugeHandle
    private let retryBudget: GaugeHandle
    private let queueTime: HistogramHandle
    private let permits: [UpstreamPermitKind: GaugeHandle]
    private let rejections: [UpstreamRejectionCause: CounterHandle]
    private let retries: [RetryKey: CounterHandle]

    private struct RetryKey: Hashable {
        let reason: RetryReason
        let outcome: UpstreamRetryOutcome
    }

    init(registry: PrometheusRegistry, upstream: String) {
        self.registry = registry
        self.upstream = upstream
        let labels = [("upstream", upstream)]
        panic = registry.gauge(
            "cloakroom_upstream_panic",
            help: "Whether unusable targets of an upstream are used because none is usable.", labels: labels)
        retryBudget = registry.gauge(
            "cloakroom_upstream_retry_budget", help: "Retries that the budget of an upstream permits at once.",
            labels: labels)
        queueTime = registry.histogram(
            "cloakroom_upstream_queue_seconds", help: "Time that requests waited for an upstream connection.",
            labels: labels)
        permits = GatewayMetrics.handles("kind") {
            registry.gauge(
                "cloakroom_upstream_permits",
                help: "Permits for connections that event loops share, of an upstream: in use, and available.",
                labels: labels + $0)
        }
        rejections = GatewayMetrics.handles("cause") {
            registry.counter(
                "cloakroom_upstream_rejected_total",
                help: "Requests rejected because no connection to an upstream was available, by cause.",
                labels: labels + $0)
        }
        var retries: [RetryKey: CounterHandle] = [:]
        for reason in RetryReason.allCases {
            for outcome in UpstreamRetryOutcome.allCases {
                retries[RetryKey(reason: reason, outcome: outcome)] = registry.counter(
                    GatewayMetrics.retriesName, help: GatewayMetrics.retriesHelp,
                    labels: labels + [("reason", reason.rawValue), ("outcome", outcome.rawValue)])
            }
        }
        self.retries = retries
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

    /// The metrics of HTTP/2 connections to the upstream. Not created for an upstream with HTTP/1.1 only.
    public func http2() -> UpstreamHTTP2Metrics {
        UpstreamHTTP2Metrics(registry: registry, upstream: upstream)
    }

    /// Removes the series of an upstream that is no longer configured and has no request in flight, except those of its
    /// targets.
    /// - Parameter others: Further handles of the upstream.
    public func unregister(and others: [AnyObject]) {
        for handle in others { registry.remove(handle) }
        registry.remove(panic)
        registry.remove(retryBudget)
        registry.remove(queueTime)
        for handle in permits.values { registry.remove(handle) }
        for handle in rejections.values { registry.remove(handle) }
        for handle in retries.values { registry.remove(handle) }
    }

    /// Sets whether unusable targets are used.
    public func setPanic(_ isPanic: Bool) { panic.set(isPanic ? 1 : 0) }

    /// Sets the retries that the budget permits at once.
    public func setRetryBudget(_ retries: Int) { retryBudget.set(Int64(retries)) }

    /// Sets the number of permits of one kind.
    public func setPermits(_ kind: UpstreamPermitKind, _ count: Int) { permits[kind]?.set(Int64(count)) }

    /// Records how long a request waited for a connection.
    public func recordQueueTime(nanoseconds: UInt64) { queueTime.record(nanoseconds: nanoseconds) }

    /// Counts a request that was rejected before it was sent.
    public func countRejection(_ cause: UpstreamRejectionCause) { rejections[cause]?.increment() }

    /// Counts a failed request that was sent again, or was not although ``RetryReason`` applied.
    public func countRetry(_ reason: RetryReason, outcome: UpstreamRetryOutcome) {
        retries[RetryKey(reason: reason, outcome: outcome)]?.increment()
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
