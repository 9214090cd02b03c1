import CloakroomCore
import Logging
import Synchronization

/// Logs failed operations of a store: for each reason one line a minute, with the number of failures since the last one.
/// An outage fails each request, so a line per failure would fill the log.
final class StoreFailureLog: Sendable {
    private static let interval = Duration.seconds(60)

    private struct Entry {
        var loggedAt: ContinuousClock.Instant
        var suppressed = 0
    }

    private let logger: Logger
    private let entries = Mutex<[SessionStoreError.Reason: Entry]>([:])

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Called on any thread.
    func failed(_ operation: SessionStoreOperation, _ reason: SessionStoreError.Reason, now: ContinuousClock.Instant) {
        let suppressed: Int? = entries.withLock { entries in
            guard let last = entries[reason], now - last.loggedAt < Self.interval else {
                let suppressed = entries[reason]?.suppressed ?? 0
                entries[reason] = Entry(loggedAt: now)
                return suppressed
            }
            entries[reason]?.suppressed += 1
            return nil
        }
        guard let suppressed else { return }
        logger.warning(
            "session store operations fail",
            metadata: [
                "event": "session_store", "outcome": "failure", "operation": "\(operation.rawValue)",
                "reason": "\(reason.rawValue)", "hint": "\(reason.advice)",
                "suppressed": .stringConvertible(suppressed),
            ])
    }
}
