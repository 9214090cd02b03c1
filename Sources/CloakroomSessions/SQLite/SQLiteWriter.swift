import Synchronization

struct SQLiteWrite: Sendable {
    var durability: SQLiteDurability
    /// The operation is not started after this time.
    var latest: ContinuousClock.Instant
    /// Does the work; the returned closure is called after the commit. May be called again if the work was rolled back.
    var work: @Sendable (Database) throws -> @Sendable () -> Void
    /// Called if the work was not committed, or it is unknown whether it was.
    var fail: @Sendable (any Error) -> Void
}

/// An operation was queued for too long and was not started.
struct SQLiteQueueTimeout: Error {}

/// Commits concurrent operations together: they wait for the disk once, instead of one after the other. A single
/// operation is committed without delay.
final class SQLiteWriter: Sendable {
    /// The maximum number of operations per commit; other processes get the lock in between.
    private static let maxBatchSize = 64

    let connection: DatabaseQueue
    private let waiting = Mutex<[SQLiteWrite]>([])

    init(_ connection: DatabaseQueue) {
        self.connection = connection
    }

    func submit(_ write: SQLiteWrite) {
        waiting.withLock { $0.append(write) }
        // Once for each operation: the first ones commit those after them, and the last ones find none.
        connection.async { db in
            let writes = self.waiting.withLock { waiting in
                defer { waiting.removeFirst(min(waiting.count, Self.maxBatchSize)) }
                return Array(waiting.prefix(Self.maxBatchSize))
            }
            self.commit(writes, on: db)
        }
    }

    private func commit(_ all: [SQLiteWrite], on db: Database) {
        let now = ContinuousClock.now
        let writes = all.filter { $0.latest > now }
        for write in all where write.latest <= now { write.fail(SQLiteQueueTimeout()) }
        guard !writes.isEmpty else { return }
        var done: [@Sendable () -> Void] = []
        var failed: [(SQLiteWrite, any Error)] = []
        do {
            let durability: SQLiteDurability = writes.contains { $0.durability == .full } ? .full : .relaxed
            try db.execute("PRAGMA synchronous = \(durability.rawValue)")
            try db.atomically { db in
                for write in writes {
                    do {
                        done.append(
                            writes.count == 1 ? try write.work(db) : try db.atomically(isPart: true, write.work))
                    } catch {
                        // Later operations of a transaction that has met damaged data fail too.
                        guard db.isInsideTransaction, writes.count > 1, !SQLiteStoreError(error, path: "").isDamage
                        else { throw RolledBack(cause: error) }
                        failed.append((write, error))
                    }
                }
            }
        } catch is RolledBack where writes.count > 1 {
            // Everything was rolled back because one operation failed, for example on a full disk. Each is retried alone.
            for write in writes { commit([write], on: db) }
            return
        } catch {
            // The commit itself failed: it is unknown what of it is on the disk, so nothing is retried.
            let cause = (error as? RolledBack)?.cause ?? error
            for write in writes { write.fail(cause) }
            return
        }
        for finish in done { finish() }
        for (write, error) in failed { write.fail(error) }
    }

    private struct RolledBack: Error {
        var cause: any Error
    }
}
