import CloakroomBuild
import Foundation

/// The socket of the service manager that started the process, such as systemd: it receives the state of the service as
/// datagrams (sd_notify(3)).
///
/// Folder `Supervision/`: what a service manager and an operator on the same machine get from a running gateway and ask of
/// it.
struct NotifySocket: Sendable, Equatable {
    /// An absolute path, or `@` and an abstract name.
    let address: String
    /// The interval of watchdog messages: half of the time after which the service manager ends the process; `nil` if it
    /// expects none.
    let watchdogInterval: Duration?

    /// Reads the variables of a service manager.
    /// - Parameters:
    ///   - environment: `NOTIFY_SOCKET`, and `WATCHDOG_USEC` in microseconds, which applies to the process `WATCHDOG_PID`.
    ///   - processID: This process.
    /// - Returns: `nil` if there is no service manager, or its socket is neither a path nor an abstract name.
    init?(_ environment: [String: String], processID: Int32 = getpid()) {
        guard let address = environment["NOTIFY_SOCKET"], address.count > 1,
            address.hasPrefix("/") || address.hasPrefix("@")
        else { return nil }
        self.address = address
        let isMeant = environment["WATCHDOG_PID"].map { $0 == "\(processID)" } ?? true
        let limit = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        watchdogInterval = isMeant && limit > 0 ? .microseconds(max(limit / 2, 1)) : nil
    }

    /// Reads the variables of a service manager and removes them, so that programs started by this process do not report
    /// their state as its own. Must precede the start of other threads.
    static func take() -> NotifySocket? {
        let socket = NotifySocket(ProcessInfo.processInfo.environment)
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { unsetenv(name) }
        return socket
    }

    /// Sends a message of one or more lines `NAME=value`.
    /// - Returns: 0, or the `errno` of the failure.
    func send(_ message: String) -> Int32 { cloakroom_notify(address, message) }
}
