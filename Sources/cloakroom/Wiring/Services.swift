import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTelemetry
import Foundation
import NIOCore
import ServiceLifecycle
import UnixSignals

extension Timestamp {
    /// What the wall clock says.
    static var now: Timestamp {
        Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
    }
}

extension SessionClock {
    /// The time by which sessions live.
    var now: Timestamp {
        // In this order: a pause in between makes the wall clock look late, and never ahead for good.
        let wall = Int64(Date().timeIntervalSince1970 * 1_000_000_000)
        let monotonic = Int64(clamping: NIODeadline.now().uptimeNanoseconds)
        return Timestamp(milliseconds: (monotonic + monotonicOffset(wall - monotonic)) / 1_000_000)
    }
}

/// Carries finished spans away, to the last one.
struct SpanExportService: Service, Unprintable {
    let telemetry: GatewayTelemetry

    func run() async throws {
        await cancelWhenGracefulShutdown { await telemetry.runExporter() }
    }
}

/// The first signal lets exchanges finish; who sends a second one does not want to wait.
enum ForcedShutdownSignal {
    /// Counts signals from here on, for as long as the process lives.
    static func watch(_ telemetry: GatewayTelemetry) async {
        // Before anything listens: a signal that came between would not be counted.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        Task.detached {
            var count = 0
            for await signal in signals {
                count += 1
                guard count > 1 else { continue }
                telemetry.shutdown()
                // By convention the status of a process that a signal ended.
                exit(128 + (signal == .sigterm ? 15 : 2))
            }
        }
    }
}

/// Serves clients once the session store can be used: otherwise the first requests after a restart would get 503. A store
/// that cannot be reached delays the listeners by ``storeWait`` at most.
struct ClientListenersService: Service, Unprintable {
    /// The longest wait for the store.
    static let storeWait = Duration.seconds(1)

    let server: GatewayServer
    let store: any SessionStore

    func run() async throws {
        let end = ContinuousClock.now + Self.storeWait
        while !store.isAvailable, !Task.isCancelled, ContinuousClock.now < end {
            // Only cancellation cuts it short, and ends the loop.
            try? await Task.sleep(for: .milliseconds(5))
        }
        try await server.run()
    }
}
