import CloakroomCore
import GRDB

extension SQLiteRecordStore {
    /// The maximum delay until a change of another process is noticed.
    private static let pollInterval = Duration.milliseconds(50)
    private static let clearInterval = Duration.seconds(1)
    /// The number of rows deleted per transaction; other operations run in between.
    private static let clearedAtOnce = 500
    /// If the write-ahead log has more pages than this, all operations wait until it is checkpointed. That happens only
    /// with permanently active readers.
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

    /// Follows the changes in a file until it fails.
    private func follow(
        _ file: SQLiteFile, _ changes: any RecordChangeDelegate, idleTimeout: Duration
    ) async throws(SessionStoreError) {
        let process = process
        forgetTally()
        var watch = try await connector.watch(file) { db in try ChangeFeed(db, process: process) }
        // No change is missed from here on, so data read after this may be trusted.
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
                // On a full disk or a lock the next round tries again. Expired sessions are rejected regardless.
                try? await clear(changes, idleTimeout: idleTimeout)
                if hasWritten { try? await writeBack(file) }
                hasWritten = false
                await connector.verifyFileIdentity(of: file)
            }
            try? await Task.sleep(for: Self.pollInterval)
        }
    }

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

    /// Checkpoints the log, so that it restarts instead of growing: here, where no request waits for it.
    private func writeBack(_ file: SQLiteFile) async throws(SessionStoreError) {
        try await connector.watch(file) { db in
            let (pages, _) = try db.checkpoint(.passive)
            if pages > Self.maxWALPages { _ = try? db.checkpoint(.truncate) }
        }
    }
}
