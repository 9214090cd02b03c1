import CloakroomCore
import GRDB

/// Deletion of expired rows.
extension Database {
    struct ExpiryResult: Sendable {
        var idle = 0
        var absolute = 0
        /// Whether more rows may be expired.
        var isMore = false
    }

    /// Whether there are expired rows; checked first, because it takes no lock.
    func hasRowsToForget(now: Timestamp) throws -> Bool {
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

    /// Deletes at most `limit` rows of each kind, all in the caller's transaction: of several processes, only one
    /// counts each session.
    func deleteExpired(now: Timestamp, idleTimeout: Duration, limit: Int) throws -> ExpiryResult {
        var forgotten = ExpiryResult()
        let rows = try rows(
            "SELECT id, expires_at, last_used_at FROM session WHERE keep_until <= ? ORDER BY keep_until LIMIT ?",
            [now.milliseconds, limit])
        for row in rows {
            guard let id = row.integer(0) else { continue }
            try run("DELETE FROM session WHERE id = ?", [id])
            let expiresAt = row.time(1) ?? now
            let idleEnd = (row.time(2) ?? now) + idleTimeout
            if idleEnd < expiresAt { forgotten.idle += 1 } else { forgotten.absolute += 1 }
        }
        forgotten.isMore = rows.count == limit
        for (table, key) in [("ended", "id"), ("throttle", "scope, hash"), ("mark", "scope, hash")] {
            try run(
                """
                DELETE FROM \(table) WHERE (\(key)) IN
                    (SELECT \(key) FROM \(table) WHERE keep_until <= ? ORDER BY keep_until LIMIT ?)
                """, [now.milliseconds, limit])
            forgotten.isMore = forgotten.isMore || changesCount == limit
        }
        try forgetChanges(now: now)
        return forgotten
    }
}
