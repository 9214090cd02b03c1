import NIOCore
import NIOPosix
import Synchronization
import TestSupport

@testable import CloakroomCore
@testable import CloakroomSessions

/// A server that replies as a test specifies, and records the commands.
final class ScriptedNode: Sendable {
    private struct State {
        var channel: (any Channel)?
        var connections: [any Channel] = []
        var commands: [[String]] = []
        var replies: [String: [String]] = [:]
        var mode = "cluster"
        var role = "master"
        var hasReplica = false
        var isHanging = false
        var slots = "*0\r\n"
        /// The reply of a sentinel.
        var primary: String?
    }

    private let state = Mutex(State())
    let port: Int

    var address: HostAndPort { HostAndPort(host: "127.0.0.1", port: port) }

    init(port: Int = 0, mode: String = "cluster") async throws {
        let box = NodeBox()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(box))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        self.port = channel.localAddress?.port ?? 0
        state.withLock {
            $0.channel = channel
            $0.mode = mode
        }
        box.node.withLock { $0 = self }
    }

    /// All commands but those that connect, ask for the topology and keep the connection.
    var commands: [[String]] {
        let common: Set<String> = ["HELLO", "CLIENT", "PING", "ROLE", "CLUSTER", "SENTINEL"]
        return state.withLock { $0.commands.filter { !common.contains($0[0]) } }
    }

    func count(of name: String) -> Int { state.withLock { $0.commands.count { $0[0] == name } } }

    /// The replies to the next commands with this name. Later ones get the port.
    func reply(to name: String, _ lines: String...) {
        state.withLock { $0.replies[name, default: []] += lines.map { $0 + "\r\n" } }
    }

    /// Forgets the replies that are left of ``reply(to:_:)``.
    func dropReplies(to name: String) {
        state.withLock { $0.replies[name] = nil }
    }

    func setMode(_ mode: String, role: String = "master") {
        state.withLock { ($0.mode, $0.role) = (mode, role) }
    }

    /// Whether it reports a connected replica.
    func setReplica(_ hasReplica: Bool) {
        state.withLock { $0.hasReplica = hasReplica }
    }

    /// Whether it replies to nothing. Its connections stay.
    func setHanging(_ isHanging: Bool) {
        state.withLock { $0.isHanging = isHanging }
    }

    /// What it reports of the slots.
    func setSlots(_ rows: [(Range<Int>, ScriptedNode)]) {
        let text = rows.map { slots, node in
            "*3\r\n:\(slots.lowerBound)\r\n:\(slots.upperBound - 1)\r\n*3\r\n$9\r\n127.0.0.1\r\n:\(node.port)\r\n$2\r\nid\r\n"
        }
        state.withLock { $0.slots = "*\(rows.count)\r\n" + text.joined() }
    }

    /// Which primary it names as a sentinel; `nil` for none.
    func setPrimary(_ node: ScriptedNode?) {
        let reply = node.map { "*2\r\n$9\r\n127.0.0.1\r\n+\($0.port)\r\n" } ?? "*-1\r\n"
        state.withLock { ($0.mode, $0.primary) = ("sentinel", reply) }
    }

    /// As a sentinel it does not respond.
    func setSilent() {
        state.withLock { $0.primary = "" }
    }

    func setSlots(raw reply: String) {
        state.withLock { $0.slots = reply }
    }

    /// The number of all connections that were opened to it.
    var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Closes all connections, and the port.
    func stop() async {
        let (channel, connections) = state.withLock { ($0.channel, $0.connections) }
        try? await channel?.close()
        for connection in connections { try? await connection.close() }
    }

    /// Closes all connections.
    func disconnect() async {
        for connection in state.withLock({ $0.connections }) { try? await connection.close() }
    }

    /// Sends a push message on all connections.
    func push(_ text: String) {
        for connection in state.withLock({ $0.connections }) {
            connection.writeAndFlush(ByteBuffer(string: text), promise: nil)
        }
    }

    fileprivate func opened(_ channel: any Channel) {
        state.withLock { $0.connections.append(channel) }
    }

    fileprivate func reply(to command: [String]) -> String {
        state.withLock { state in
            state.commands.append(command)
            guard !state.isHanging else { return "" }
            let name = command[0]
            if state.replies[name]?.isEmpty == false, let next = state.replies[name]?.removeFirst() { return next }
            switch name {
            case "HELLO": return "%2\r\n+server\r\n+valkey\r\n+mode\r\n+\(state.mode)\r\n"
            case "ROLE":
                let replicas = state.hasReplica ? "*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n$1\r\n0\r\n" : "*0\r\n"
                return "*3\r\n+\(state.role)\r\n:0\r\n" + replicas
            case "CLUSTER": return state.mode == "cluster" ? state.slots : "-ERR cluster support disabled\r\n"
            case "SENTINEL" where state.primary != nil: return state.primary ?? ""
            case "PING": return "+PONG\r\n"
            case "CLIENT", "ASKING": return "+OK\r\n"
            default: return ":\(port)\r\n"
            }
        }
    }

    private final class NodeBox: Sendable {
        let node = Mutex<ScriptedNode?>(nil)
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let box: NodeBox
        private var parser = RESPParser()

        init(_ box: NodeBox) {
            self.box = box
        }

        func channelActive(context: ChannelHandlerContext) {
            box.node.withLock { $0 }?.opened(context.channel)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            parser.append(unwrapInboundIn(data))
            while let value = try? parser.next() {
                let command = (value.elements ?? []).map { $0.text ?? "" }
                guard !command.isEmpty, let reply = box.node.withLock({ $0 })?.reply(to: command), !reply.isEmpty
                else { continue }
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: reply)), promise: nil)
            }
        }
    }
}

