import CloakroomCore
import ServiceLifecycle

/// Sends watchdog messages while every event loop runs tasks, and reports when the gateway stops.
///
/// A blocked event loop, or tasks that get no thread, end the messages; the service manager then ends the process and
/// starts it again.
struct SupervisionService: Service, Unprintable {
    let notifier: ServiceStatusNotifier
    /// The interval of watchdog messages; `nil` if none are expected.
    let watchdogInterval: Duration?
    /// Returns when every event loop has run a task.
    let passThroughLoops: @Sendable () async -> Void
    /// Sends `WATCHDOG=1`.
    let sendWatchdog: @Sendable () -> Void

    func run() async {
        await cancelWhenGracefulShutdown {
            guard let watchdogInterval else {
                // Throws only on cancellation.
                try? await gracefulShutdown()
                return
            }
            repeat {
                await passThroughLoops()
                sendWatchdog()
            } while (try? await Task.sleep(for: watchdogInterval)) != nil
        }
        notifier.stopping()
    }
}
