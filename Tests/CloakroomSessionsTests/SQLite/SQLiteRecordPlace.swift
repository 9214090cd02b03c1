@testable import CloakroomSessions

/// A file of its own for each test of the contract.
struct SQLiteRecordPlace: RecordPlace {
    let folder: SQLiteTestFolder

    init() throws {
        folder = try SQLiteTestFolder()
    }

    func store() async throws -> any SessionRecordStore { folder.store() }
    func tearDown() async {}
}