extension ScriptedNode {
    /// Runs a test with a server of a mode.
    static func with(mode: String = "cluster", _ test: (ScriptedNode) async throws -> Void) async throws {
        let node = try await ScriptedNode(mode: mode)
        try await stopping {
            await node.stop()
        } after: {
            try await test(node)
        }
    }
}

/// Three servers that report a third of the slots each, and a client of them.
struct ScriptedCluster: Sendable {
    let nodes: [ScriptedNode]
    let client: ValkeyClient
    let log = RecordedLog()
    let trust = RecordingTrust()
    private let running: Task<Void, Never>

    /// Starts the servers, and the client without waiting for its connections.
    init(
        topology: ValkeyConfiguration.Topology = .cluster, timeout: Duration = .seconds(2),
        failover: (any ValkeyFailoverDelegate)? = nil, hasReplicas: Bool = false, durabilityLog: DurabilityLog? = nil
    ) async throws {
        nodes = [try await ScriptedNode(), try await ScriptedNode(), try await ScriptedNode()]
        for node in nodes {
            node.setReplica(hasReplicas)
            node.setSlots(zip([0..<5_461, 5_461..<10_923, 10_923..<16_384], nodes).map { ($0, $1) })
        }
        client = ValkeyClient(
            ValkeyConfiguration(addresses: [nodes[0].address], topology: topology, timeout: timeout), tls: nil,
            eventLoop: MultiThreadedEventLoopGroup.singleton.any(), logger: log.logger, durabilityLog: durabilityLog)
        running = Task { [client, trust] in await client.run(trust, failover: failover) }
    }

    /// Runs a test with a cluster all of whose slots are trusted.
    static func with(
        topology: ValkeyConfiguration.Topology = .cluster, timeout: Duration = .seconds(2),
        failover: (any ValkeyFailoverDelegate)? = nil, hasReplicas: Bool = false, durabilityLog: DurabilityLog? = nil,
        _ test: (ScriptedCluster) async throws -> Void
    ) async throws {
        let cluster = try await ScriptedCluster(
            topology: topology, timeout: timeout, failover: failover, hasReplicas: hasReplicas,
            durabilityLog: durabilityLog)
        try await stopping {
            await cluster.stop()
        } after: {
            try await cluster.isUp()
            try await test(cluster)
        }
    }

    func isUp() async throws {
        try await eventually("all slots are trusted") { trust.areTrusted(HashSlot.all) }
    }

    func stop() async {
        running.cancel()
        await running.value
        for node in nodes { await node.stop() }
    }

    /// Sends a command for a key.
    func get(_ key: String) async -> Result<RESPValue, ValkeyCommandError>? {
        await client.send([ValkeyCommand("GET", key: key)]).first
    }

    /// The port of the server that replied.
    func port(_ key: String) async -> Int64? {
        if case .success(.integer(let port)) = await get(key) { port } else { nil }
    }
}

extension Result where Failure == ValkeyCommandError {
    /// The error with which the server has rejected the command.
    var rejection: RESPError? {
        if case .failure(.rejected(let error)) = self { error } else { nil }
    }
}

/// Records which slots are trusted.
final class RecordingTrust: ValkeyPushDelegate {
    enum Event: Sendable, Equatable {
        case trusted([Range<Int>], afterOutage: Bool)
        case lost([Range<Int>])
        case pushed
    }

    private let state = Mutex<(slots: [Bool], events: [Event])>(
        (Array(repeating: false, count: HashSlot.count), []))

    var events: [Event] { state.withLock(\.events) }

    func areTrusted(_ slots: Range<Int>) -> Bool {
        state.withLock { state in slots.allSatisfy { state.slots[$0] } }
    }

    func slotsChanged(_ slots: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        state.withLock { state in
            for slot in slots.joined() { state.slots[slot] = areTrusted }
            state.events.append(areTrusted ? .trusted(slots, afterOutage: afterOutage) : .lost(slots))
        }
    }

    func pushed(_ message: [RESPValue]) {
        state.withLock { $0.events.append(.pushed) }
    }
}
