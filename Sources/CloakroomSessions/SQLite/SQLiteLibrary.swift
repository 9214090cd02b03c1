import CSQLite

/// The SQLite library of the system, which the program is linked with dynamically.
public enum SQLiteLibrary {
    /// The version of the library that is loaded, such as `3.40.1`.
    public static var version: String { String(cString: sqlite3_libversion()) }
}
