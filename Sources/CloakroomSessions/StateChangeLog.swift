import Logging
import Synchronization

/// Logs a failure once and the recovery once, regardless of the attempts between. An intermittent failure, such as
/// reads of a damaged page between successful ones, is logged once a minute.
final class SQLiteFailureLog: Sendable {
    /// The operations that can fail, each with its own outages.
    enum Operation: Sendable, Hashable {
        case opening, reading, writing
    }

    private struct Outage {
        var error: SQLiteStoreError
        var loggedAt: ContinuousClock.Instant
        var isOver = false
        var isLogged = true
    }

    private static let interval = Duration.seconds(60)

    private let logger: Logger
    private let episodes = Mutex<[Operation: Outage]>([:])

    init(_ logger: Logger) {
        self.logger = logger
    }

    func failed(_ operation: Operation, _ error: SQLiteStoreError) {
        let now = ContinuousClock.now
        let isNew = episodes.withLock { episodes in
            guard var last = episodes[operation], last.error == error else {
                episodes[operation] = Outage(error: error, loggedAt: now)
                return true
            }
            guard last.isOver else { return false }
            let shouldTrim = now - last.loggedAt >= Self.interval
            last = Outage(error: error, loggedAt: shouldTrim ? now : last.loggedAt, isLogged: shouldTrim)
            episodes[operation] = last
            return shouldTrim
        }
        guard isNew else { return }
        logger.error(
            "session store failed",
            metadata: [
                "event": "session_store", "outcome": "failure", "store": "sqlite", "operation": "\(operation)",
                "reason": "\(error)",
            ])
    }

    func succeeded(_ operation: Operation) {
        let wasLogged = episodes.withLock { episodes in
            guard let last = episodes[operation], !last.isOver else { return false }
            episodes[operation]?.isOver = true
            return last.isLogged
        }
        guard wasLogged else { return }
        logger.notice(
            "session store recovered",
            metadata: ["event": "session_store", "outcome": "success", "store": "sqlite", "operation": "\(operation)"])
    }
}
