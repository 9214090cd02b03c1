import GRDB
import Synchronization

/// One operation that writes.
struct SQLiteWrite: Sendable {
    /// Why an operation was not done, or is not known to be.
    enum Failure: Sendable {
        case error(any Error)
        /// It waited its turn for too long and was not begun.
        case timedOut
    }

    var durability: SQLiteDurability
    /// It is not begun after this.
    var latest: ContinuousClock.Instant
    /// Does the work; what it returns is called once that is committed. May be called again if all of it was undone.
    var work: @Sendable (Database) throws -> @Sendable () -> Void
    /// Called if it did not come to that.
    var fail: @Sendable (Failure) -> Void
}

/// Commits operations together that are asked for at the same time: they wait for the disk once, instead of one after the
/// other. Whoever comes alone waits for nobody.
final class SQLiteWriter: Sendable {
    /// Operations in one commit: other processes get the lock in between.
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
                        guard db.isInsideTransaction, writes.count > 1 else { throw RolledBack(cause: error) }
                        failed.append((write, error))
                    }
                }
            }
        } catch is RolledBack where writes.count > 1 {
            // SQLite has undone everything for the failure of one, a full disk for example: each is tried by itself.
            for write in writes { commit([write], on: db) }
            return
        } catch {
            // The commit itself: what of it is on the disk is not known, so nothing is tried again.
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
    /// Does something within a transaction that can be undone without the rest of it.
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
