import GRDB
import Synchronization

/// One write operation.
struct SQLiteWrite: Sendable {
    /// Why an operation failed, or its result is unknown.
    enum Failure: Sendable {
        case error(any Error)
        /// The operation was queued for too long and was not started.
        case timedOut
    }

    var durability: SQLiteDurability
    /// The operation is not started after this time.
    var latest: ContinuousClock.Instant
    /// Does the work; the returned closure is called after the commit. May be called again if the work was rolled back.
    var work: @Sendable (Database) throws -> @Sendable () -> Void
    /// Called if the work was not committed.
    var fail: @Sendable (Failure) -> Void
}

/// Commits concurrent operations together: they wait for the disk once, instead of one after the other. A single
/// operation is committed without delay.
final class SQLiteWriter: Sendable {
    /// The maximum number of operations per commit; other processes get the lock in between.
    private static let maxBatchSize = 64

    let connection: DatabaseQueue
    private let queue = Mutex<(waiting: [SQLiteWrite], isScheduled: Bool)>(([], false))

    init(_ connection: DatabaseQueue) {
        self.connection = connection
    }

    func submit(_ write: SQLiteWrite) {
        let mustSchedule = queue.withLock { queue in
            queue.waiting.append(write)
            defer { queue.isScheduled = true }
            return !queue.isScheduled
        }
        if mustSchedule { schedule() }
    }

    private func schedule() {
        connection.asyncWriteWithoutTransaction { db in
            let (writes, isMore) = self.queue.withLock { queue in
                let writes = Array(queue.waiting.prefix(Self.maxBatchSize))
                queue.waiting.removeFirst(writes.count)
                queue.isScheduled = !queue.waiting.isEmpty
                return (writes, queue.isScheduled)
            }
            self.commit(writes, on: db)
            if isMore { self.schedule() }
        }
    }

    private func commit(_ all: [SQLiteWrite], on db: Database) {
        let now = ContinuousClock.now
        let writes = all.filter { $0.latest > now }
        for write in all where write.latest <= now { write.fail(.timedOut) }
        guard !writes.isEmpty else { return }
        var done: [@Sendable () -> Void] = []
        var failed: [(SQLiteWrite, any Error)] = []
        do {
            let durability: SQLiteDurability = writes.contains { $0.durability == .full } ? .full : .relaxed
            try db.inImmediateTransaction(durability) { db in
                for write in writes {
                    do {
                        done.append(writes.count == 1 ? try write.work(db) : try db.withSavepoint(write.work))
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
            for write in writes { write.fail(.error(cause)) }
            return
        }
        for finish in done { finish() }
        for (write, error) in failed { write.fail(.error(error)) }
    }

    private struct RolledBack: Error {
        var cause: any Error
    }
}

extension Database {
    /// Runs operations within a savepoint, so that they can be rolled back alone.
    fileprivate func withSavepoint<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try execute(sql: "SAVEPOINT one")
        do {
            let value = try body(self)
            try execute(sql: "RELEASE one")
            return value
        } catch {
            if isInsideTransaction { try execute(sql: "ROLLBACK TO one; RELEASE one") }
            throw error
        }
    }
}
