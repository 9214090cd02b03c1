import CloakroomCore
import CloakroomTLS
import NIOCore
import NIOPosix

/// Connects to targets. With TLS, a connection is returned only after the server's certificate is verified.
struct UpstreamConnector: Sendable {
    let eventLoop: any EventLoop

    /// A connection with the version of HTTP that was negotiated.
    struct Established {
        let channel: any Channel
        let isHTTP2: Bool
    }

    /// Connects to a target. The channel's pipeline contains no handler of the gateway.
    /// - Parameters:
    ///   - target: The target to connect to.
    ///   - protocolVersion: The HTTP versions to offer.
    ///   - port: Another port than that of the target; `nil` for none.
    ///   - limit: Timeout for name resolution, connecting and TLS together.
    func connect(
        _ target: TargetRuntime, _ protocolVersion: UpstreamProtocol = .http1, port: Int? = nil,
        within limit: TimeAmount
    ) -> EventLoopFuture<Established> {
        let deadline = NIODeadline.now() + limit
        let connecting = connect(to: target.endpoint, port: port, within: limit)
        guard let tls = target.tls else {
            return connecting.map { Established(channel: $0, isHTTP2: protocolVersion == .h2c) }
        }
        return connecting.flatMap { channel in
            Self.secure(channel, tls, protocolVersion, within: deadline - .now())
        }
    }

    private func connect(
        to place: TargetRuntime.Endpoint, port: Int?, within limit: TimeAmount
    ) -> EventLoopFuture<any Channel> {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(limit)
            .channelOption(.maxMessagesPerRead, value: 1)
        switch place {
        case .socket(let path):
            return bootstrap.connect(unixDomainSocketPath: path)
        case .address(var address):
            if let port { address.port = port }
            return bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1).connect(to: address)
        case .name(let addresses):
            let known = addresses.forConnection(on: eventLoop, patience: .nanoseconds(limit.nanoseconds / 2))
            return bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .resolver(PreresolvedAddresses(addresses: port.map { Self.replacePort(of: known, with: $0) } ?? known))
                .connect(host: addresses.host, port: port ?? addresses.port)
        }
    }

    private static func replacePort(
        of addresses: EventLoopFuture<[SocketAddress]>, with port: Int
    ) -> EventLoopFuture<[SocketAddress]> {
        addresses.map { addresses in
            addresses.map { address in
                var address = address
                address.port = port
                return address
            }
        }
    }

    /// Runs in the same event loop tick in which the connection was established, so nothing is read before.
    private static func secure(
        _ channel: any Channel, _ tls: TargetRuntime.TLS, _ protocolVersion: UpstreamProtocol, within limit: TimeAmount
    ) -> EventLoopFuture<Established> {
        let done = channel.eventLoop.makePromise(of: String?.self)
        do {
            let handshake = TLSHandshakeHandler(done)
            try channel.pipeline.syncOperations.addHandler(handshake)
            try channel.pipeline.syncOperations.addHandler(
                try ServerNameVerifier.makeHandler(context: tls.context(for: protocolVersion), host: tls.serverName),
                position: .first)
        } catch {
            channel.close(promise: nil)
            done.fail(TLSHandshakeError(cause: error))
        }
        let timer = channel.eventLoop.scheduleTask(in: limit) {
            done.fail(ChannelError.connectTimeout(limit))
            channel.close(mode: .all, promise: nil)
        }
        return done.futureResult.always { _ in timer.cancel() }.flatMapThrowing { negotiated in
            let isHTTP2 = negotiated == "h2"
            guard isHTTP2 || protocolVersion != .http2 else {
                channel.close(promise: nil)
                throw TLSHandshakeError(cause: HTTP2NotNegotiated())
            }
            return Established(channel: channel, isHTTP2: isHTTP2)
        }
    }
}

/// The target did not select HTTP/2 (RFC 9113 §3.2).
struct HTTP2NotNegotiated: Error, CustomStringConvertible {
    var description: String { "the target did not select HTTP/2 by ALPN" }
}
