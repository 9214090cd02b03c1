import TestSupport
import Testing

@testable import CloakroomSessions

@Suite struct SQLiteLibraryTests {
    @Test("The loaded library is SQLite 3")
    func loaded() {
        expect(SQLiteLibrary.version.wholeMatch(of: /3\.\d+\.\d+/) != nil, "\(SQLiteLibrary.version)")
    }
}
