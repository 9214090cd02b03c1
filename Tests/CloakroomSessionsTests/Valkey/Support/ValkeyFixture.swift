import Synchronization
import TestSupport

@testable import CloakroomCore
@testable import CloakroomSessions

/// A place for the records of one test of the contract: a server of its own, or a prefix of its own at shared servers.
struct ValkeyFixture: RecordStoreFixture {
    private let configuration: ValkeyConfiguration
    private let server: RedisServer?
    private let replicas = Replicas()

    /// A separate server, Redis 7.0.
    init() async throws {
        let server = try await RedisServer()
        self.server = server
        configuration = ValkeyConfiguration(addresses: [server.address], timeout: .seconds(10))
    }

    /// A prefix of its own at shared servers.
    init(_ topology: SharedServers.Topology) async throws {
        server = nil
        var configuration = try await SharedServers.instance.configuration(topology)
        configuration.prefix = "test\(UInt64.random(in: 0...(.max)))"
        self.configuration = configuration
    }

    func store() async throws -> any SessionRecordStore {
        let replica = try await Replica.up(configuration)
        replicas.list.withLock { $0.append(replica) }
        return RunningRecords(replica: replica)
    }

    func tearDown() async {
        for replica in replicas.list.withLock({ $0 }) { await replica.stop() }
        await server?.kill()
    }

    private final class Replicas: Sendable {
        let list = Mutex<[Replica]>([])
    }
}

/// Runs a test with a connected gateway and its server.
/// - Parameter configure: Changes the gateway's configuration.
func withReplica(
    _ options: RedisServer.Options = RedisServer.Options(), configure: (inout ValkeyConfiguration) -> Void = { _ in },
    _ body: (Replica, RedisServer) async throws -> Void
) async throws {
    try await withRedis(options) { server in
        var configuration = ValkeyConfiguration(addresses: [server.address], timeout: .seconds(10))
        configure(&configuration)
        let replica = try await Replica.up(configuration)
        try await stopping {
            await replica.stop()
        } after: {
            try await body(replica, server)
        }
    }
}

/// Runs a test with two gateways on one server.
func withReplicas(
    _ options: RedisServer.Options = RedisServer.Options(), _ body: (Replica, Replica, RedisServer) async throws -> Void
) async throws {
    try await withReplica(options) { one, server in
        let other = try await Replica.up(server)
        try await stopping {
            await other.stop()
        } after: {
            try await body(one, other, server)
        }
    }
}

/// Runs a test with a connected store and its server.
func withValkeyStore(_ body: (ValkeyRecordStore, RedisServer) async throws -> Void) async throws {
    try await withReplica { try await body($0.records, $1) }
}

/// A store that is connected already. Running it delivers change notifications.
struct RunningRecords: SessionRecordStore {
    let replica: Replica
    private var records: ValkeyRecordStore { replica.records }

    init(replica: Replica) { self.replica = replica }

    var count: Int { records.count }

    func run(_ changes: any RecordChangeDelegate) async {
        // First, so that no change is missed after the notification.
        replica.changes.forward(to: changes)
        changes.partitionsChanged([0..<partitionCount], areTrusted: true, afterOutage: false)
        // Ends only with its task, like the store itself.
        let (waiting, end) = AsyncStream<Never>.makeStream()
        await withTaskCancellationHandler {
            for await _ in waiting {}
        } onCancel: {
            end.finish()
        }
    }

    var partitionCount: Int { records.partitionCount }
    func partition(of id: SessionID) -> Int { records.partition(of: id) }
    func partition(ofIndex index: RecordIndex) -> Int { records.partition(ofIndex: index) }

    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        try await records.surplus(of: account, by: rule, now: now)
    }

    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?] {
        try await records.cutoffs(indexes, now: now)
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) {
        try await records.setCutoff(index, keeping: kept, before: before, lifetime: lifetime, now: now)
    }

    func insert(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        try await records.insert(record, limit: limit, keepUntil: keepUntil, now: now)
    }

    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        try await records.read(id, now: now)
    }

    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        try await records.replace(record, keepUntil: keepUntil, fence: fence, now: now)
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        try await records.remove(id, reason: reason, condition: condition, now: now)
    }

    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches? {
        try await records.touch(touches, granularity: granularity)
    }

    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    {
        try await records.lease(id, for: duration, now: now)
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        try await records.release(id, fence: fence)
    }

    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord] {
        try await records.records(in: index, now: now)
    }

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await records.setMark(key, to: time, lifetime: lifetime, now: now)
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try await records.latestMark(keys, now: now)
    }

    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        try await records.throttleStates(keys, now: now)
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try await records.countAttempt(counters, now: now)
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try await records.removeAttempt(counts, now: now)
    }
}
