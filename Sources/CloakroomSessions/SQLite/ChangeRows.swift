import CloakroomCore
import GRDB

/// How processes tell each other what they changed: each change is a row, written with it in one transaction. Who watches
/// reads those rows that others wrote; without them, own writes would have to count as anybody's.
extension Database {
    /// Rows older than this are cleared away. Whoever looks more seldom finds numbers missing and knows it.
    private static let lifetime = Duration.seconds(60)

    func recordChange(_ id: SessionID, by process: Int64, now: Timestamp) throws {
        try run("INSERT INTO change (id, process, at) VALUES (?, ?, ?)", [id.rowID, process, now.milliseconds])
    }

    /// The number of the latest change, cleared away or not. Numbers are never used twice and leave no gaps.
    func latestChange() throws -> Int64 {
        try row("SELECT seq FROM sqlite_sequence WHERE name = 'change'")?.integer(0) ?? 0
    }

    func forgetChanges(now: Timestamp) throws {
        // By number, so that what is left has no gaps in it, whatever the clock did.
        try run(
            "DELETE FROM change WHERE number <= (SELECT max(number) FROM change WHERE at <= ?)",
            [Self.lastOutdatedChange(now: now).milliseconds])
    }

    static func lastOutdatedChange(now: Timestamp) -> Timestamp { now - lifetime }
}

/// Follows the changes of other processes, from the moment it is made.
struct ChangeFeed {
    /// What was changed since the last look.
    enum ChangeSet: Equatable {
        case changes([SessionID])
        case unknown
    }

    /// More than this in one look are not told one by one.
    private static let limit = 1_000

    private let process: Int64
    private var latest: Int64
    private var dataVersion: Int64?

    /// - Parameter process: Whose changes are no news.
    init(_ db: Database, process: Int64) throws {
        self.process = process
        latest = try db.latestChange()
    }

    /// Whether anybody has written anything since the last time that this was asked: cheap, and asked first.
    mutating func hasChanges(_ db: Database) throws -> Bool {
        let version = try db.row("PRAGMA data_version")?.integer(0)
        defer { dataVersion = version }
        return version == nil || version != dataVersion
    }

    mutating func poll(_ db: Database) throws -> ChangeSet {
        let rows = try db.rows(
            "SELECT number, id, process FROM change WHERE number > ? ORDER BY number LIMIT \(Self.limit)", [latest])
        let expected = latest + 1
        guard rows.count < Self.limit, rows.isEmpty || rows[0].integer(0) == expected else { return try abandon(db) }
        if rows.isEmpty {
            // All of them may have been cleared away; or the file is an older copy of itself.
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
