import Foundation
import NIOCore
import NIOPosix
import TestSupport

/// The session store of a gateway under test, and its configuration. Several gateways may share one.
struct SessionStoreFixture {
    enum Kind: String, Sendable, CaseIterable {
        case memory, sqlite, valkey
        /// Six nodes of Valkey 9.
        case cluster

        /// The value of `session.store`.
        fileprivate var setting: String { self == .cluster ? "valkey" : rawValue }
    }

    static let secret = "a secret of the gateway's for tests and long enough"

    let kind: Kind
    let directory: TemporaryDirectory
    /// The port of the Redis server, if there is one.
    let port: Int
    /// The nodes, if there is a cluster.
    var cluster: ValkeyCluster?

    /// The overrides of the configuration.
    /// - Parameter secrets: Gateway secrets instead of the default; none of them may contain a comma.
    func settings(secrets: [String] = []) -> [String] {
        let known = secrets.isEmpty ? [Self.secret] : secrets
        var settings = ["session.store=\(kind.setting)", "session.secrets=\(known.joined(separator: ","))"]
        switch kind {
        case .memory: break
        case .sqlite: settings.append("session.sqlite.path=\(directory.path(of: "sessions.sqlite"))")
        case .valkey: settings.append("session.valkey.addresses=127.0.0.1:\(port)")
        case .cluster:
            settings.append("session.valkey.topology=cluster")
            settings.append("session.valkey.addresses=\(cluster?.addresses ?? "")")
        }
        return settings
    }

    /// All bytes that the store has persisted.
    func contents() throws -> [UInt8] {
        let files = FileManager.default.enumerator(at: directory.url, includingPropertiesForKeys: nil)
        var bytes: [UInt8] = []
        while let file = files?.nextObject() as? URL {
            guard let data = try? Data(contentsOf: file) else { continue }
            bytes += data
        }
        return bytes
    }

    /// Provides a store of a kind while `body` runs.
    static func with<R>(_ kind: Kind, body: (SessionStoreFixture) async throws -> R) async throws -> R {
        let directory = try TemporaryDirectory()
        if kind == .cluster {
            // Every write is in a file at once, for tests that search the files.
            let persistent = ["--appendonly", "yes", "--appendfsync", "always"]
            return try await ValkeyCluster.with(in: directory.url, arguments: persistent) { cluster in
                try await body(SessionStoreFixture(kind: kind, directory: directory, port: 0, cluster: cluster))
            }
        }
        guard kind == .valkey else {
            return try await body(SessionStoreFixture(kind: kind, directory: directory, port: 0))
        }
        let place = SessionStoreFixture(kind: kind, directory: directory, port: try await freePort())
        return try await place.withServer { try await body(place) }
    }

    /// Runs the Redis server of this store while `body` runs; it persists every write immediately.
    func withServer<R>(body: () async throws -> R) async throws -> R {
        let server = try Executables.onPath("redis-server", package: "redis-server")
        let arguments = [
            "--port", "\(port)", "--bind", "127.0.0.1", "--dir", directory.url.path, "--save", "", "--appendonly",
            "yes",
            "--appendfsync", "always",
        ]
        return try await ChildProgram.running(server, arguments) { program in
            _ = try await program.waits(for: "redis-server listens") { program in
                program.output.contains("Ready to accept connections") ? true : nil
            }
            return try await body()
        }
    }

    /// A loopback port on which no process listens.
    static func freePort() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port ?? 0
        try await channel.close()
        return port
    }
}
