import CloakroomCore
import NIOCore
import NIOSSL

/// Finds the server and establishes a connection that is ready for use: authenticated, with change tracking, and to a
/// primary.
struct ValkeyConnector: Sendable {
    let configuration: ValkeyConfiguration
    let tls: NIOSSLContext?
    let eventLoop: any EventLoop

    /// One attempt at the single server.
    /// - Returns: `nil` if the server belongs to a cluster, and the topology is not configured.
    func connect() async throws(ValkeyDisconnectReason) -> ValkeyConnection? {
        var loss = ValkeyDisconnectReason.unreachable
        for address in configuration.addresses where !Task.isCancelled {
            do {
                return try await server(address)
            } catch {
                if loss == .unreachable { loss = error }
            }
        }
        throw loss
    }

    /// One attempt at the primary that the sentinels name.
    /// - Parameter write: Sent to the server if it is not `nil`; the server must not reject it as one that accepts no
    ///   writes.
    func connect(
        toPrimary address: HostAndPort, accepting write: ValkeyCommand?
    ) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        guard let connection = try await server(address) else { throw .wrongTopology(.clusterForSentinel) }
        guard let write else { return connection }
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            guard case .failure(.rejected(let error))? = await connection.send([write]).first,
                Self.unfit.contains(error.code) || error.code == Self.noReplicas
            else { return }
            throw .notPrimary(code: error.code)
        }
        return connection
    }

    /// Connects to a primary of a cluster.
    func connect(to node: ClusterNode) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        let connection = try await open(node)
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            try await requireCluster(connection)
            try await prepare(connection, isTracked: true)
        }
        return connection
    }

    /// Opens a further connection to a server that is connected to already, for commands whose keys are not cached.
    func connectUntracked(to node: ClusterNode) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        let connection = try await open(node)
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            _ = try await sendHello(connection)
            try await prepare(connection, isTracked: false)
        }
        return connection
    }

    /// Asks any server of a cluster which servers have which slots.
    func slots(from address: HostAndPort) async throws(ValkeyDisconnectReason) -> ClusterSlots {
        let connection = try await open(ClusterNode(address: address))
        defer { connection.close(.closed) }
        var reply = RESPValue.null
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            try await requireCluster(connection)
            reply = try await connection.ask(Self.clusterSlots)
        }
        return try Self.usableSlots(reply, asked: address)
    }

    /// Parses the reply of a server to ``clusterSlots``.
    /// - Throws: Why the gateway cannot use its cluster.
    static func usableSlots(
        _ reply: RESPValue, asked address: HostAndPort
    ) throws(ValkeyDisconnectReason) -> ClusterSlots {
        let slots: ClusterSlots
        do throws(ClusterSlotsError) {
            slots = try ClusterSlots(reply, asked: address.host)
        } catch {
            throw error.disconnectReason
        }
        if slots.primaries.isEmpty { throw .wrongTopology(.clusterWithoutSlots) }
        if slots.primaries.count > ClusterTopology.maximumLinks {
            throw .wrongTopology(.tooManyPrimaries(slots.primaries.count))
        }
        return slots
    }

    static let clusterSlots = ValkeyCommand("CLUSTER", "SLOTS")

    /// Connects to a server and verifies that it is the right one.
    private func server(_ address: HostAndPort) async throws(ValkeyDisconnectReason) -> ValkeyConnection? {
        let connection = try await open(ClusterNode(address: address))
        var isCluster = false
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            switch try await sendHello(connection) {
            case .cluster where configuration.sentinelPrimary != nil: throw .wrongTopology(.clusterForSentinel)
            case .cluster where configuration.topology == .single: throw .wrongTopology(.clusterForSingle)
            case .cluster: isCluster = true
            case .sentinel: throw .wrongTopology(.sentinelForServer)
            case .standalone, .unknown: try await prepare(connection, isTracked: true)
            }
        }
        guard isCluster else { return connection }
        connection.close(.closed)
        return nil
    }

    private func open(_ node: ClusterNode) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        try await ValkeyConnection.connect(
            host: node.address.host, port: node.address.port, options: options(Self.unfit, name: node.name),
            on: eventLoop)
    }

    /// The codes of errors that mean that this is the wrong server.
    private static let unfit: Set<String> = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH"]

    /// The code of the error for a write to a primary with too few replicas. It may have been replaced, unless sentinels
    /// confirm it: ``SentinelWatch``. Otherwise it still serves reads.
    static let noReplicas = "NOREPLICAS"

    /// Runs the commands that make a connection ready, and closes it if one fails or the task is cancelled: a stopping
    /// gateway does not wait for a server that does not respond.
    private func closingOnFailure(
        _ connection: ValkeyConnection, _ body: () async throws(ValkeyDisconnectReason) -> Void
    ) async throws(ValkeyDisconnectReason) {
        let result: Result<Void, ValkeyDisconnectReason> = await withTaskCancellationHandler {
            do throws(ValkeyDisconnectReason) { return .success(try await body()) } catch {
                connection.close(error)
                return .failure(error)
            }
        } onCancel: {
            connection.close(.closed)
        }
        try result.get()
    }

    private func sendHello(_ connection: ValkeyConnection) async throws(ValkeyDisconnectReason) -> ValkeyServerMode {
        let parts = ["3"] + configuration.authentication + ["SETNAME", "cloakroom"]
        return ValkeyServerMode(hello: try await connection.ask(ValkeyCommand("HELLO", parts)))
    }

    private func requireCluster(_ connection: ValkeyConnection) async throws(ValkeyDisconnectReason) {
        switch try await sendHello(connection) {
        case .cluster, .unknown: break
        case .sentinel: throw .wrongTopology(.sentinelForServer)
        case .standalone: throw .wrongTopology(.singleForCluster)
        }
    }

    /// - Parameter isTracked: Whether the server reports changes of the keys that are read on the connection.
    private func prepare(_ connection: ValkeyConnection, isTracked: Bool) async throws(ValkeyDisconnectReason) {
        if isTracked {
            // Own changes need no notification. The scripts ensure that a key stays tracked after a change by this
            // process.
            _ = try await connection.ask(ValkeyCommand("CLIENT", "TRACKING", "ON", "NOLOOP"))
        }
        _ = try await connection.ask(ValkeyCommand("PING"))
        let role: RESPValue
        do throws(ValkeyDisconnectReason) {
            role = try await connection.ask(ValkeyCommand("ROLE"))
        } catch {
            // Services that hide the role route to the primary themselves. With sentinels the role has to be checked
            // here.
            guard configuration.sentinelPrimary == nil, case .unauthorized = error else { throw error }
            return
        }
        if role.elements?.first?.text != "master" { throw .notPrimary(code: "READONLY") }
    }

    /// Runs a body with a connection to a sentinel, which is closed at the end, or if the task is cancelled.
    func withSentinel(
        _ address: HostAndPort, _ body: (ValkeyConnection) async throws(ValkeyDisconnectReason) -> Void
    ) async throws(ValkeyDisconnectReason) {
        let connection = try await ValkeyConnection.connect(
            host: address.host, port: address.port, options: options([], name: nil), on: eventLoop)
        defer { connection.close(.closed) }
        try await closingOnFailure(connection) { () async throws(ValkeyDisconnectReason) in
            if let password = configuration.sentinelPassword {
                _ = try await connection.ask(ValkeyCommand("AUTH", .bytes(password.bytes)))
            }
            try await body(connection)
        }
    }

    /// Asks a sentinel for the address of the primary.
    /// - Returns: `nil` if the sentinel does not know the name.
    func primary(
        _ name: String, of sentinel: ValkeyConnection
    ) async throws(ValkeyDisconnectReason) -> HostAndPort? {
        let response: RESPValue
        do throws(ValkeyDisconnectReason) {
            response = try await sentinel.ask(ValkeyCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", .text(name)))
        } catch {
            // Only sentinels have this command.
            if case .unsupportedServer = error { throw .wrongTopology(.serverForSentinel) }
            throw error
        }
        return Self.primary(response)
    }

    /// The address in the reply of a sentinel; `nil` if there is none.
    static func primary(_ reply: RESPValue) -> HostAndPort? {
        guard let elements = reply.elements, elements.count == 2,
            let host = elements[0].text.flatMap(ClusterNode.host), let port = elements[1].text.flatMap({ UInt16($0) }),
            port > 0
        else { return nil }
        return HostAndPort(host: host.lowercased(), port: Int(port))
    }

    private func options(_ unfit: Set<String>, name: String?) -> ValkeyConnection.Options {
        ValkeyConnection.Options(
            timeout: TimeAmount(configuration.timeout), tls: tls,
            serverName: configuration.tls?.serverName ?? name, disconnectCodes: unfit)
    }
}

/// The kind of a server, as its reply to `HELLO` reports it.
enum ValkeyServerMode: String, Sendable, Equatable {
    case standalone, cluster, sentinel
    /// Not reported: a proxy.
    case unknown

    init(hello: RESPValue) {
        self = hello.member("mode")?.text.flatMap(ValkeyServerMode.init(rawValue:)) ?? .unknown
    }
}

extension ValkeyConfiguration {
    /// The parts of `HELLO` that authenticate; none without a password.
    var authentication: [ValkeyCommand.Part] {
        password.map { ["AUTH", .text(user ?? "default"), .bytes($0.bytes)] } ?? []
    }
}
