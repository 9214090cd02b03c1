import CloakroomCore

/// Deletion of expired rows.
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
    func deleteExpiredSessions(now: SessionTime, idleTimeout: Duration, limit: Int) throws -> ExpiryResult {
        var forgotten = ExpiryResult()
        let ids = try expiredSessions(now: now, limit: limit)
        for id in ids { forgotten.add(try deleteExpiredSession(id, now: now, idleTimeout: idleTimeout)) }
        forgotten.isMore = ids.count == limit
        return forgotten
    }

    /// The ids of expired sessions, from the index alone: it can be read if a page of sessions is damaged.
    func expiredSessions(now: SessionTime, limit: Int) throws -> [Int64] {
        try run(
            "SELECT id FROM session WHERE keep_until <= ? ORDER BY keep_until LIMIT ?", [now.milliseconds, limit]
        ).compactMap { $0.integer(0) }
    }

    /// Deletes one session if it has expired.
    func deleteExpiredSession(_ id: Int64, now: SessionTime, idleTimeout: Duration) throws -> ExpiryResult {
        var forgotten = ExpiryResult()
        let row = try row(
            "SELECT expires_at, last_used_at FROM session WHERE id = ? AND keep_until <= ?", [id, now.milliseconds])
        guard let row else { return forgotten }
        try run("DELETE FROM session WHERE id = ?", [id])
        let expiresAt = row.time(0) ?? now
        let idleEnd = (row.time(1) ?? now) + idleTimeout
        if idleEnd < expiresAt { forgotten.idle = 1 } else { forgotten.absolute = 1 }
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
