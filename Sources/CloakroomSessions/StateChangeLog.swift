import Logging
import Synchronization

/// Logs a failure once and the recovery once, regardless of the attempts between.
///
/// A failure that returns within a minute is intermittent: a success between two failures does not end it, only a minute
/// without one does. So is that of a damaged file, whose intact pages can be read.
///
/// The line `session store failed` means that the gateway is not ready, until `session store recovered`.
final class SQLiteFailureLog: Sendable {
    /// The operations that can fail, each with its own outages.
    enum Operation: Sendable, Hashable, CaseIterable {
        case opening, reading, writing
        /// Reading or writing data that are damaged. Often these are single sessions, so this is no failure of the store:
        /// the store's own operations show whether others can be used.
        case damaged
    }

    private struct Outage {
        var error: SQLiteStoreError
        var failedAt: ContinuousClock.Instant
        var isIntermittent: Bool
        var isOver = false
    }

    private let interval: Duration
    private let logger: Logger
    private let episodes = Mutex<[Operation: Outage]>([:])

    init(_ logger: Logger, interval: Duration = .seconds(60)) {
        self.logger = logger
        self.interval = interval
    }

    /// Whether the store fails: whether the last line of an operation is a failure, other than of damaged data.
    var isFailing: Bool { Operation.allCases.contains { $0 != .damaged && isFailing($0) } }

    /// Whether the last line of an operation is a failure.
    func isFailing(_ operation: Operation) -> Bool {
        episodes.withLock { $0[operation].map { !$0.isOver } ?? false }
    }

    func failed(_ operation: Operation, _ error: SQLiteStoreError, now: ContinuousClock.Instant = .now) {
        let isNew = episodes.withLock { episodes in
            let last = episodes[operation]
            // Parts of a damaged file give different errors.
            let isSame = last.map { $0.error == error || $0.error.isDamage && error.isDamage } ?? false
            let isRecurring = last.map {
                $0.isOver ? isSame && now - $0.failedAt < interval : $0.isIntermittent
            }
            episodes[operation] = Outage(
                error: error, failedAt: now, isIntermittent: error.isDamage || isRecurring ?? false)
            return !isSame || last?.isOver ?? true
        }
        guard isNew else { return }
        logger.error(
            operation == .damaged ? "session store is damaged in part" : "session store failed",
            metadata: [
                "event": "session_store", "outcome": "failure", "store": "sqlite", "operation": "\(operation)",
                "reason": "\(error)",
            ])
    }

    func succeeded(_ operation: Operation, now: ContinuousClock.Instant = .now) {
        let isRecovered = episodes.withLock { episodes in
            guard let last = episodes[operation], !last.isOver,
                !last.isIntermittent || now - last.failedAt >= interval
            else { return false }
            episodes[operation]?.isOver = true
            return true
        }
        guard isRecovered else { return }
        logger.notice(
            "session store recovered",
            metadata: ["event": "session_store", "outcome": "success", "store": "sqlite", "operation": "\(operation)"])
    }

    /// Another file was opened: the failures of the one before are over.
    func fileReplaced() {
        for operation in Operation.allCases {
            episodes.withLock { $0[operation]?.isIntermittent = false }
            succeeded(operation)
        }
    }
}
