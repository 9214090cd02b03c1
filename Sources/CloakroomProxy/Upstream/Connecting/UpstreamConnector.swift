import CloakroomTLS
import NIOCore
import NIOPosix

/// Connects to targets. With TLS, a connection is returned only after the server's certificate is verified.
struct UpstreamConnector {
    let eventLoop: any EventLoop

    /// Connects to a target. The channel's pipeline contains no handler of the gateway.
    /// - Parameters:
    ///   - target: The target to connect to.
    ///   - limit: Timeout for name resolution, connecting and TLS together.
    func connect(_ target: TargetRuntime, within limit: TimeAmount) -> EventLoopFuture<any Channel> {
        let deadline = NIODeadline.now() + limit
        let connecting = connect(to: target.endpoint, within: limit)
        guard let tls = target.tls else { return connecting }
        return connecting.flatMap { channel in
            Self.secure(channel, tls, within: deadline - .now())
        }
    }

    private func connect(to place: TargetRuntime.Endpoint, within limit: TimeAmount) -> EventLoopFuture<any Channel> {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(limit)
            .channelOption(.maxMessagesPerRead, value: 1)
        switch place {
        case .socket(let path):
            return bootstrap.connect(unixDomainSocketPath: path)
        case .address(let address):
            return bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1).connect(to: address)
        case .name(let addresses):
            let known = addresses.forConnection(on: eventLoop, patience: .nanoseconds(limit.nanoseconds / 2))
            return bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .resolver(PreresolvedAddresses(addresses: known))
                .connect(host: addresses.host, port: addresses.port)
        }
    }

    /// Runs in the same event loop tick in which the connection was established, so nothing is read before.
    private static func secure(
        _ channel: any Channel, _ tls: TargetRuntime.TLS, within limit: TimeAmount
    ) -> EventLoopFuture<any Channel> {
        let done = channel.eventLoop.makePromise(of: Void.self)
        do {
            let handshake = TLSHandshakeHandler(done)
            try channel.pipeline.syncOperations.addHandler(handshake)
            try channel.pipeline.syncOperations.addHandler(
                try ServerNameVerifier.makeHandler(context: tls.context, host: tls.serverName), position: .first)
        } catch {
            channel.close(promise: nil)
            done.fail(TLSHandshakeError(cause: error))
        }
        let timer = channel.eventLoop.scheduleTask(in: limit) {
            done.fail(ChannelError.connectTimeout(limit))
            channel.close(mode: .all, promise: nil)
        }
        return done.futureResult.always { _ in timer.cancel() }.map { channel }
    }
}
