import GRDB

/// The tables and their migrations. Each release adds migrations and changes none, so that it reads the data of earlier
/// releases. A file with an unknown migration was written by a later release and is rejected.
enum SQLiteSchema {
    /// The `application_id` in the header of the file: `CLKR`.
    static let applicationID: Int64 = 0x434c_4b52

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { try $0.execute(sql: version1) }
        migrator.registerMigration("2") { try $0.execute(sql: version2) }
        migrator.registerMigration("3") { try $0.execute(sql: version3) }
        migrator.registerMigration("4") { try $0.execute(sql: version4) }
        return migrator
    }

    /// `time` is what the mark states, in milliseconds since the epoch; 0 if that has no time.
    private static let version4 = "ALTER TABLE mark ADD COLUMN time INTEGER NOT NULL DEFAULT 0"

    /// `provider` is the hash of the session at the provider; the index has no entries for sessions without one. The
    /// release before ignores the column and keeps its values, so its processes may have the file open meanwhile.
    private static let version3 = """
        ALTER TABLE session ADD COLUMN provider INTEGER;
        CREATE INDEX session_provider ON session (provider) WHERE provider IS NOT NULL;

        CREATE TABLE mark (
            scope INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            keep_until INTEGER NOT NULL,
            PRIMARY KEY (scope, hash)
        ) WITHOUT ROWID;
        CREATE INDEX mark_keep_until ON mark (keep_until);
        """

    /// `name` is the hash of the typed name. `lease_end` is when the lease of the number `lease_fence` ends, in
    /// milliseconds by ``MachineClock``: `leased_until` is by the wall clock, for processes of the release before.
    private static let version2 = """
        ALTER TABLE session ADD COLUMN name INTEGER;
        ALTER TABLE session ADD COLUMN lease_fence INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE session ADD COLUMN lease_end INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX session_name ON session (name);
        """

    /// Times are milliseconds since the epoch. Unsigned numbers are stored as signed ones with the same bits.
    ///
    /// `sessionCount` counts the sessions by triggers, because SQLite would have to read a whole index to count them; its
    /// `step` orders two counts in time. `change` holds the change notifications between processes.
    private static let version1 = """
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
            leased_until INTEGER NOT NULL DEFAULT 0,
            client BLOB NOT NULL,
            contents BLOB NOT NULL
        );
        CREATE INDEX session_account ON session (account);
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
