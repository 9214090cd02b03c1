import CloakroomCore

/// The change notifications between processes. Each change is a row, written with it in one transaction, and the other
/// processes poll these rows. The rows make own writes distinguishable from those of other processes.
extension Database {
    /// Older rows are deleted. A process that polls less often finds numbers missing and detects that.
    private static let lifetime = Duration.seconds(60)

    func recordChange(_ id: SessionID, by process: Int64, now: SessionTime) throws {
        try run("INSERT INTO change (id, process, at) VALUES (?, ?, ?)", [id.value, process, now.milliseconds])
    }

    /// The number of the latest change, deleted or not. Numbers are never reused and have no gaps.
    func latestChange() throws -> Int64 {
        try row("SELECT seq FROM sqlite_sequence WHERE name = 'change'")?.integer(0) ?? 0
    }

    func forgetChanges(now: SessionTime) throws {
        // Deletes by number, so that the remaining rows have no gaps, even if the clock jumped.
        try run(
            "DELETE FROM change WHERE number <= (SELECT max(number) FROM change WHERE at <= ?)",
            [Self.lastOutdatedChange(now: now).milliseconds])
    }

    static func lastOutdatedChange(now: SessionTime) -> SessionTime { now - lifetime }
}

/// Follows the changes of other processes, from its creation on.
struct ChangeFeed {
    /// The changes since the last poll.
    enum ChangeSet: Equatable {
        case changes([SessionID])
        case unknown
    }

    /// The maximum number of changes reported individually per poll.
    private static let limit = 1_000

    private let process: Int64
    private var latest: Int64
    private var dataVersion: Int64?

    /// - Parameter process: The process whose changes are ignored.
    init(_ db: Database, process: Int64) throws {
        self.process = process
        latest = try db.latestChange()
    }

    /// Whether any process has written since the last call. Cheap, so it is checked first.
    mutating func hasChanges(_ db: Database) throws -> Bool {
        let version = try db.row("PRAGMA data_version")?.integer(0)
        defer { dataVersion = version }
        return version == nil || version != dataVersion
    }

    mutating func poll(_ db: Database) throws -> ChangeSet {
        let rows = try db.run(
            "SELECT number, id, process FROM change WHERE number > ? ORDER BY number LIMIT \(Self.limit)", [latest])
        let expected = latest + 1
        guard rows.count < Self.limit, rows.isEmpty || rows[0].integer(0) == expected else { return try abandon(db) }
        if rows.isEmpty {
            // All rows may have been deleted, or the file may have been replaced by an older copy.
            return try db.latestChange() == latest ? .changes([]) : abandon(db)
        }
        var ids: [SessionID] = []
        for row in rows {
            guard let number = row.integer(0), let id = row.unsigned(1), let writer = row.integer(2) else {
                return try abandon(db)
            }
            latest = number
            if writer != process { ids.append(SessionID(id)) }
        }
        return .changes(ids)
    }

    private mutating func abandon(_ db: Database) throws -> ChangeSet {
        latest = try db.latestChange()
        return .unknown
    }
}
