import Foundation
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

    /// Only a server that hangs exceeds it, and not one on a busy machine.
    private static let timeout = "session.valkey.timeout=5s"

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
        case .valkey: settings += ["session.valkey.addresses=127.0.0.1:\(port)", Self.timeout]
        case .cluster:
            settings.append(Self.timeout)
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
        let place = SessionStoreFixture(kind: kind, directory: directory, port: try FreePort.next())
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

    /// Waits until a gateway uses its Redis server or cluster. Without one that responds, or with TLS, there is nothing to
    /// wait for. The listeners of a gateway wait for its store too, but only 1 s, which may be too short on a busy machine.
    /// - Parameters:
    ///   - set: The overrides of its configuration.
    ///   - admin: The address of its admin listener, with the scheme.
    static func isUsed(_ set: [String], admin: String) async throws {
        let key = "session.valkey.addresses="
        guard !set.contains("session.valkey.tls.enabled=true"), let setting = set.first(where: { $0.hasPrefix(key) }),
            let address = setting.dropFirst(key.count).split(separator: ",").first
        else { return }
        guard (try? await RESPReply.ask(port: String(address).port, ["PING"])) == .text("PONG") else { return }
        try await eventually("the gateway uses its store") { try await WebClient(admin).get("/ready").status == 200 }
    }
}
