public import CloakroomCore
import Synchronization

/// The metrics of one OpenID Provider: `cloakroom_login…` and `cloakroom_provider_…`. Equal names share their series.
public struct IdentityMetrics: Sendable {
    /// Those of events are counted by ``GatewayMetrics/record(_:upstreams:)``.
    let begun: CounterHandle
    let logins: [AccountEvent.LoginOutcome: CounterHandle]
    let logouts: [ProviderLogoutOutcome: CounterHandle]
    /// Access tokens of clients.
    public let tokens: [AccessTokenOutcome: CounterHandle]
    /// Fetches of metadata and keys.
    public let fetches: [ProviderDocument: [ProviderFetchOutcome: CounterHandle]]
    private let gauges: MetricScope
    private let up: GaugeHandle
    private let keys: GaugeHandle
    private let keysAge: GaugeHandle

    init(registry: PrometheusRegistry, identity: String) {
        let labels = [("identity", identity)]
        let counters = MetricScope(registry, labels)
        begun = counters.counter(
            "cloakroom_logins_begun_total", help: "Browsers that were redirected to a provider.")
        logins = counters.counters(
            "cloakroom_logins_total", help: "Logins at a provider, by outcome.", by: "outcome")
        logouts = counters.counters(
            "cloakroom_provider_logouts_total", help: "Logouts that a provider reported, by outcome.", by: "outcome")
        tokens = counters.counters(
            "cloakroom_bearer_checks_total", help: "Access tokens of clients, by outcome.", by: "outcome")
        fetches = counters.counters(
            "cloakroom_provider_fetches_total", help: "Fetches of the metadata and keys of a provider, by outcome.",
            by: "document", "outcome")
        gauges = MetricScope(registry, labels)
        up = gauges.gauge("cloakroom_provider_up", help: "Whether the metadata and keys of a provider can be used.")
        keys = gauges.gauge("cloakroom_provider_keys", help: "Keys of a provider that can verify tokens.")
        keysAge = gauges.gauge(
            "cloakroom_provider_keys_age_seconds",
            help: "Time since the keys of a provider were fetched; 0 before the first fetch.")
    }

    /// Sets the gauges.
    /// - Parameter now: The wall-clock time.
    public func set(_ status: IdentityStatus, now: WallTime) {
        up.set(status.condition == .down ? 0 : 1)
        keys.set(Int64(status.keys))
        keysAge.set(status.keysFetchedAt.map { max((now - $0).components.seconds, 0) } ?? 0)
    }

    /// Removes the gauges of an identity that is no longer configured; otherwise a provider that was down would be
    /// reported as down forever.
    public func unregister() { gauges.close() }
}

/// The result of a logout that a provider reported: the label `outcome`.
public enum ProviderLogoutOutcome: String, Sendable, CaseIterable {
    /// Sessions were ended.
    case success
    /// There was no session to end, or the token was processed before.
    case noSession = "no_session"
    /// The request or its token is invalid (400).
    case rejected
    /// The store or the keys of the provider were unavailable (503); the provider sends it again.
    case unavailable

    /// The result of a logout that failed for the reason of ``AccountEvent/providerLogoutFailed(identity:reason:)``.
    public init(failedBy reason: String) { self = reason.hasSuffix("_unavailable") ? .unavailable : .rejected }
}

/// A document of a provider: the label `document`.
public enum ProviderDocument: String, Sendable, CaseIterable {
    /// The metadata (OpenID Connect Discovery 1.0 §4).
    case metadata
    /// The key set (RFC 7517 §5).
    case keys
}

/// The result of a fetch: the label `outcome`.
public enum ProviderFetchOutcome: String, Sendable, CaseIterable {
    /// The document is used.
    case success
    /// The document is rejected.
    case invalid
    /// The provider could not be reached, or its status was not 200.
    case failed
}

/// The metrics of all identities, by name. Created once per process; all methods can be called on any thread.
public final class IdentityMetricsTable: Sendable {
    private let registry: PrometheusRegistry
    let durations: [AccountEvent.LoginOutcome: HistogramHandle]
    private let metrics = Mutex<[String: IdentityMetrics]>([:])

    init(registry: PrometheusRegistry) {
        self.registry = registry
        durations = MetricScope(registry).histograms(
            "cloakroom_login_duration_seconds",
            help: "Duration of the callback of a login, without the time that the user needs, by outcome.",
            by: "outcome")
    }

    /// The metrics of one identity, created at the first call.
    public subscript(identity: String) -> IdentityMetrics {
        metrics.withLock { metrics in
            if let found = metrics[identity] { return found }
            let made = IdentityMetrics(registry: registry, identity: identity)
            metrics[identity] = made
            return made
        }
    }

    /// Sets the gauges of the identities of the current configuration, and removes those of all others.
    public func show(_ statuses: [IdentityStatus], now: WallTime) {
        for status in statuses { self[status.name].set(status, now: now) }
        let names = Set(statuses.map(\.name))
        metrics.withLock { metrics in
            for (name, removed) in metrics where !names.contains(name) {
                removed.unregister()
                metrics[name] = nil
            }
        }
    }
}
