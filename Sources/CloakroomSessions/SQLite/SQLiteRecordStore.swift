import CloakroomCore
import Logging
import Synchronization

/// Keeps records in a SQLite file, for one machine. Several processes may have the file open, such as two gateways
/// during a handover.
///
/// The file is opened on demand, and a failure to open it does not prevent starting: operations fail with
/// `unavailable`, the log contains the reason, and ``run(_:)`` tries each second.
///
/// Each operation is one transaction that takes the write lock first. Data that is acknowledged to a client was synced
/// to the disk by a commit; see ``SQLiteDurability``.
///
/// Folder `SQLite/`: sealed records in one file, shared by the processes of one machine.
final class SQLiteRecordStore: SessionRecordStore {
    /// The number of touches per transaction; other operations run in between.
    private static let touchesAtOnce = 500
    /// How long touches are tried one by one around damaged rows.
    private static let maxTimeForDamage = Duration.seconds(2)

    let connector: SQLiteConnector
    /// Distinguishes own changes from those of other processes.
    let process = Int64.random(in: .min ... .max)
    let now: @Sendable () -> SessionTime
    /// The time by which leases end, given the caller's.
    private let leaseTime: @Sendable (SessionTime) -> MonotonicTime
    private let sessionCount = Mutex<(count: Int, step: Int64)>((0, -1))

    /// Creates a store; opens nothing yet.
    /// - Parameters:
    ///   - path: The file. Its directory must exist; the file is created, accessible only to its owner.
    ///   - logger: Logs each kind of failure once, and its recovery.
    ///   - now: The wall clock, for deleting expired rows.
    ///   - leaseTime: The time by which leases end, given the caller's; all processes of the machine have to agree on
    ///     it. Default: ``MachineClock``, independent of the caller's time.
    ///   - interval: How long an intermittent failure lasts after it was seen.
    init(
        path: String, logger: Logger, now: @escaping @Sendable () -> SessionTime,
        leaseTime: @escaping @Sendable (SessionTime) -> MonotonicTime = { _ in MachineClock.now },
        interval: Duration = .seconds(60)
    ) {
        connector = SQLiteConnector(path: path, log: SQLiteFailureLog(logger, interval: interval))
        self.now = now
        self.leaseTime = leaseTime
    }

    var count: Int { sessionCount.withLock { $0.count } }
    var isFailing: Bool { connector.isFailing }

    func insert(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        let (isNew, mayExceed, tally) = try await connector.write(.full) { db in
            (
                try db.insert(record, keepUntil: keepUntil),
                try record.indexHashes.contains { try db.hasMoreSessions($0, than: limit) }, try db.sessionCount()
            )
        }
        noteTally(tally)
        return isNew ? .done(mayExceed: mayExceed) : .taken
    }

    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        try await connector.read { db in
            switch try db.session(id) {
            case .row(let row): .record(row.record)
            case .unreadable: .unreadable
            case .none: try db.endReason(of: id, now: now).map { .ended($0) } ?? .none
            }
        }
    }

    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        let (process, leaseTime) = (process, leaseTime)
        return try await connector.write(.full) { db in
            guard case .row(let row) = try db.session(record.key.id), row.record.key == record.key else {
                return .notFound
            }
            let isFenced = if let fence { fence != row.fence } else { row.isLeased(leaseTime(now)) }
            if isFenced { return .fenced }
            guard row.record.version &+ 1 == record.version,
                try db.replace(row, with: record, keepUntil: keepUntil)
            else { return .changed }
            try db.recordChange(record.key.id, by: process, now: now)
            return .done
        }
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        let process = process
        let (removal, tally) = try await connector.write(.full) {
            db -> (RecordRemovalResult, (count: Int, step: Int64)?) in
            let removal: RecordRemovalResult
            switch try db.session(id) {
            case .none:
                return (.notFound, nil)
            case .unreadable:
                guard condition == nil else { return (.changed, nil) }
                removal = .notFound
            case .row(let row):
                if let condition, condition != (row.record.version, row.fence) { return (.changed, nil) }
                removal = .removed(row.record)
            }
            try db.endSession(id, reason: reason, keepReasonUntil: now + Self.tombstoneLifetime)
            try db.recordChange(id, by: process, now: now)
            return (removal, try db.sessionCount())
        }
        noteTally(tally)
        return removal
    }

    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches? {
        var rest = touches[...]
        var unwritten = UnwrittenTouches()
        let end = ContinuousClock.now + Self.maxTimeForDamage
        while !rest.isEmpty {
            let some = rest.prefix(Self.touchesAtOnce)
            rest = rest.dropFirst(some.count)
            try await touch(some, granularity: granularity, until: end, &unwritten)
        }
        return unwritten.isEmpty ? nil : unwritten
    }

    /// If some rows are damaged, tries the halves: the sessions of the others would seem idle.
    private func touch(
        _ some: ArraySlice<RecordTouch>, granularity: Duration, until end: ContinuousClock.Instant,
        _ unwritten: inout UnwrittenTouches
    ) async throws(SessionStoreError) {
        do throws(SessionStoreError) {
            let unchanged = try await connector.write(.relaxed) { db in
                try some.filter { try !db.touch($0, granularity: granularity) }
            }
            unwritten.superseded.formUnion(unchanged.map(\.id))
        } catch {
            guard connector.isDamaged, ContinuousClock.now < end else { throw error }
            guard some.count > 1 else {
                unwritten.ids.formUnion(some.map(\.id))
                unwritten.error = error
                return
            }
            let middle = some.startIndex + some.count / 2
            for half in [some[..<middle], some[middle...]] {
                try await touch(half, granularity: granularity, until: end, &unwritten)
            }
        }
    }

    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    {
        let leaseTime = leaseTime
        return try await connector.write(.relaxed) { db in
            guard case .row(let row) = try db.session(id) else { return .notFound }
            // Read while holding the write lock: the wait for the lock is not part of the lease.
            let time = leaseTime(now)
            guard !row.isLeased(for: duration, time) else { return .heldByOther }
            let fence = row.fence &+ 1
            try db.lease(id, fence: fence, until: time + duration)
            return .acquired(RefreshLease(fence: fence))
        }
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        try await connector.write(.relaxed) { db in try db.release(id, fence: fence) }
    }

    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord] {
        try await connector.read { db in try db.sessions(in: index) }
    }

    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        try await connector.read { db in try db.surplus(of: account, by: rule, now: now) }
    }

    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        try await connector.read { db in try keys.map { try db.throttleState($0, now: now) } }
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try await connector.write(.relaxed) { db in
            let states = try counters.map { try db.throttleState($0.key, now: now) }
            let result = ThrottleResult(counters, states, now: now)
            if case .counted(let counts) = result {
                for count in counts {
                    try db.setThrottleState(count.counter.key, count.after, keepUntil: now + count.lifetime)
                }
            }
            return result
        }
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try await connector.write(.relaxed) { db in
            for count in counts {
                let key = count.counter.key
                let new = count.removed(from: try db.throttleState(key, now: now), now: now)
                try db.setThrottleState(key, new?.state, keepUntil: now + (new?.lifetime ?? .zero))
            }
        }
    }

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await connector.write(.full) { db in try db.setMark(key, to: time, keepUntil: now + lifetime, now: now) }
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try await connector.read { db in try keys.compactMap { try db.mark($0, now: now) }.max() }
    }

    /// Keeps the more recent one of two counts.
    func noteTally(_ latest: (count: Int, step: Int64)?) {
        guard let latest else { return }
        sessionCount.withLock { if latest.step > $0.step { $0 = latest } }
    }

    /// Resets the count: the file may be another one.
    func forgetTally() {
        sessionCount.withLock { $0 = ($0.count, -1) }
    }
}

