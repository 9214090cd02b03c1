import CloakroomTLS
import NIOCore
import NIOPosix
import NIOSSL

/// A connection to a server, or to a sentinel, for whoever is not on its event loop.
///
/// A process has one to the server, which carries everything. Invalidations come over the connection on which a record
/// was read, and only there is their order with the answers certain: a change that the server made after it answered is
/// told after the answer. Over several connections a record that is stale could come in behind the word that it is.
struct ValkeyConnection: Sendable {
    private let handler: NIOLoopBound<ValkeyConnectionHandler>
    private let eventLoop: any EventLoop
    /// Why it ended.
    let closed: EventLoopFuture<ValkeyDisconnectReason>
    /// Whom it is with.
    let address: String

    /// What connections to one kind of server have in common.
    struct Options: Sendable {
        var timeout: TimeAmount
        var tls: NIOSSLContext?
        var serverName: String?
        var disconnectCodes: Set<String>
    }

    /// Connects. TLS goes on while the first command waits.
    static func connect(
        host: String, port: Int, options: Options, on eventLoop: any EventLoop
    ) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(Self.patience(options.timeout))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
        do {
            // Called once for each address that the name has; only one of these channels lives on.
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
                        closed: closed.futureResult, address: "\(host):\(port)")
                }
            }
        } catch {
            if case .connectTimeout? = error as? ChannelError { throw .timedOut }
            throw .unreachable
        }
    }

    /// How long connecting and the first commands may take: a round trip or two more than others.
    static func patience(_ timeout: TimeAmount) -> TimeAmount {
        max(timeout, .seconds(2))
    }

    /// Sends commands at once, one after the other, and waits for all the answers. Nothing is ever sent a second time.
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

    /// Says that the connection is good for use, and has changes told from now on.
    /// - Returns: `false` if it has ended already.
    func activate(to listener: any ValkeyPushDelegate) async -> Bool {
        await withCheckedContinuation { continuation in
            eventLoop.execute { continuation.resume(returning: handler.value.activate(to: listener)) }
        }
    }

    /// Ends it.
    func close(_ reason: ValkeyDisconnectReason) {
        eventLoop.execute { handler.value.close(reason) }
    }
}
