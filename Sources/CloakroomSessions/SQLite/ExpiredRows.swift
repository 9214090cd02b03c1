import CloakroomCore

/// Clears expired rows in the background.
extension SQLiteRecordStore {
    /// The number of rows deleted per transaction; other operations run in between.
    private static let clearedAtOnce = 500

    /// Deletes expired rows. Those of each table have transactions of their own: a damaged page of one must not keep the
    /// rows of the others.
    func clear(_ changes: any RecordChangeDelegate) async throws(SessionStoreError) {
        let now = now()
        guard try await connector.read({ db in try db.hasRowsToForget(now: now) }) else { return }
        var failure: SessionStoreError?
        do throws(SessionStoreError) {
            try await clearSessions(changes, now: now)
        } catch {
            failure = error
        }
        for (table, key) in Database.expiringTables {
            do throws(SessionStoreError) {
                while try await connector.write(
                    .relaxed,
                    { db in
                        try db.deleteExpiredRows(of: table, key: key, now: now, limit: Self.clearedAtOnce)
                    }), !Task.isCancelled
                {}
            } catch {
                failure = error
            }
        }
        try await connector.write(.relaxed) { db in try db.forgetChanges(now: now) }
        if let failure { throw failure }
    }

    private func clearSessions(
        _ changes: any RecordChangeDelegate, now: SessionTime
    ) async throws(SessionStoreError) {
        var forgotten = Database.ExpiryResult(isMore: true)
        while forgotten.isMore, !Task.isCancelled {
            do throws(SessionStoreError) {
                forgotten = try await expired(changes) { db in
                    try db.deleteExpiredSessions(now: now, limit: Self.clearedAtOnce)
                }
            } catch {
                // One of them may be damaged: the others are deleted one by one.
                let ids = try await connector.read { db in
                    try db.expiredSessions(now: now, limit: Self.clearedAtOnce)
                }
                for id in ids {
                    _ = try? await expired(changes) { db in
                        try db.deleteExpiredSession(id, now: now)
                    }
                }
                throw error
            }
        }
    }

    /// Deletes expired sessions, and reports them.
    private func expired(
        _ changes: any RecordChangeDelegate, _ body: @escaping @Sendable (Database) throws -> Database.ExpiryResult
    ) async throws(SessionStoreError) -> Database.ExpiryResult {
        let (forgotten, tally) = try await connector.write(.relaxed) { db in (try body(db), try db.sessionCount()) }
        noteTally(tally)
        if forgotten.idle + forgotten.absolute > 0 {
            changes.expired(idle: forgotten.idle, absolute: forgotten.absolute)
        }
        return forgotten
    }
}

/// Deletion of expired rows, each in the caller's transaction.
extension Database {
    struct ExpiryResult: Sendable {
        var idle = 0
        var absolute = 0
        /// Whether more rows may be expired.
        var isMore = false

        mutating func add(_ other: ExpiryResult) {
            idle += other.idle
            absolute += other.absolute
        }
    }

    /// Whether there are expired rows; checked first, because it takes no lock.
    func hasRowsToForget(now: SessionTime) throws -> Bool {
        let time = now.milliseconds
        let response = try row(
            """
            SELECT EXISTS (SELECT 1 FROM session WHERE keep_until <= ?1)
                OR EXISTS (SELECT 1 FROM ended WHERE keep_until <= ?1)
                OR EXISTS (SELECT 1 FROM throttle WHERE keep_until <= ?1)
                OR EXISTS (SELECT 1 FROM mark WHERE keep_until <= ?1)
                OR (SELECT at FROM change ORDER BY number LIMIT 1) <= ?2
            """, [time, Self.lastOutdatedChange(now: now).milliseconds])
        return response?.integer(0) == 1
    }

    /// Deletes at most `limit` expired sessions, all in the caller's transaction: of several processes, only one counts
    /// each session.
    func deleteExpiredSessions(now: SessionTime, limit: Int) throws -> ExpiryResult {
        var forgotten = ExpiryResult()
        let ids = try expiredSessions(now: now, limit: limit)
        for id in ids { forgotten.add(try deleteExpiredSession(id, now: now)) }
        forgotten.isMore = ids.count == limit
        return forgotten
    }

    /// The ids of expired sessions, from the index alone: it can be read if a page of sessions is damaged.
    func expiredSessions(now: SessionTime, limit: Int) throws -> [Int64] {
        try run(
            "SELECT id FROM session WHERE keep_until <= ? ORDER BY keep_until LIMIT ?", [now.milliseconds, limit]
        ).compactMap { $0.integer(0) }
    }

    /// Deletes one session if it has expired: as idle if its row could be deleted before its end.
    func deleteExpiredSession(_ id: Int64, now: SessionTime) throws -> ExpiryResult {
        var forgotten = ExpiryResult()
        let row = try row(
            "SELECT expires_at, keep_until FROM session WHERE id = ? AND keep_until <= ?", [id, now.milliseconds])
        guard let row else { return forgotten }
        try run("DELETE FROM session WHERE id = ?", [id])
        let expiresAt = row.time(0) ?? now
        let deadline = (row.time(1) ?? now) - SQLiteRecordStore.tombstoneLifetime
        if deadline < expiresAt { forgotten.idle = 1 } else { forgotten.absolute = 1 }
        return forgotten
    }

    /// The tables whose expired rows are deleted, besides sessions, and their keys.
    static let expiringTables = [("ended", "id"), ("throttle", "scope, hash"), ("mark", "scope, hash")]

    /// Deletes at most `limit` expired rows of a table.
    /// - Returns: Whether more rows may be expired.
    func deleteExpiredRows(of table: String, key: String, now: SessionTime, limit: Int) throws -> Bool {
        try run(
            """
            DELETE FROM \(table) WHERE (\(key)) IN
                (SELECT \(key) FROM \(table) WHERE keep_until <= ? ORDER BY keep_until LIMIT ?)
            """, [now.milliseconds, limit])
        return changesCount == limit
    }
}
