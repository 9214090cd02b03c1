public import CloakroomCore
import NIOCore
import NIOPosix
public import NIOSSL

/// Connects once to each configured server of the session store, and to the primaries that sentinels name, and describes
/// what it found, for an operator.
///
/// It changes no session. To find missing permissions it sends each command that the store needs to a key of its own,
/// which it deletes.
public struct ValkeyProbe: Sendable {
    /// What was found at one address.
    public struct Finding: Sendable {
        /// The server that was tried.
        public let address: HostAndPort
        /// What is known about it, such as its version and mode. Contains no secret.
        public var facts: [String] = []
        /// Why the store cannot use it; `nil` if it can.
        public var problem: String?
        /// The reason that metrics and logs would state; `nil` if there is no problem.
        public var reason: SessionStoreError.Reason?
        /// What to do, if there is a problem.
        public var advice: String?
    }

    private static let mostAddresses = 16

    /// What a server has to be.
    private enum Role {
        case configured
        case sentinel(ofPrimary: String)
        /// The primary that a sentinel names.
        case named
    }

    private let configuration: ValkeyConfiguration
    private let tls: NIOSSLContext?

    /// Creates a probe.
    /// - Throws: NIOSSL's error if the TLS configuration is invalid.
    public init(_ configuration: ValkeyConfiguration, tls: TLSConfiguration?) throws {
        self.configuration = configuration
        self.tls = try tls.map { try NIOSSLContext(configuration: $0) }
    }

    /// Tries each address, at most 16, and then each primary that a sentinel has named, each within some seconds.
    public func run() async -> [Finding] {
        var findings: [Finding] = []
        var primaries: [HostAndPort] = []
        for address in configuration.addresses.prefix(Self.mostAddresses) {
            var primary: HostAndPort?
            let role = configuration.sentinelPrimary.map(Role.sentinel) ?? .configured
            findings.append(await probe(address, as: role, naming: &primary))
            if let primary, !primaries.contains(primary) { primaries.append(primary) }
        }
        for address in primaries {
            var none: HostAndPort?
            findings.append(await probe(address, as: .named, naming: &none))
        }
        return findings
    }

    private func probe(_ address: HostAndPort, as role: Role, naming primary: inout HostAndPort?) async -> Finding {
        var finding = Finding(address: address)
        var isConnected = false
        do throws(ValkeyDisconnectReason) {
            let options = ValkeyConnection.Options(
                timeout: TimeAmount(configuration.timeout), tls: tls, serverName: configuration.tls?.serverName,
                disconnectCodes: [])
            let connection = try await ValkeyConnection.connect(
                host: address.host, port: address.port, options: options,
                on: MultiThreadedEventLoopGroup.singleton.any())
            defer { connection.close(.closed) }
            isConnected = true
            if case .sentinel(let name) = role {
                primary = try await describeSentinel(connection, of: name, in: &finding)
            } else {
                try await describeServer(connection, in: &finding)
            }
        } catch {
            let reason = SessionStoreError.Reason(error)
            finding.problem = "\(Self.problem(error))"
            finding.reason = reason
            let isSilent = isConnected && finding.facts.isEmpty
            finding.advice = (isSilent ? adviceOnTLS(error) : nil) ?? error.advice ?? reason.advice
            if case .named = role, !isConnected { finding.advice = Self.adviceOnAnnouncement }
        }
        return finding
    }

    private static let adviceOnAnnouncement =
        "a sentinel names this address: check that the gateway can reach it, and replica-announce-ip of the server"

    /// What to do about a server that accepts connections, and replies to nothing. One with TLS closes connections
    /// without it, and one without TLS waits for the rest of what it takes for a command.
    private func adviceOnTLS(_ loss: ValkeyDisconnectReason) -> String? {
        switch loss {
        case .unreachable where tls == nil: "the server may require TLS: write session.valkey.tls, or another port"
        case .timedOut where tls != nil: "the port may be without TLS: write another port, or remove session.valkey.tls"
        default: nil
        }
    }

