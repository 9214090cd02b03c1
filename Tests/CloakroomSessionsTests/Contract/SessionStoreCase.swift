import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// A kind of store for the contract suite. To add a store, extend ``all``.
struct SessionStoreCase: Sendable, CustomTestStringConvertible {
    let name: String
    /// Whether several stores may share the storage, as replicas do.
    var isShared = true
    /// Whether the store uses the time that callers pass. An external server uses its own clock.
    var followsGivenTime = true
    var counts = true
    /// Creates exclusive storage for sessions.
    let make: @Sendable (SessionConfiguration) async throws -> any SessionStoreFixture

    var testDescription: String { name }

    /// The timeouts of its stores, with the configuration of ``Sample``.
    var timeouts: SessionTimeouts { SessionTimeouts(Sample.configuration, isShared: isShared) }
    /// How long after its last recorded use a session ends.
    var idle: Duration { timeouts.idle }

    static let all =
        [
            SessionStoreCase(name: "memory", isShared: false) { MemoryStoreFixture(configuration: $0) }
        ] + RecordStoreCase.all.map(sealed)

    /// The kinds that several replicas may share.
    static let shared = all.filter(\.isShared)
    /// The kinds whose deadlines can be tested.
    static let followingGivenTime = all.filter(\.followsGivenTime)

    /// Sealed sessions over a kind of record store.
    private static func sealed(over kind: RecordStoreCase) -> SessionStoreCase {
        SessionStoreCase(
            name: "sealed, \(kind.name)", followsGivenTime: kind.followsGivenTime, counts: kind.counts
        ) { configuration in
            SealedStoreFixture(configuration: configuration, place: try await kind.make())
        }
    }

    /// Runs a test with a running store over new storage.
    func run(
        _ configuration: SessionConfiguration = Sample.configuration, _ test: (any SessionStore) async throws -> Void
    ) async throws {
        try await withPlace(configuration) { place in try await RunningStore.with(try await place.store(), test) }
    }

    /// Runs a test with a running store that has a session.
    func run(
        with new: NewSession, _ test: (any SessionStore, SessionTicket, Session) async throws -> Void
    ) async throws {
        try await run { store in
            let (ticket, session) = try await store.create(new, now: Sample.start)
            try await test(store, ticket, session)
        }
    }

    /// Runs a test with two running stores over new storage: two replicas.
    func runTwo(
        _ configuration: SessionConfiguration = Sample.configuration,
        _ test: (any SessionStore, any SessionStore) async throws -> Void
    ) async throws {
        try await withPlace(configuration) { place in
            let other = try await place.store()
            try await RunningStore.with(try await place.store()) { one in
                try await RunningStore.with(other) { try await test(one, $0) }
            }
        }
    }

    /// Runs a test with new storage, which is torn down in any case.
    func withPlace(_ configuration: SessionConfiguration, _ test: (any SessionStoreFixture) async throws -> Void)
        async throws
    {
        let place = try await make(configuration)
        try await stopping {
            await place.tearDown()
        } after: {
            try await test(place)
        }
    }
}

protocol SessionStoreFixture: Sendable {
    /// Creates another store over this storage. Its operations need not work before it runs.
    func store() async throws -> any SessionStore
    func tearDown() async
}

struct MemoryStoreFixture: SessionStoreFixture {
    let configuration: SessionConfiguration

    func store() async throws -> any SessionStore {
        MemorySessionStore(configuration, accountHashes: Sample.accountHashes, clock: { Sample.start })
    }

    func tearDown() async {}
}

struct SealedStoreFixture: SessionStoreFixture {
    let configuration: SessionConfiguration
    let place: any RecordStoreFixture

    func store() async throws -> any SessionStore { seal(try await place.idleStore()) }
    func tearDown() async { await place.tearDown() }

    private func seal(_ records: some SessionRecordStore) -> any SessionStore {
        SealedSessionStore(records, configuration: configuration, secrets: Sample.secrets)
    }
}

enum RunningStore {
    /// Runs a store while a test runs.
    static func with(_ store: any SessionStore, _ test: (any SessionStore) async throws -> Void) async throws {
        let running = Task { await store.run() }
        try await stopping {
            running.cancel()
            await running.value
        } after: {
            try await eventually("the store is available, with all servers") {
                store.isAvailable && (store as? any PartitionedStore)?.isWhole != false
            }
            try await test(store)
        }
    }
}

/// A store whose partitions become available one after the other.
private protocol PartitionedStore {
    /// Whether all partitions are available.
    var isWhole: Bool { get }
}

extension SealedSessionStore: PartitionedStore {
    fileprivate var isWhole: Bool { (0..<records.partitionCount).allSatisfy { table.trust.word($0) % 2 == 1 } }
}
