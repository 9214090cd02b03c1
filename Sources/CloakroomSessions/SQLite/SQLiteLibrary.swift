import GRDB

/// The SQLite library of the system, which the program is linked with dynamically.
public enum SQLiteLibrary {
    /// The version of the library that is loaded, such as `3.40.1`.
    public static var version: String { version(number: Int(Database.sqliteLibVersionNumber)) }

    /// The version for SQLite's number: the major version times 1,000,000, the minor times 1,000, and the patch.
    static func version(number: Int) -> String {
        "\(number / 1_000_000).\(number / 1_000 % 1_000).\(number % 1_000)"
    }
}
