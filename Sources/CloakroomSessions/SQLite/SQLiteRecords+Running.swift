import CloakroomCore
import GRDB

extension SQLiteRecordStore {
    /// How long a change of another process may stay unnoticed.
    private static let pollInterval = Duration.milliseconds(50)
    private static let clearInterval = Duration.seconds(1)
    /// Rows cleared away in one transaction: others get their turn in between.
    private static let clearedAtOnce = 500
    /// A write-ahead log of more pages than this makes everybody wait until it is written back. It gets there only if
    /// somebody reads all the time.
    private static let maxWALPages = 16_384

    func run(_ changes: any RecordChangeDelegate, idleTimeout: Duration) async {
        while !Task.isCancelled {
            if let file = try? await connector.file() {
                try? await follow(file, changes, idleTimeout: idleTimeout)
                changes.connectionChanged(isUp: false)
            }
            try? await Task.sleep(for: SQLiteConnector.pause)
        }
    }

    /// Tells of the changes in a file until it fails.
    private func follow(
        _ file: SQLiteFile, _ changes: any RecordChangeDelegate, idleTimeout: Duration
    ) async throws(SessionStoreError) {
        let process = process
        forgetTally()
        var watch = try await connector.watch(file) { db in try ChangeFeed(db, process: process) }
        // From here on nothing is missed, so what is read after this may be trusted.
        changes.connectionChanged(isUp: true)
        var clearAt = ContinuousClock.now
        var hasWritten = false
        while !Task.isCancelled, connector.isCurrent(file) {
            let look = try await connector.watch(file) { [watch] db in try PollResult(db, watch) }
            watch = look.watch
            noteTally(look.sessionCount)
            switch look.changes {
            case .changes(let ids): for id in ids { changes.recordChanged(id) }
            case .unknown: changes.allRecordsChanged()
            }
            hasWritten = hasWritten || look.hasChanges
            if ContinuousClock.now >= clearAt {
                clearAt = ContinuousClock.now + Self.clearInterval
                // A full disk or a lock: the next round tries again, and what is over is refused without this.
                try? await clear(changes, idleTimeout: idleTimeout)
                if hasWritten { try? await writeBack(file) }
                hasWritten = false
                await connector.verifyFileIdentity(of: file)
            }
            try? await Task.sleep(for: Self.pollInterval)
        }
    }

    /// What one look at the file gave.
    private struct PollResult: Sendable {
        var watch: ChangeFeed
        var hasChanges: Bool
        var changes = ChangeFeed.ChangeSet.changes([])
        var sessionCount: (count: Int, step: Int64)?

        init(_ db: Database, _ watch: ChangeFeed) throws {
            self.watch = watch
            hasChanges = try self.watch.hasChanges(db)
            guard hasChanges else { return }
            changes = try self.watch.poll(db)
            sessionCount = try db.sessionCount()
        }
    }

    /// Clears away what is over.
    private func clear(_ changes: any RecordChangeDelegate, idleTimeout: Duration) async throws(SessionStoreError) {
        let now = now()
        guard try await connector.read({ db in try db.hasRowsToForget(now: now) }) else { return }
        while !Task.isCancelled {
            let (forgotten, tally) = try await connector.write(.relaxed) { db in
                (
                    try db.deleteExpired(now: now, idleTimeout: idleTimeout, limit: Self.clearedAtOnce),
                    try db.sessionCount()
                )
            }
            noteTally(tally)
            if forgotten.idle + forgotten.absolute > 0 {
                changes.expired(idle: forgotten.idle, absolute: forgotten.absolute)
            }
            guard forgotten.isMore else { return }
        }
    }

    /// Writes the log back to the file, so that it begins anew instead of growing: here, where no request waits for it.
    private func writeBack(_ file: SQLiteFile) async throws(SessionStoreError) {
        try await connector.watch(file) { db in
            let (pages, _) = try db.checkpoint(.passive)
            if pages > Self.maxWALPages { _ = try? db.checkpoint(.truncate) }
        }
    }
}
