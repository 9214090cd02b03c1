@testable import CloakroomSessions

/// A separate file for each test of the contract.
struct SQLiteRecordFixture: RecordStoreFixture {
    let directory: SQLiteTestDirectory

    init() throws {
        directory = try SQLiteTestDirectory()
    }

    func store() async throws -> any SessionRecordStore { directory.store() }
    func tearDown() async {}
}