extension SQLiteRecordStore {
    /// The maximum delay until a change of another process is noticed.
    private static let pollInterval = Duration.milliseconds(50)
    private static let clearInterval = Duration.seconds(1)
    /// If the write-ahead log has more pages than this, all operations wait until it is checkpointed. That happens only
    /// with permanently active readers.
    private static let maxWALPages = 16_384

    func run(_ changes: any RecordChangeDelegate) async {
        var wasUp = false
        while !Task.isCancelled {
            if let file = try? await connector.file() {
                // Before the polls: those of a damaged file fail.
                await connector.verifyFileIdentity(of: file)
                if connector.isCurrent(file) {
                    try? await follow(file, changes, wasUp: &wasUp)
                    changes.partitionsChanged([0..<1], areTrusted: false, afterOutage: false)
                }
            }
            try? await Task.sleep(for: SQLiteConnector.pause)
        }
    }

    /// Follows the changes in a file until it fails.
    private func follow(
        _ file: SQLiteFile, _ changes: any RecordChangeDelegate, wasUp: inout Bool
    ) async throws(SessionStoreError) {
        let process = process
        forgetTally()
        // Polled once before the file is trusted, which shows that it can be.
        let first = try await connector.read(watching: file) { db in
            try db.forgetPages()
            return try PollResult(db, try ChangeFeed(db, process: process))
        }
        var watch = first.watch
        noteTally(first.sessionCount)
        // No change is missed from here on, so data read after this may be trusted.
        changes.partitionsChanged([0..<1], areTrusted: true, afterOutage: wasUp)
        wasUp = true
        var clearAt = ContinuousClock.now
        var hasWritten = false
        while !Task.isCancelled, connector.isCurrent(file) {
            let look = try await connector.read(watching: file) { [watch] db in try PollResult(db, watch) }
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
                try? await clear(changes)
                if hasWritten { try? await writeBack(file) }
                hasWritten = false
                // Not awaited: a lock of another program must not delay the polls.
                if connector.needsTest { Task { await connector.test() } }
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

    /// Checkpoints the log, so that it restarts instead of growing: here, where no request waits for it.
    private func writeBack(_ file: SQLiteFile) async throws(SessionStoreError) {
        try await connector.read(watching: file) { db in
            let pages = try db.row("PRAGMA wal_checkpoint(PASSIVE)")?.integer(1) ?? 0
            if pages > Self.maxWALPages { _ = try? db.row("PRAGMA wal_checkpoint(TRUNCATE)") }
        }
    }
}

/// The file is one partition, and its indexes are changed together with the records: the account is a column of the
/// session, so no session can be missing in a list, and signing out everywhere needs no cutoffs.
extension SQLiteRecordStore {
    var partitionCount: Int { 1 }
    func partition(of id: SessionID) -> Int { 0 }
    func partition(ofIndex index: RecordIndex) -> Int { 0 }

    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?] {
        indexes.map { _ in nil }
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) {}
}
