import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTelemetry
import Foundation
import NIOCore
import ServiceLifecycle
import Synchronization
import UnixSignals

extension WallTime {
    /// The current wall clock time.
    static var now: WallTime {
        WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
    }
}

extension SessionClock {
    /// The current time for session expiry.
    var now: SessionTime {
        // In this order: a pause between the two readings makes the wall clock appear slow, never permanently fast.
        let wall = systemWallClock()
        let monotonic = Int64(clamping: NIODeadline.now().uptimeNanoseconds)
        return SessionTime(milliseconds: (monotonic + monotonicOffset(wall - monotonic)) / 1_000_000)
    }
}

/// Exports finished spans; at shutdown it sends the remaining ones.
struct SpanExportService: Service, Unprintable {
    let telemetry: GatewayTelemetry

    func run() async throws {
        await cancelWhenGracefulShutdown { await telemetry.runExporter() }
    }
}

/// The first SIGTERM or SIGINT shuts the services down gracefully; a second one ends the process at once.
enum ShutdownSignals {
    /// Handles both signals from this call until the process ends, also before the group runs.
    ///
    /// The group must not handle them itself: two signal sources get a signal at different times, and a source merges
    /// signals that it has not delivered. A second signal after the group has reacted could then count as one.
    static func watch(for group: ServiceGroup, _ telemetry: GatewayTelemetry) async {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        Task.detached {
            var count = 0
            for await signal in signals {
                count += 1
                guard count > 1 else {
                    await group.triggerGracefulShutdown()
                    continue
                }
                telemetry.shutdown()
                // The conventional exit status of a process ended by a signal: 128 plus its number.
                exit(128 + (signal == .sigterm ? 15 : 2))
            }
        }
    }
}

/// Starts the client listeners once the session store is available; otherwise the first requests after a restart would
/// get 503. An unreachable store delays the listeners by at most ``storeWait``.
struct ClientListenersService: Service, Unprintable {
    /// The maximum wait for the store.
    static let storeWait = Duration.seconds(1)

    let server: GatewayServer
    let store: any SessionStore

    func run() async throws {
        let end = ContinuousClock.now + Self.storeWait
        while !store.isAvailable, !Task.isCancelled, ContinuousClock.now < end {
            // `sleep` throws only on cancellation, which ends the loop.
            try? await Task.sleep(for: .milliseconds(5))
        }
        try await server.run()
    }
}

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
