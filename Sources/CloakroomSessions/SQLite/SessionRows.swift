import CloakroomCore

/// The rows of sessions. All of these operations run in a transaction of the caller.
extension Database {
    private static let columns = columns(contents: "contents")
    /// Without the data that only the ticket opens.
    private static let listedColumns = columns(contents: "x''")

    private static func columns(contents: String) -> String {
        """
        key, account, created_at, expires_at, last_used_at, version, client, \(contents), fence, lease_end, name, provider
        """
    }

    /// The contents of a row: the record, and the lease on it.
    struct SessionRow {
        var record: SessionRecord
        var fence: UInt64
        /// By ``MachineClock``.
        var leaseEnd: MonotonicTime

        /// Fails if a column holds a value that Cloakroom never writes.
        fileprivate init?(_ row: Row) {
            guard let key = row.bytes(0).flatMap(SessionKey.init(bytes:)), let account = row.unsigned(1),
                let createdAt = row.time(2), let expiresAt = row.time(3), let lastUsedAt = row.time(4),
                let version = row.unsigned(5), let client = row.bytes(6), let contents = row.bytes(7),
                let fence = row.unsigned(8), let leaseEnd = row.integer(9)
            else { return nil }
            record = SessionRecord(
                key: key, account: account, name: row.unsigned(10), provider: row.unsigned(11), createdAt: createdAt,
                expiresAt: expiresAt, lastUsedAt: lastUsedAt, version: version, contents: contents, client: client)
            self.fence = fence
            self.leaseEnd = MonotonicTime(milliseconds: leaseEnd)
        }
    }

    enum SessionRowLookup {
        case row(SessionRow)
        case unreadable
        case none
    }

    func session(_ id: SessionID) throws -> SessionRowLookup {
        guard let row = try row("SELECT \(Self.columns) FROM session WHERE id = ?", [id.value]) else { return .none }
        guard let session = SessionRow(row), session.record.key.id == id else { return .unreadable }
        return .row(session)
    }

    func sessions(in index: RecordIndex) throws -> [SessionRecord] {
        let listed = "SELECT \(Self.listedColumns) FROM session WHERE"
        let rows =
            switch index {
            case .account(let hash): try run("\(listed) account = ?1 OR name = ?1", [hash])
            case .providerSession(let hash): try run("\(listed) provider = ?", [hash])
            }
        return rows.compactMap { SessionRow($0)?.record }
    }

    /// The oldest sessions of an account in excess of its limit, by their exact number.
    func surplus(of account: UInt64, by rule: SurplusRule, now: SessionTime) throws -> RecordSurplus {
        // Nearly all accounts have few sessions.
        guard try hasMoreSessions(account, than: rule.limit) else { return .none }
        let places = rule.accounts.map { _ in "?" }.joined(separator: ", ")
        let oldest = try run(
            """
            WITH live AS (SELECT id, created_at FROM session WHERE (account = ?1 OR name = ?1) AND expires_at > ?2
                AND last_used_at > ?3 AND account IN (\(places)))
            SELECT id, count(*) OVER (), (SELECT count(*) FROM live AS own JOIN live AS other
                    ON (other.created_at, other.id) > (own.created_at, own.id)
                    AND other.created_at <= own.created_at + \(SurplusRule.moment.wholeMilliseconds) WHERE own.id = ?)
                FROM live ORDER BY created_at, id LIMIT \(SurplusRule.maximum + 1)
            """,
            [account, now.milliseconds, rule.usedAfter.milliseconds] + rule.accounts + [rule.new.value])
        let excess = (oldest.first?.integer(1) ?? 0) - Int64(rule.limit)
        guard excess > 0 else { return .none }
        let isBeaten = oldest.first?.integer(2) ?? 0 >= Int64(max(1, rule.limit))
        let ids = oldest.compactMap { $0.unsigned(0).map(SessionID.init) }.filter { isBeaten || $0 != rule.new }
        return .records(Array(ids.prefix(Int(min(excess, Int64(SurplusRule.maximum))))))
    }

    /// Whether more rows than a number have this hash, expired ones included.
    func hasMoreSessions(_ account: UInt64, than limit: Int) throws -> Bool {
        let beyond = "SELECT 1 FROM session WHERE account = ?1 OR name = ?1 LIMIT 1 OFFSET ?2"
        return try row(beyond, [account, max(0, limit)]) != nil
    }

