import Testing

@testable import CloakroomSessions

@Suite struct SQLiteLibraryTests {
    @Test("SQLite's number is rendered as a version", arguments: [(3_040_001, "3.40.1"), (3_100_012, "3.100.12")])
    func rendered(_ number: Int, _ version: String) {
        #expect(SQLiteLibrary.version(number: number) == version)
    }

    @Test("The loaded library is SQLite 3")
    func loaded() {
        #expect(SQLiteLibrary.version.wholeMatch(of: /3\.\d+\.\d+/) != nil, "\(SQLiteLibrary.version)")
    }
}
