public import CloakroomCore
import Synchronization

/// The metrics of one OpenID Provider: `cloakroom_login…` and `cloakroom_provider_…`. Equal names share their series.
public struct IdentityMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let begun: CounterHandle
    private let logins: [AccountEvent.LoginOutcome: CounterHandle]
    private let logouts: [ProviderLogoutOutcome: CounterHandle]
    private let fetches: [FetchKey: CounterHandle]
    private let up: GaugeHandle
    private let keys: GaugeHandle
    private let keysAge: GaugeHandle

    private struct FetchKey: Hashable {
        let document: ProviderDocument
        let outcome: ProviderFetchOutcome
    }

    init(registry: PrometheusRegistry, identity: String) {
        self.registry = registry
        let labels = [("identity", identity)]
        begun = registry.counter(
            "cloakroom_logins_begun_total", help: "Browsers that were redirected to a provider.", labels: labels)
        logins = GatewayMetrics.handles("outcome") {
            registry.counter(
                "cloakroom_logins_total", help: "Logins at a provider, by outcome.", labels: labels + $0)
        }
        logouts = GatewayMetrics.handles("outcome") {
            registry.counter(
                "cloakroom_provider_logouts_total", help: "Logouts that a provider reported, by outcome.",
                labels: labels + $0)
        }
        var fetches: [FetchKey: CounterHandle] = [:]
        for document in ProviderDocument.allCases {
            for outcome in ProviderFetchOutcome.allCases {
                fetches[FetchKey(document: document, outcome: outcome)] = registry.counter(
                    "cloakroom_provider_fetches_total",
                    help: "Fetches of the metadata and keys of a provider, by outcome.",
                    labels: labels + [("document", document.rawValue), ("outcome", outcome.rawValue)])
            }
        }
        self.fetches = fetches
        up = registry.gauge(
            "cloakroom_provider_up", help: "Whether the metadata and keys of a provider can be used.", labels: labels)
        keys = registry.gauge(
            "cloakroom_provider_keys", help: "Keys of a provider that can verify tokens.", labels: labels)
        keysAge = registry.gauge(
            "cloakroom_provider_keys_age_seconds",
            help: "Time since the keys of a provider were fetched; 0 before the first fetch.", labels: labels)
    }

    /// Counts a redirect to the provider.
    public func recordLoginBegun() { begun.increment() }

    /// Counts a login.
    public func recordLogin(_ outcome: AccountEvent.LoginOutcome) { logins[outcome]?.increment() }

    /// Counts a logout that the provider reported.
    public func recordLogout(_ outcome: ProviderLogoutOutcome) { logouts[outcome]?.increment() }

    /// Counts a fetch of metadata or keys.
    public func recordFetch(_ document: ProviderDocument, _ outcome: ProviderFetchOutcome) {
        fetches[FetchKey(document: document, outcome: outcome)]?.increment()
    }

    /// Sets the gauges.
    /// - Parameter now: The wall-clock time.
    public func set(_ status: IdentityStatus, now: Timestamp) {
        up.set(status.condition == .down ? 0 : 1)
        keys.set(Int64(status.keys))
        keysAge.set(status.keysFetchedAt.map { max((now - $0).components.seconds, 0) } ?? 0)
    }

    /// Removes the gauges of an identity that is no longer configured; otherwise a provider that was down would be
    /// reported as down forever.
    public func unregister() {
        for gauge in [up, keys, keysAge] { registry.remove(gauge) }
    }
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
    private let durations: [AccountEvent.LoginOutcome: HistogramHandle]
    private let metrics = Mutex<[String: IdentityMetrics]>([:])

    init(registry: PrometheusRegistry) {
        self.registry = registry
        durations = GatewayMetrics.handles("outcome") {
            registry.histogram(
                "cloakroom_login_duration_seconds",
                help: "Duration of the callback of a login, without the time that the user needs, by outcome.",
                labels: $0)
        }
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

    /// Records a login.
    public func recordLogin(_ outcome: AccountEvent.LoginOutcome, identity: String, durationNanoseconds: UInt64) {
        self[identity].recordLogin(outcome)
        durations[outcome]?.record(nanoseconds: durationNanoseconds)
    }

    /// Sets the gauges of the identities of the current configuration, and removes those of all others.
    public func show(_ statuses: [IdentityStatus], now: Timestamp) {
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
