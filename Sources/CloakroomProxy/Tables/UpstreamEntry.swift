import CloakroomCore
import CloakroomTelemetry

/// An upstream made ready for serving. A class for the same reason as ``RouteEntry``.
final class UpstreamEntry: Sendable {
    let plan: UpstreamPlan
    let targets: [UpstreamTargetEntry]
    /// Chooses among ``targets``.
    let selector: UpstreamTargets
    /// Index of its first target in ``GatewayTables/targets``.
    let firstTarget: Int
    /// Its API token; `nil` if it has none.
    let apiToken: Secret?
    /// The line that carries its API token, with its line end; empty if it has none.
    let apiTokenLine: [UInt8]
    /// For each target, its `Host` value.
    let hosts: [[UInt8]]
    let activeConnections: GaugeHandle
    let idleConnections: GaugeHandle
    let pendingRequests: GaugeHandle
    let retries: CounterHandle
    let replays: CounterHandle
    private let injectedNames: CounterHandle
    private let injectedValues: CounterHandle
    private let siteData: CounterHandle

    init(_ plan: UpstreamPlan, _ selector: UpstreamTargets, firstTarget: Int, metrics: GatewayMetrics) {
        self.plan = plan
        self.selector = selector
        targets = selector.entries
        self.firstTarget = firstTarget
        apiToken = plan.apiToken?.value
        apiTokenLine = plan.apiToken.map { Array("\($0.header): ".utf8) + $0.value.bytes + [0x0d, 0x0a] } ?? []
        hosts = plan.targets.map { Array($0.hostField.utf8) }
        activeConnections = metrics.upstreamConnections(upstream: plan.name, state: .active)
        idleConnections = metrics.upstreamConnections(upstream: plan.name, state: .idle)
        pendingRequests = metrics.upstreamPendingRequests(upstream: plan.name)
        retries = metrics.upstreamRetries(upstream: plan.name, reason: "stale_connection")
        replays = metrics.upstreamRetries(upstream: plan.name, reason: "refused_token")
        injectedNames = metrics.removedResponseFields(upstream: plan.name, reason: "injected_name")
        injectedValues = metrics.removedResponseFields(upstream: plan.name, reason: "injected_value")
        siteData = metrics.removedResponseFields(upstream: plan.name, reason: "clear_site_data")
    }

    /// Counts what was removed from a response.
    func count(_ removed: RemovedResponseFields) {
        injectedNames.increment(by: Int64(removed.injectedNames))
        injectedValues.increment(by: Int64(removed.injectedValues))
        siteData.increment(by: Int64(removed.siteData))
    }
}
