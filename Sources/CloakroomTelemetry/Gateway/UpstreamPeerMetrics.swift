public import CloakroomCore
import Synchronization

/// The gauges of one target of an upstream, or of one resolved address of it.
///
/// A host name with several addresses is one target with several peers. A target without a resolved address has the empty
/// label `peer`.
public struct UpstreamPeerMetrics: Sendable {
    private let scope: MetricScope
    private let inFlight: GaugeHandle
    private let estimate: FloatingPointGaugeHandle
    private let conditions: StateGauges<TargetCondition>

    init(registry: PrometheusRegistry, upstream: String, target: String, peer: String) {
        scope = MetricScope(registry, [("upstream", upstream), ("target", target), ("peer", peer)])
        inFlight = scope.gauge("cloakroom_upstream_in_flight", help: "Requests in flight to a target.")
        estimate = scope.floatingPointGauge(
            "cloakroom_upstream_estimate_seconds",
            help: "Estimated time to the response head of a target; 0 if unknown.")
        conditions = StateGauges(
            scope, "cloakroom_upstream_state", help: "The state of a target: 1 for its current one, 0 for the others.")
        if conditions.current == nil { set(.up) }
    }

    /// Sets the requests in flight and the estimate. Called at a tick, not per request.
    /// - Parameter estimateMicroseconds: 0 if unknown.
    public func set(inFlight requests: Int, estimateMicroseconds: UInt32) {
        inFlight.set(Int64(requests))
        estimate.set(Double(estimateMicroseconds) / 1_000_000)
    }

    /// Sets the state; see ``StateGauges/set(_:)``.
    public func set(_ condition: TargetCondition) { conditions.set(condition) }

    /// Removes the series: of an address that is no longer used, of a target that is no longer configured, or of a host
    /// name whose addresses are exposed from now on.
    public func unregister() { scope.close() }
}

/// Limits the number of exposed resolved addresses of the process to ``maxPeers``: DNS chooses them.
public final class UpstreamPeerLimit: Sendable {
    /// The maximum number of exposed resolved addresses of the process.
    public static let maxPeers = 256

    private let count = Atomic<Int>(0)

    /// Creates a limit without peers.
    public init() {}

    /// Whether another peer may be exposed. If so, ``release()`` must be called when its series are removed.
    public func acquire() -> Bool {
        let (_, count) = count.wrappingAdd(1, ordering: .relaxed)
        guard count > Self.maxPeers else { return true }
        release()
        return false
    }

    /// A peer is no longer exposed.
    public func release() { count.wrappingSubtract(1, ordering: .relaxed) }
}
