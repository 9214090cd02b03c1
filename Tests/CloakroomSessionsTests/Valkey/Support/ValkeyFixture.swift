import NIOPosix
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
        return replica.records
    }

    func idleStore() async throws -> any SessionRecordStore { try ValkeyRecordStore(configuration) }

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

/// Runs a test with sealed sessions on a server of their own.
func withSealedStore(_ body: (any SessionStore, RedisServer) async throws -> Void) async throws {
    try await withRedis { server in
        let records = try ValkeyRecordStore(
            ValkeyConfiguration(addresses: [server.address], timeout: .seconds(10)))
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        try await RunningStore.with(store) { try await body($0, server) }
    }
}

extension ValkeyRecordStore {
    /// A store that does not run yet.
    fileprivate init(_ configuration: ValkeyConfiguration) throws {
        try self.init(
            configuration, tls: nil, group: MultiThreadedEventLoopGroup.singleton, logger: RecordedLog().logger)
    }
}
