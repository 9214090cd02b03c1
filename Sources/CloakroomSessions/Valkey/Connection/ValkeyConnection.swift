import CloakroomCore
import CloakroomTLS
import NIOCore
import NIOPosix
import NIOSSL

/// A connection to a server or a sentinel, for use outside its event loop.
///
/// A process uses one connection to each server for everything but durable writes. Invalidations arrive on the connection on which a record
/// was read, and only there is their order relative to the replies guaranteed: a change that the server made after a
/// reply arrives after that reply. With several connections a stale record could arrive after its invalidation.
struct ValkeyConnection: Sendable {
    private let handler: NIOLoopBound<ValkeyConnectionHandler>
    private let eventLoop: any EventLoop
    /// The time limit for each of the commands that make the connection ready.
    let patience: TimeAmount
    /// The reason why the connection ended.
    let closed: EventLoopFuture<ValkeyDisconnectReason>
    let server: HostAndPort

    var address: String { server.description }

    /// The common options of connections to one kind of server.
    struct Options: Sendable {
        var timeout: TimeAmount
        var tls: NIOSSLContext?
        var serverName: String?
        var disconnectCodes: Set<String>
    }

    /// Connects. The TLS handshake continues while the first command waits.
    static func connect(
        host: String, port: Int, options: Options, on eventLoop: any EventLoop
    ) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(Self.patience(options.timeout))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
        do {
            // Called once for each address of the name; only one of these channels is kept.
            return try await bootstrap.connect(host: host, port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls = options.tls {
                        try channel.pipeline.syncOperations.addHandler(
                            ServerNameVerifier.makeHandler(context: tls, host: options.serverName ?? host))
                    }
                    let closed = channel.eventLoop.makePromise(of: ValkeyDisconnectReason.self)
                    let handler = ValkeyConnectionHandler(
                        timeout: options.timeout, disconnectCodes: options.disconnectCodes, closed: closed)
                    try channel.pipeline.syncOperations.addHandler(handler)
                    return ValkeyConnection(
                        handler: NIOLoopBound(handler, eventLoop: channel.eventLoop), eventLoop: channel.eventLoop,
                        patience: Self.patience(options.timeout), closed: closed.futureResult,
                        server: HostAndPort(host: host, port: port))
                }
            }
        } catch {
            if case .connectTimeout? = error as? ChannelError { throw .timedOut }
            throw .unreachable
        }
    }

    /// The time limit for connecting and for the first commands: a round trip or two more than for others.
    private static func patience(_ timeout: TimeAmount) -> TimeAmount {
        max(timeout, .seconds(2))
    }

    /// Sends commands immediately, pipelined, and waits for all replies. Commands are never sent twice.
    func send(_ commands: [ValkeyCommand], timeout: TimeAmount? = nil) async -> [Result<RESPValue, ValkeyCommandError>]
    {
        guard !commands.isEmpty else { return [] }
        return await withCheckedContinuation { continuation in
            eventLoop.execute {
                handler.value.send(
                    commands, timeout: timeout, to: PipelinedReplies(count: commands.count, continuation))
            }
        }
    }

    /// Sends one of the commands that make a connection ready.
    func ask(_ command: ValkeyCommand) async throws(ValkeyDisconnectReason) -> RESPValue {
        switch await send([command], timeout: patience).first {
        case .success(let value): return value
        case .failure(.rejected(let error)):
            switch error.code {
            case "NOAUTH", "WRONGPASS", "NOPERM": throw .unauthorized(code: error.code, command: command.name)
            case "ERR", "NOPROTO":
                if command.name == "AUTH" { throw .unauthorized(code: "WRONGPASS", command: command.name) }
                throw .unsupportedServer(code: error.code)
            default: throw .notPrimary(code: error.code)
            }
        case .failure, nil: throw await lossReason()
        }
    }

    /// Why a command has no reply: it was lost because the connection ended, and the connection has the reason.
    func lossReason() async -> ValkeyDisconnectReason {
        close(.unreachable)
        return (try? await closed.get()) ?? .unreachable
    }

    /// Marks the connection as ready, and starts delivering changes.
    /// - Returns: `false` if the connection has ended already.
    func activate(to listener: any ValkeyLinkDelegate) async -> Bool {
        await withCheckedContinuation { continuation in
            eventLoop.execute { continuation.resume(returning: handler.value.activate(to: listener)) }
        }
    }

    /// Like the other one, immediately. Must be called on the connection's event loop.
    func activateNow(to listener: any ValkeyLinkDelegate) -> Bool {
        handler.value.activate(to: listener)
    }

    func close(_ reason: ValkeyDisconnectReason) {
        eventLoop.execute { handler.value.close(reason) }
    }
}

/// The replies to commands that were sent together. Belongs to the connection's event loop.
final class PipelinedReplies {
    typealias Reply = Result<RESPValue, ValkeyCommandError>

    private var replies: [Reply]
    private var missing: Int
    private let continuation: CheckedContinuation<[Reply], Never>

    init(count: Int, _ continuation: CheckedContinuation<[Reply], Never>) {
        replies = Array(repeating: .failure(.disconnected), count: count)
        missing = count
        self.continuation = continuation
    }

    /// Stores one reply; the last one resumes the waiting task.
    func fill(_ index: Int, with reply: Reply) {
        replies[index] = reply
        missing -= 1
        if missing == 0 { continuation.resume(returning: replies) }
    }
}
