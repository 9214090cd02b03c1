import Glibc
import TestSupport

@testable import CloakroomCore
@testable import CloakroomSessions

/// Servers that the tests of the contract share, because six nodes per test would take long. Each test has a prefix of
/// its own. They start when they are first needed, and end with this process in whatever way it ends.
actor SharedServers {
    enum Topology: Sendable, Hashable {
        case single, sentinel, cluster
    }

    static let instance = SharedServers()

    private var starting: [Topology: Task<ValkeyConfiguration, any Error>] = [:]
    /// The servers, whose folders exist as long as these objects.
    private var servers: [any Sendable] = []
    private var guards: [ChildProcess] = []

    /// How to connect to the servers of a topology.
    func configuration(_ topology: Topology) async throws -> ValkeyConfiguration {
        if let task = starting[topology] { return try await task.value }
        let task = Task {
            switch topology {
            case .single: try await self.startSingle()
            case .sentinel: try await self.startSentinel()
            case .cluster: try await self.startCluster()
            }
        }
        starting[topology] = task
        return try await task.value
    }

    private func startSingle() async throws -> ValkeyConfiguration {
        let server = try await RedisServer(RedisServer.Options(program: RedisServer.Options.valkey))
        try keep([server], [server.processIdentifier], folders: [server.folder])
        return ValkeyConfiguration(addresses: [server.address], timeout: .seconds(10))
    }

    private func startSentinel() async throws -> ValkeyConfiguration {
        let primary = try await RedisServer()
        let sentinel = try await RedisServer(.watching(primary))
        try keep(
            [primary, sentinel], [primary.processIdentifier, sentinel.processIdentifier],
            folders: [primary.folder, sentinel.folder])
        return ValkeyConfiguration(
            addresses: [sentinel.address], sentinelPrimary: "main", timeout: .seconds(10))
    }

    private func startCluster() async throws -> ValkeyConfiguration {
        let cluster = try await ValkeyCluster()
        try keep([cluster], cluster.nodes.map(\.processIdentifier), folders: [cluster.folder])
        return ValkeyConfiguration(cluster)
    }

    /// Keeps servers until the end of this process: a shell kills them when its input from this process ends.
    private func keep(_ servers: [any Sendable], _ processes: [Int32?], folders: [String]) throws {
        self.servers += servers
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0, fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0 else { throw TimeoutError("a pipe") }
        let identifiers = processes.compactMap { $0 }.map(String.init).joined(separator: " ")
        // The other end of the pipe stays open as long as this process exists.
        let script = "read -r _; kill -9 \(identifiers); sleep 1; rm -rf \(folders.joined(separator: " "))"
        guards.append(try ChildProcess("sh", ["-c", script], input: .descriptor(ends[0])))
        close(ends[0])
    }
}

extension ValkeyConfiguration {
    /// The nodes of a cluster as seeds.
    init(_ cluster: ValkeyCluster) {
        self.init(
            addresses: cluster.nodes.map { HostAndPort(host: "127.0.0.1", port: $0.port) }, timeout: .seconds(3))
    }
}
