import CloakroomCore
import CloakroomTelemetry
import Synchronization

/// Sets the circuit gauge of each configured target and removes the gauges of targets that are no longer configured.
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

    /// To be called before each scrape: the end of a back-off triggers no event.
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
