import CloakroomCore
import Testing

@testable import CloakroomSessions

/// A kind of record store that the contract suite is run against. A new one is one more line in ``all``.
struct RecordStoreCase: Sendable, CustomTestStringConvertible {
    let name: String
    /// Whether time passes for it as its callers say. A server of its own goes by its own clock.
    var followsGivenTime = true
    /// Whether it knows how many records there are.
    var counts = true
    /// Makes a place for records that nobody else uses.
    let make: @Sendable () async throws -> any RecordStoreFixture

    var testDescription: String { name }

    static let all = [
        RecordStoreCase(name: "in memory") { InMemoryRecordFixture() },
        RecordStoreCase(name: "sqlite") { try SQLiteRecordFixture() },
        RecordStoreCase(name: "valkey", followsGivenTime: false, counts: false) { try await ValkeyFixture() },
    ]

    /// Those that tests of deadlines can be run against.
    static let followingGivenTime = all.filter(\.followsGivenTime)

    /// Runs a test with one store over a new place.
    func run(_ test: (any SessionRecordStore) async throws -> Void) async throws {
        let place = try await make()
        do {
            try await test(try await place.store())
        } catch {
            await place.tearDown()
            throw error
        }
        await place.tearDown()
    }

    /// Runs a test with two stores over a new place, as two replicas have them.
    func runTwo(_ test: (any SessionRecordStore, any SessionRecordStore) async throws -> Void) async throws {
        let place = try await make()
        do {
            try await test(try await place.store(), try await place.store())
        } catch {
            await place.tearDown()
            throw error
        }
        await place.tearDown()
    }
}

/// Where record stores keep records: a file, a server. Several stores over one place are several replicas.
protocol RecordStoreFixture: Sendable {
    /// One more store over this place, not running yet; operations work nevertheless.
    func store() async throws -> any SessionRecordStore
    /// Ends what was started.
    func tearDown() async
}

struct InMemoryRecordFixture: RecordStoreFixture {
    let server = RecordServer()

    func store() async throws -> any SessionRecordStore { InMemoryRecords(server) }
    func tearDown() async {}
}
