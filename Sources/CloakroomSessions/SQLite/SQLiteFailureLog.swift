import Logging
import Synchronization

/// Says once that something fails, and once that it works again, however often it is tried between. A failure that comes
/// and goes, as reads of a damaged page do between those of sound ones, is told once a minute.
final class SQLiteFailureLog: Sendable {
    /// What can fail, each with episodes of its own.
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

    func failed(_ task: Operation, _ error: SQLiteStoreError) {
        let now = ContinuousClock.now
        let isNew = episodes.withLock { episodes in
            guard var last = episodes[task], last.error == error else {
                episodes[task] = Outage(error: error, loggedAt: now)
                return true
            }
            guard last.isOver else { return false }
            let shouldTrim = now - last.loggedAt >= Self.interval
            last = Outage(error: error, loggedAt: shouldTrim ? now : last.loggedAt, isLogged: shouldTrim)
            episodes[task] = last
            return shouldTrim
        }
        guard isNew else { return }
        logger.error(
            "session store fails",
            metadata: [
                "event": "session_store", "outcome": "failure", "store": "sqlite", "task": "\(task)",
                "reason": "\(error)",
            ])
    }

    func succeeded(_ task: Operation) {
        let wasLogged = episodes.withLock { episodes in
            guard let last = episodes[task], !last.isOver else { return false }
            episodes[task]?.isOver = true
            return last.isLogged
        }
        guard wasLogged else { return }
        logger.notice(
            "session store works again",
            metadata: ["event": "session_store", "outcome": "success", "store": "sqlite", "task": "\(task)"])
    }
}