    private static func problem(_ loss: ValkeyDisconnectReason) -> String {
        switch loss {
        case .unauthorized(let code, let command): "the server rejects \(command) with \(code)"
        case .notPrimary(let code): "the server is not a primary that accepts writes (\(code))"
        case .wrongTopology: "the server does not fit session.valkey.topology"
        case .noPrimary: "the sentinel does not know the primary, or its address"
        default: "no usable connection: \(loss.kind)"
        }
    }

    /// Authenticates, and describes the kind of a server.
    /// - Returns: Its reply.
    private func greet(
        _ connection: ValkeyConnection, _ authentication: [ValkeyCommand.Part], in finding: inout Finding
    ) async throws(ValkeyDisconnectReason) -> RESPValue {
        let reply = try await connection.ask(ValkeyCommand("HELLO", ["3"] + authentication))
        let name = Self.field("server", in: reply) ?? "server"
        let version = Self.field("version", in: reply) ?? "of unknown version"
        let role = Self.field("role", in: reply) ?? "unknown"
        finding.facts.append("\(name) \(version), mode \(ValkeyServerMode(hello: reply).rawValue), role \(role)")
        return reply
    }

    private func describeServer(
        _ connection: ValkeyConnection, in finding: inout Finding
    ) async throws(ValkeyDisconnectReason) {
        let reply = try await greet(connection, configuration.authentication, in: &finding)
        let mode = ValkeyServerMode(hello: reply)
        switch (mode, configuration.topology) {
        case (.sentinel, _): throw .wrongTopology(.sentinelForServer)
        case (.cluster, _) where configuration.sentinelPrimary != nil: throw .wrongTopology(.clusterForSentinel)
        case (.cluster, .single): throw .wrongTopology(.clusterForSingle)
        case (.standalone, .cluster): throw .wrongTopology(.singleForCluster)
        default: break
        }
        if mode == .cluster {
            try await describeCluster(connection, in: &finding)
        } else if Self.field("role", in: reply) == "replica" || Self.field("role", in: reply) == "slave" {
            throw .notPrimary(code: "READONLY")
        }
        let rejected = try await rejectedCommands(connection, isCluster: mode == .cluster)
        let missing = rejected.filter { $0.code == "NOPERM" }.map(\.permission)
        if !missing.isEmpty {
            let user = configuration.user ?? "default"
            finding.problem = "the user \(user) lacks permissions: \(missing.joined(separator: " "))"
            finding.reason = .noPermission
        } else if let first = rejected.first {
            let names = rejected.filter { $0.code == first.code }.map { $0.permission.dropFirst() }
            finding.problem = "the server rejects \(names.joined(separator: " ")) with \(first.code)"
            // A command that is disabled or renamed.
            finding.reason = first.code == "ERR" ? .unsupported : SessionStoreError.Reason(code: first.code)
        }
        finding.advice =
            finding.reason == .unsupported
            ? "use Valkey, or Redis 6 or later, that has these commands" : finding.reason?.advice
    }

    private func describeCluster(
        _ connection: ValkeyConnection, in finding: inout Finding
    ) async throws(ValkeyDisconnectReason) {
        let reply: RESPValue
        do throws(ValkeyDisconnectReason) {
            reply = try await connection.ask(ValkeyConnector.clusterSlots)
        } catch {
            // Named with the other missing permissions.
            if case .unauthorized(code: "NOPERM", _) = error { return }
            throw error
        }
        let slots = try ValkeyConnector.usableSlots(reply, asked: finding.address)
        finding.facts.append("a cluster with \(slots.primaries.count) primaries")
    }

