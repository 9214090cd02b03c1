import CloakroomCore
import Logging
import Synchronization

/// Logs failed operations of a store: for each reason one line a minute, with the number of failures since the last one.
/// An outage fails each request, so a line per failure would fill the log.
final class StoreFailureLog: Sendable {
    private let logger: Logger
    private let lines = Mutex<[SessionStoreError.Reason: FixedWindowLimiter]>([:])

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Called on any thread.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func failed(_ operation: SessionStoreOperation, _ reason: SessionStoreError.Reason, now: UInt64) {
        let suppressed = lines.withLock {
            $0[reason, default: FixedWindowLimiter(limit: 1, window: .seconds(60))].tryAcquire(at: now)
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
