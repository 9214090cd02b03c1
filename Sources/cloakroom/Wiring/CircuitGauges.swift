import CloakroomCore
import CloakroomTelemetry
import Synchronization

/// Shows the circuits of all targets that are configured at the moment, and no longer those that were.
final class CircuitMetricsUpdater: Sendable {
    private struct Key: Hashable {
        let upstream: String
        let target: String
    }

    private let metrics: GatewayMetrics
    private let gauges = Mutex<[Key: UpstreamCircuitMetrics]>([:])

    init(_ metrics: GatewayMetrics) {
        self.metrics = metrics
    }

    /// To be called before a scrape: a back-off ends without anybody being told.
    func show(_ upstreams: [UpstreamStatus]) {
        gauges.withLock { gauges in
            var old = gauges
            for upstream in upstreams {
                for target in upstream.targets {
                    let key = Key(upstream: upstream.name, target: target.address)
                    old[key] = nil
                    let gauge = gauges[key] ?? metrics.upstreamCircuit(upstream: key.upstream, target: key.target)
                    gauges[key] = gauge
                    gauge.set(target.circuit)
                }
            }
            for (key, gauge) in old {
                gauge.unregister()
                gauges[key] = nil
            }
        }
    }
}
