import Logging
import NIOCore
import Synchronization

/// Reports the state of the gateway to the service manager: ready once every listener is bound, reloading, stopping, and
/// one line of status for `systemctl status`.
final class ServiceStatusNotifier: Sendable {
    /// The parts of the gateway that must listen before it is ready.
    enum Part: Sendable, Hashable {
        case clients
        case admin
        case control
    }

    private struct State {
        var missing: Set<Part>
        var isReloading = false
        var isStopping = false
        var serving = "Serving"
        var failure: String?

        var isServing: Bool { missing.isEmpty && !isStopping }
        var status: String { "STATUS=\(serving)" + (failure.map { "; last reload failed: \($0)" } ?? "") }
    }

    private let send: @Sendable (String) -> Void
    private let uptime: @Sendable () -> UInt64
    private let state: Mutex<State>

    /// - Parameters:
    ///   - parts: The parts that will listen; at least one.
    ///   - uptime: Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
    ///   - send: Sends a message to the service manager.
    init(
        awaiting parts: Set<Part>, uptime: @escaping @Sendable () -> UInt64 = { NIODeadline.now().uptimeNanoseconds },
        send: @escaping @Sendable (String) -> Void
    ) {
        state = Mutex(State(missing: parts))
        self.uptime = uptime
        self.send = send
    }

    /// A part of the gateway listens.
    /// - Parameter addresses: The addresses of clients' listeners, for the status.
    func started(_ part: Part, addresses: [String] = []) {
        update { state in
            if !addresses.isEmpty { state.serving = "Serving on " + addresses.joined(separator: ", ") }
            guard state.missing.remove(part) != nil, state.isServing else { return nil }
            return "READY=1\n\(state.status)"
        }
    }

    /// A reload has begun or ended. The service manager gets both or neither.
    func reload(_ progress: ReloadProgress) {
        let microseconds = uptime() / 1_000
        update { state in
            guard state.isServing else { return nil }
            switch progress {
            case .began:
                state.isReloading = true
                return "RELOADING=1\nMONOTONIC_USEC=\(microseconds)\nSTATUS=Reloading the configuration"
            case .ended:
                defer { state.isReloading = false }
                return state.isReloading ? "READY=1\n\(state.status)" : state.status
            }
        }
    }

    /// Keeps the outcome of a reload for the status, which is sent when the reload ends.
    func noteReload(_ outcome: ReloadOutcome) {
        state.withLock { $0.failure = outcome.problems.first.map(Self.line) }
    }

    /// The gateway stops: it accepts no more requests, and those in flight complete.
    func stopping() {
        update { state in
            guard !state.isStopping else { return nil }
            state.isStopping = true
            return "STOPPING=1\nSTATUS=Stopping; requests in flight complete"
        }
    }

    /// Messages are sent within the lock, in the order of the changes; they are few.
    private func update(_ change: (inout State) -> String?) {
        state.withLock { state in
            if let message = change(&state) { send(message) }
        }
    }

    /// A text without line breaks, which would begin another variable, of at most 300 characters.
    private static func line(_ text: String) -> String {
        String(text.prefix(300).map { $0.isNewline ? " " : $0 })
    }
}

extension ServiceStatusNotifier {
    /// Creates the notifier of a process. Messages that cannot be sent are logged.
    /// - Parameter socket: `nil` if no service manager started the process; then nothing is sent.
    convenience init(awaiting parts: Set<Part>, socket: NotifySocket?, logger: Logger) {
        self.init(awaiting: parts) { message in
            guard let socket else { return }
            let error = socket.send(message)
            guard error != 0 else { return }
            logger.warning(
                "the service manager cannot be notified",
                metadata: ["address": "\(socket.address)", "reason": "\(IOError(errnoCode: error, reason: "sendto"))"])
        }
    }
}
