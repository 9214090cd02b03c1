import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// A kind of record store for the contract suite. To add one, extend ``all``.
struct RecordStoreCase: Sendable, CustomTestStringConvertible {
    let name: String
    /// Whether the store uses the time that callers pass. An external server uses its own clock.
    var followsGivenTime = true
    var counts = true
    /// Whether durable writes may take a second connection, because a server has a replica.
    var hasReplicas: Bool { name == "cluster" || name == "sentinel" }
    /// Creates exclusive storage for records.
    let make: @Sendable () async throws -> any RecordStoreFixture

    var testDescription: String { name }

    static let all = [
        RecordStoreCase(name: "in memory") { InMemoryRecordFixture() },
        RecordStoreCase(name: "sqlite") { try SQLiteRecordFixture() },
        valkey("redis 7.0") { try await ValkeyFixture() },
        valkey("valkey 9.1") { try await ValkeyFixture(.single) },
        valkey("sentinel") { try await ValkeyFixture(.sentinel) },
        valkey("cluster") { try await ValkeyFixture(.cluster) },
    ]

    private static func valkey(
        _ name: String, _ make: @escaping @Sendable () async throws -> any RecordStoreFixture
    ) -> RecordStoreCase {
        RecordStoreCase(name: name, followsGivenTime: false, counts: false, make: make)
    }

    /// The kinds whose deadlines can be tested.
    static let followingGivenTime = all.filter(\.followsGivenTime)

    /// Runs a test with one store over new storage.
    func run(_ test: (any SessionRecordStore) async throws -> Void) async throws {
        let place = try await make()
        try await stopping {
            await place.tearDown()
        } after: {
            try await test(try await place.store())
        }
    }

    /// Runs a test with two stores over new storage, as for two replicas.
    func runTwo(_ test: (any SessionRecordStore, any SessionRecordStore) async throws -> Void) async throws {
        let place = try await make()
        try await stopping {
            await place.tearDown()
        } after: {
            try await test(try await place.store(), try await place.store())
        }
    }

    /// Runs a test with two stores over new storage that run, each followed by its notifications.
    func runWatched(
        _ test: (
            any SessionRecordStore, RecordingChangeDelegate, any SessionRecordStore, RecordingChangeDelegate
        ) async throws -> Void
    ) async throws {
        let place = try await make()
        try await stopping {
            await place.tearDown()
        } after: {
            let (one, other) = (try await place.idleStore(), try await place.idleStore())
            try await one.whileRunning { ownChanges in
                try await other.whileRunning { changes in
                    try await ownChanges.wait(untilTrusted: one.partitionCount)
                    try await changes.wait(untilTrusted: other.partitionCount)
                    try await test(one, ownChanges, other, changes)
                }
            }
        }
    }
}

extension SessionRecordStore {
    /// Records uses, also if others were recorded shortly before.
    @discardableResult
    func touch(_ touches: [RecordTouch]) async throws(SessionStoreError) -> UnwrittenTouches? {
        try await touch(touches, granularity: .milliseconds(1))
    }
}

/// Storage of record stores: a file, a server. Several stores over the same storage act as several replicas.
protocol RecordStoreFixture: Sendable {
    /// Creates another store over this storage. Its operations work, and it is not to be run.
    func store() async throws -> any SessionRecordStore
    /// Creates another store over this storage. Its operations need not work before it runs.
    func idleStore() async throws -> any SessionRecordStore
    /// Stops everything that was started.
    func tearDown() async
}

extension RecordStoreFixture {
    func idleStore() async throws -> any SessionRecordStore { try await store() }
}

struct InMemoryRecordFixture: RecordStoreFixture {
    let server = RecordServer()

    func store() async throws -> any SessionRecordStore { InMemoryRecords(server) }
    func tearDown() async {}
}

/// A suite of tests of ``RecordStoreCase``: its records and its time.
protocol RecordContract {}

extension SessionRecordStore {
    /// Inserts a record of an account that may have any number of them.
    /// - Returns: `false` if there is one with the same id.
    func insert(
        _ record: SessionRecord, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await insert(record, limit: .max, keepUntil: keepUntil, now: now) != .taken
    }
}

extension RecordContract {
    var now: SessionTime { Sample.start }

    func record(_ number: UInt64, account: UInt64 = 1, version: UInt64 = 1) -> SessionRecord {
        SessionRecord(
            key: SessionKey(number << 32 | 0xabcd, number, ~number, number &* 3), account: account, createdAt: now,
            expiresAt: now + .seconds(3_600), lastUsedAt: now, version: version,
            contents: (0..<200).map { UInt8(truncatingIfNeeded: $0 &+ Int(number)) }, client: [0, 1, 255, 13, 10, 0])
    }

    var later: SessionTime { now + .seconds(1_200) }

    func insert(_ record: SessionRecord, _ store: any SessionRecordStore) async throws {
        try await expect(store.insert(record, keepUntil: later, now: now))
    }
}
