import CloakroomCore
import CloakroomTelemetry

/// Runtime state of an upstream. A class for the same reason as ``RouteRuntime``.
final class UpstreamRuntime: Sendable {
    let configuration: UpstreamConfiguration
    let targets: [TargetRuntime]
    /// Selects one of ``targets``.
    let selector: UpstreamTargets
    /// Index of its first target in ``ConfigSnapshot/targets``.
    let firstTarget: Int
    /// Its API token; `nil` without one.
    let apiToken: Secret?
    /// The field line with its API token and line end; empty without one.
    let apiTokenLine: [UInt8]
    /// `Host` value of each target.
    let hosts: [[UInt8]]
    let activeConnections: GaugeHandle
    let idleConnections: GaugeHandle
    let pendingRequests: GaugeHandle
    let retries: CounterHandle
    let replays: CounterHandle
    private let injectedNames: CounterHandle
    private let injectedValues: CounterHandle
    private let siteData: CounterHandle

    init(_ configuration: UpstreamConfiguration, _ selector: UpstreamTargets, firstTarget: Int, metrics: GatewayMetrics)
    {
        self.configuration = configuration
        self.selector = selector
        targets = selector.entries
        self.firstTarget = firstTarget
        apiToken = configuration.apiToken?.value
        apiTokenLine =
            configuration.apiToken.map { Array("\($0.header): ".utf8) + $0.value.bytes + [0x0d, 0x0a] } ?? []
        hosts = configuration.targets.map { Array($0.hostField.utf8) }
        activeConnections = metrics.upstreamConnections(upstream: configuration.name, state: .active)
        idleConnections = metrics.upstreamConnections(upstream: configuration.name, state: .idle)
        pendingRequests = metrics.upstreamPendingRequests(upstream: configuration.name)
        retries = metrics.upstreamRetries(upstream: configuration.name, reason: "stale_connection")
        replays = metrics.upstreamRetries(upstream: configuration.name, reason: "refused_token")
        injectedNames = metrics.removedResponseFields(upstream: configuration.name, reason: "injected_name")
        injectedValues = metrics.removedResponseFields(upstream: configuration.name, reason: "injected_value")
        siteData = metrics.removedResponseFields(upstream: configuration.name, reason: "clear_site_data")
    }

    /// Counts fields removed from a response.
    func count(_ removed: RemovedResponseFields) {
        injectedNames.increment(by: Int64(removed.injectedNames))
        injectedValues.increment(by: Int64(removed.injectedValues))
        siteData.increment(by: Int64(removed.siteData))
    }
}
