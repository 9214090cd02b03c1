import CloakroomCore
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

@testable import CloakroomSessions

/// A real server process with a folder of its own. The caller that starts the server has to stop it.
final class RedisServer: Sendable {
    struct Options: Sendable {
        var program = "redis-server"
        static let valkey = "valkey-server"
        static let sentinel = "redis-sentinel"
        /// Whether the data survives the process.
        var isPersistent = false
        var arguments: [String] = []
        /// Lines of its configuration file.
        var configuration: [String] = []
        /// How a client has to connect to check that the server is available.
        var tls: TLSConfiguration?
        var password: String?

        /// A sentinel of a primary, which is named "main".
        static func watching(_ primary: RedisServer, _ further: String...) -> Options {
            Options(program: sentinel, configuration: ["sentinel monitor main 127.0.0.1 \(primary.port) 1"] + further)
        }
    }

    let port: Int
    private let directory: TemporaryDirectory
    private let options: Options
    private let process = Mutex<ChildProcess?>(nil)

    /// Starts a server and waits until it responds.
    init(_ options: Options = Options(), port: Int? = nil) async throws {
        self.options = options
        if let port { self.port = port } else { self.port = try FreePort.next() }
        directory = try TemporaryDirectory()
        try await start()
    }

    var address: HostAndPort { HostAndPort(host: "127.0.0.1", port: port) }
    var folder: String { directory.path }
    /// The process identifier while the server runs.
    var processIdentifier: Int32? { process.withLock { $0?.processIdentifier } }

    /// Starts the server with the same port and folder.
    func start() async throws {
        let file = directory.url.appending(path: "redis.conf")
        var lines = ["dir \(directory.path)", "bind 127.0.0.1"] + options.configuration
        lines.append(options.tls == nil ? "port \(port)" : "port 0\ntls-port \(port)")
        if options.program != Options.sentinel {
            lines += ["save \"\"", "appendonly \(options.isPersistent ? "yes" : "no")", "appendfsync always"]
        }
        // A sentinel stores its state in this file, so the file is written once.
        if !FileManager.default.fileExists(atPath: file.path) {
            try lines.joined(separator: "\n").appending("\n").write(to: file, atomically: true, encoding: .utf8)
        }
        let program = try ExternalProgram.path(of: options.program, package: "it with deploy/test.sh")
        let process = try ChildProcess(program, [file.path] + options.arguments)
        self.process.withLock { $0 = process }
        try await eventually("the server responds") {
            guard process.isRunning else { throw TimeoutError("\(self.options.program) did not start") }
            // A server with a password responds too: with an error that requires it.
            return await (try? self.connected { await $0.send([ValkeyCommand("PING")]) })?
                .first.map { reply in
                    switch reply {
                    case .success: true
                    case .failure(.rejected(let error)): error.code != "LOADING"
                    case .failure: false
                    }
                } ?? false
        }
    }

    /// Kills the process, as a power failure would.
    func kill() async {
        await end(SIGKILL)
    }

    /// Suspends the process: the port stays open without responses.
    func freeze() { signal(SIGSTOP) }
    func thaw() { signal(SIGCONT) }

    @discardableResult
    func ask(_ name: String, _ parts: ValkeyCommand.Part...) async throws -> RESPValue {
        let command = ValkeyCommand(name, parts)
        return try await connected { connection in
            if let password = self.options.password {
                _ = await connection.send([ValkeyCommand("AUTH", .text(password))])
            }
            guard let reply = await connection.send([command]).first else { throw ValkeyCommandError.disconnected }
            return try reply.get()
        }
    }

    /// For how many milliseconds the server keeps a key; negative if it is missing or kept without end.
    func lifetime(of key: String) async throws -> Int64 {
        guard case .integer(let time) = try await ask("PTTL", .text(key)) else { throw ValkeyCommandError.disconnected }
        return time
    }

    /// How often each command was called so far, by its name in lower case.
    func calls() async throws -> [Substring: Int] {
        let text = try await ask("INFO", "commandstats").text ?? ""
        let pairs = text.matches(of: /cmdstat_([^:]+):calls=(\d+)/).map { ($0.1, Int($0.2) ?? 0) }
        return Dictionary(pairs) { first, _ in first }
    }

    private func connected<Value: Sendable>(
        _ body: (ValkeyConnection) async throws -> Value
    ) async throws -> Value {
        let tls = try options.tls.map { try NIOSSLContext(configuration: $0) }
        let connection = try await ValkeyConnection.connect(
            host: "127.0.0.1", port: port,
            options: ValkeyConnection.Options(
                timeout: .seconds(10), tls: tls, serverName: tls == nil ? nil : "localhost", disconnectCodes: []),
            on: MultiThreadedEventLoopGroup.singleton.any())
        defer { connection.close(.closed) }
        return try await body(connection)
    }

    private func signal(_ signal: Int32) {
        process.withLock { $0 }?.signal(signal)
    }

    private func end(_ number: Int32) async {
        guard let process = process.withLock({ $0 }) else { return }
        process.signal(number)
        await process.ends()
        self.process.withLock { $0 = nil }
    }

}

/// Runs a test with a server that is stopped afterwards.
func withRedis<Value>(
    _ options: RedisServer.Options = RedisServer.Options(), port: Int? = nil,
    _ body: (RedisServer) async throws -> Value
) async throws -> Value {
    let server = try await RedisServer(options, port: port)
    return try await stopping {
        await server.kill()
    } after: {
        try await body(server)
    }
}