    /// - Returns: `false` if there is a row with that id.
    func insert(_ record: SessionRecord, keepUntil: SessionTime) throws -> Bool {
        try run(
            """
            INSERT OR IGNORE INTO session (id, key, account, created_at, expires_at, last_used_at, keep_until, version,
                client, contents, name, provider) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                record.key.id.value, record.key.bytes, record.account, record.createdAt.milliseconds,
                record.expiresAt.milliseconds, record.lastUsedAt.milliseconds, keepUntil.milliseconds, record.version,
                record.client, record.contents, record.name, record.provider,
            ])
        return changesCount == 1
    }

    /// - Returns: `false` unless the row still has the version and the fence that were read.
    func replace(_ old: SessionRow, with record: SessionRecord, keepUntil: SessionTime) throws -> Bool {
        try run(
            """
            UPDATE session SET account = ?, created_at = ?, expires_at = ?, last_used_at = max(last_used_at, ?),
                keep_until = max(keep_until, ?), version = ?, client = ?, contents = ?, name = ?, provider = ? WHERE id = ? AND version = ? AND fence = ?
            """,
            [
                record.account, record.createdAt.milliseconds, record.expiresAt.milliseconds,
                record.lastUsedAt.milliseconds, keepUntil.milliseconds, record.version, record.client, record.contents,
                record.name, record.provider, record.key.id.value, old.record.version, old.fence,
            ])
        return changesCount == 1
    }

    /// - Returns: `false` if there is no row, or another use is recorded that makes this one needless.
    func touch(_ touch: RecordTouch, granularity: Duration) throws -> Bool {
        try run(
            """
            UPDATE session SET last_used_at = ?1, keep_until = max(keep_until, ?2)
                WHERE id = ?3 AND last_used_at <= ?1 - ?4
            """,
            [
                touch.lastUsedAt.milliseconds, touch.keepUntil.milliseconds, touch.id.value,
                max(1, granularity.wholeMilliseconds),
            ])
        return changesCount == 1
    }

    /// - Parameter end: The end by ``MachineClock``.
    func lease(_ id: SessionID, fence: UInt64, until end: MonotonicTime) throws {
        try run("UPDATE session SET fence = ?, lease_end = ? WHERE id = ?", [fence, end.milliseconds, id.value])
    }

    func release(_ id: SessionID, fence: UInt64) throws {
        try run("UPDATE session SET lease_end = 0 WHERE id = ? AND fence = ?", [id.value, fence])
    }

    /// Deletes a row, readable or not, and stores the reason.
    func endSession(_ id: SessionID, reason: SessionEndReason, keepReasonUntil end: SessionTime) throws {
        try run("DELETE FROM session WHERE id = ?", [id.value])
        try run("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", [id.value, reason.rawValue, end.milliseconds])
    }

    func endReason(of id: SessionID, now: SessionTime) throws -> SessionEndReason? {
        let ended = try row("SELECT reason FROM ended WHERE id = ? AND keep_until > ?", [id.value, now.milliseconds])
        // A later release may have more reasons; the session has ended in any case.
        return ended.map { $0.text(0).flatMap(SessionEndReason.init(rawValue:)) ?? .revoked }
    }

    /// The number of sessions, and a step number that orders two results in time.
    func sessionCount() throws -> (count: Int, step: Int64)? {
        guard let row = try row("SELECT count, step FROM tally"), let count = row.integer(0), let step = row.integer(1)
        else { return nil }
        return (Int(count), step)
    }
}

/// The rows of the sign-in throttle.
extension Database {
    func throttleState(_ key: ThrottleKey, now: SessionTime) throws -> ThrottleState? {
        let row = try row(
            "SELECT count, since, not_before FROM throttle WHERE scope = ? AND hash = ? AND keep_until > ?",
            [key.scope.rawValue, key.hash, now.milliseconds])
        // A row with invalid values counts as no state; the next attempt overwrites it.
        guard let row, let count = row.integer(0).flatMap(UInt32.init(exactly:)), let since = row.time(1),
            let notBefore = row.time(2)
        else { return nil }
        return ThrottleState(count: count, since: since, notBefore: notBefore)
    }

    func setThrottleState(_ key: ThrottleKey, _ state: ThrottleState?, keepUntil: SessionTime) throws {
        if let state {
            try run(
                "INSERT OR REPLACE INTO throttle VALUES (?, ?, ?, ?, ?, ?)",
                [
                    key.scope.rawValue, key.hash, state.count, state.since.milliseconds, state.notBefore.milliseconds,
                    keepUntil.milliseconds,
                ])
        } else {
            try run("DELETE FROM throttle WHERE scope = ? AND hash = ?", [key.scope.rawValue, key.hash])
        }
    }
}

/// The rows of timed marks.
extension Database {
    /// - Returns: `false` if the mark exists with this or a later time.
    func setMark(_ key: MarkKey, to time: WallTime, keepUntil: SessionTime, now: SessionTime) throws -> Bool {
        // An expired mark that is not deleted yet counts as none.
        try run(
            """
            INSERT INTO mark (scope, hash, keep_until, time) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (scope, hash) DO UPDATE SET keep_until = ?3, time = ?4 WHERE keep_until <= ?5 OR time < ?4
            """,
            [key.scope.rawValue, key.hash, keepUntil.milliseconds, time.milliseconds, now.milliseconds])
        return changesCount == 1
    }

    /// - Returns: The time of the mark; `nil` if it does not exist.
    func mark(_ key: MarkKey, now: SessionTime) throws -> WallTime? {
        try row(
            "SELECT time FROM mark WHERE scope = ? AND hash = ? AND keep_until > ?",
            [key.scope.rawValue, key.hash, now.milliseconds])?.integer(0).map { WallTime(milliseconds: $0) }
    }
}

/// Rows that show whether the store can be used.
extension Database {
    /// Writes and deletes the rows of a session, its end and a sign-in, at a place by chance: succeeds only if there is
    /// room, no lock, and no damage at this place.
    func testWrite() throws {
        let place = UInt64.random(in: 0 ... .max)
        try forgetPages()
        // Small, so that a page next to a damaged one need not be split.
        try run(
            """
            INSERT INTO session (id, key, account, created_at, expires_at, last_used_at, keep_until, version, client,
                contents) VALUES (?1, x'', ?1, 0, 0, 0, ?1, 0, x'', x'')
            """, [place])
        _ = try session(SessionID(place))
        try run("DELETE FROM session WHERE id = ?", [place])
        // Of the size of a session.
        try run("INSERT INTO ended VALUES (?, hex(zeroblob(2048)), 0)", [place])
        try run("DELETE FROM ended WHERE id = ?", [place])
        // Rows of each kind, because those of a kind are neighbours.
        for scope in ThrottleKey.Scope.allCases {
            try run("INSERT INTO throttle VALUES (?, ?, 0, 0, 0, 0)", [scope.rawValue, place])
            try run("DELETE FROM throttle WHERE scope = ? AND hash = ?", [scope.rawValue, place])
        }
    }

    /// Discards cached pages: damaged ones may have been restored in the file.
    func forgetPages() throws { try execute("PRAGMA shrink_memory") }
}