    /// - Returns: The primary that the sentinel names.
    private func describeSentinel(
        _ connection: ValkeyConnection, of primary: String, in finding: inout Finding
    ) async throws(ValkeyDisconnectReason) -> HostAndPort {
        let authentication: [ValkeyCommand.Part] =
            configuration.sentinelPassword.map { ["AUTH", "default", .bytes($0.bytes)] } ?? []
        let mode = ValkeyServerMode(hello: try await greet(connection, authentication, in: &finding))
        if mode != .sentinel, mode != .unknown { throw .wrongTopology(.serverForSentinel) }
        let reply = try await connection.ask(ValkeyCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", .text(primary)))
        guard let parts = reply.elements, parts.count == 2, let host = parts[0].text, let port = parts[1].text else {
            throw .noPrimary
        }
        finding.facts.append("its primary \(primary) is \(Self.printable(host, 255)):\(Self.printable(port, 5))")
        guard let address = ValkeyConnector.primary(reply) else { throw .noPrimary }
        return address
    }

    /// The permissions whose commands the server rejects, with the codes of the errors. Servers check permissions before
    /// slots and types, so any node of a cluster can be asked; its redirections are no rejections.
    private func rejectedCommands(
        _ connection: ValkeyConnection, isCluster: Bool
    ) async throws(ValkeyDisconnectReason) -> [(permission: String, code: String)] {
        let key = ValkeyCommand.Part.text("\(configuration.prefix):{doctor}:probe")
        var commands = [
            ValkeyCommand("CLIENT", "TRACKING", "ON", "NOLOOP"), ValkeyCommand("CLIENT", "SETNAME", "cloakroom"),
            ValkeyCommand("PING"), ValkeyCommand("ROLE"), ValkeyCommand("TIME"),
            ValkeyCommand("EVAL", "return 1", "1", key),
            ValkeyCommand("EVALSHA", "0000000000000000000000000000000000000000", "1", key),
            ValkeyCommand("EXISTS", key), ValkeyCommand("TYPE", key), ValkeyCommand("HGET", key, "f"),
            ValkeyCommand("HMGET", key, "f"), ValkeyCommand("HGETALL", key), ValkeyCommand("HEXISTS", key, "f"),
            ValkeyCommand("PTTL", key), ValkeyCommand("GET", key), ValkeyCommand("ZRANGE", key, "0", "-1"),
            ValkeyCommand("ZSCORE", key, "m"), ValkeyCommand("ZREM", key, "m"),
            ValkeyCommand("ZREMRANGEBYSCORE", key, "1", "0"), ValkeyCommand("ZADD", key, "XX", "1", "m"),
            ValkeyCommand("SET", key, "", "XX"), ValkeyCommand("HSET", key, "f", "1"),
            ValkeyCommand("HINCRBY", key, "f", "1"), ValkeyCommand("PEXPIRE", key, "1000"), ValkeyCommand("DEL", key),
        ]
        var names = commands.map { "+" + $0.name.lowercased() }
        (names[0], names[1]) = ("+client|tracking", "+client|setname")
        if isCluster {
            commands += [ValkeyConnector.clusterSlots, ValkeyCommand("ASKING")]
            names += ["+cluster|slots", "+asking"]
        }
        if configuration.replicas > 0 {
            // Of no replica, so that it does not wait.
            commands.append(ValkeyCommand("WAIT", "0", "1"))
            names.append("+wait")
        }
        let replies = await connection.send(commands, timeout: connection.patience)
        var rejected: [(permission: String, code: String)] = []
        for (name, reply) in zip(names, replies) {
            switch reply {
            case .success: break
            case .failure(.rejected(let error)):
                let isExpected =
                    error.code == "NOSCRIPT" && name == "+evalsha"
                    || isCluster && ["MOVED", "ASK"].contains(error.code)
                    // A replica of a cluster has no replicas.
                    || isCluster && error.code == "ERR" && name == "+wait"
                if !isExpected { rejected.append((name, error.code)) }
            case .failure: throw await connection.lossReason()
            }
        }
        return rejected
    }

    private static func field(_ name: String, in hello: RESPValue) -> String? {
        hello.member(name)?.text.map { printable($0, 40) }
    }

    /// A server's text: bounded, and only visible ASCII, because it is printed on a terminal.
    private static func printable(_ text: String, _ limit: Int) -> String {
        String(decoding: text.utf8.filter { (0x21...0x7e).contains($0) }.prefix(limit), as: UTF8.self)
    }
}
