/// The tables and their migrations. Each release adds migrations and changes none, so that it reads the data of earlier
/// releases. A file with an unknown migration was written by a later release and is rejected.
enum SQLiteSchema {
    /// The `application_id` in the header of the file: `CLKR`.
    static let applicationID: Int64 = 0x434c_4b52

    private static let migrations = [(identifier: "1", script: version1)]

    /// Applies the missing migrations, in the caller's transaction. Their table has the name of the first release.
    /// - Returns: `false`, without having applied any, if the file has an unknown migration.
    static func migrate(_ db: Database) throws -> Bool {
        try db.execute("CREATE TABLE IF NOT EXISTS grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
        let applied = try db.run("SELECT identifier FROM grdb_migrations").map { $0.text(0) }
        guard applied.allSatisfy({ known in migrations.contains { $0.identifier == known } }) else { return false }
        for migration in migrations where !applied.contains(migration.identifier) {
            try db.execute(migration.script)
            try db.run("INSERT INTO grdb_migrations VALUES (?)", [migration.identifier])
        }
        return true
    }

    /// Times are milliseconds since the epoch. Unsigned numbers are stored as signed ones with the same bits.
    ///
    /// `name` is the hash of the typed name, and `provider` that of the session at the provider; its index has no entries
    /// for sessions without one. `lease_end` is by ``MachineClock``. `time` of a mark is what it states; 0 for no time.
    ///
    /// `sessionCount` counts the sessions by triggers, because SQLite would have to read a whole index to count them; its
    /// `step` orders two counts in time. `change` holds the change notifications between processes.
    static let version1 = """
        CREATE TABLE session (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL,
            account INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            last_used_at INTEGER NOT NULL,
            keep_until INTEGER NOT NULL,
            version INTEGER NOT NULL,
            fence INTEGER NOT NULL DEFAULT 0,
            lease_end INTEGER NOT NULL DEFAULT 0,
            client BLOB NOT NULL,
            contents BLOB NOT NULL,
            name INTEGER,
            provider INTEGER
        );
        CREATE INDEX session_account ON session (account);
        CREATE INDEX session_name ON session (name);
        CREATE INDEX session_provider ON session (provider) WHERE provider IS NOT NULL;
        CREATE INDEX session_keep_until ON session (keep_until);

        CREATE TABLE ended (
            id INTEGER PRIMARY KEY,
            reason TEXT NOT NULL,
            keep_until INTEGER NOT NULL
        );
        CREATE INDEX ended_keep_until ON ended (keep_until);

        CREATE TABLE throttle (
            scope INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            count INTEGER NOT NULL,
            since INTEGER NOT NULL,
            not_before INTEGER NOT NULL,
            keep_until INTEGER NOT NULL,
            PRIMARY KEY (scope, hash)
        ) WITHOUT ROWID;
        CREATE INDEX throttle_keep_until ON throttle (keep_until);

        CREATE TABLE mark (
            scope INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            keep_until INTEGER NOT NULL,
            time INTEGER NOT NULL,
            PRIMARY KEY (scope, hash)
        ) WITHOUT ROWID;
        CREATE INDEX mark_keep_until ON mark (keep_until);

        CREATE TABLE change (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id INTEGER NOT NULL,
            process INTEGER NOT NULL,
            at INTEGER NOT NULL
        );

        CREATE TABLE tally (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            count INTEGER NOT NULL,
            step INTEGER NOT NULL
        );
        INSERT INTO tally VALUES (1, 0, 0);
        CREATE TRIGGER session_added AFTER INSERT ON session BEGIN
            UPDATE tally SET count = count + 1, step = step + 1;
        END;
        CREATE TRIGGER session_removed AFTER DELETE ON session BEGIN
            UPDATE tally SET count = count - 1, step = step + 1;
        END;
        """
}
