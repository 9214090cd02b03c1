import CloakroomWire
import NIOCore
import NIOSSL

/// Builds the channel pipeline of client connections.
///
/// Folder `Downstream/`: the client's side: selects the HTTP version, reads requests and writes responses; makes no decision about
/// authorization.
enum DownstreamPipeline {
    /// Adds the handlers to the end of a channel's pipeline. Must be called on the channel's event loop.
    /// - Parameters:
    ///   - tls: The TLS handler; `nil` without TLS.
    ///   - limitsHandshake: Whether the listener requests certificates of clients; see ``HandshakeInput``.
    ///   - allowsHTTP2: Whether HTTP/2 is supported: by ALPN with TLS, with prior knowledge without TLS (RFC 9113 §3).
    ///   - listener: Index of the listener that accepted the connection.
    ///   - sourceAddress: The client's address from a PROXY header; `nil` without one.
    ///   - load: The requests in flight of the client's address; `nil` if they are not counted.
    static func add(
        to channel: any Channel, context: LoopContext, tls: NIOSSLServerHandler?, limitsHandshake: Bool = false,
        allowsHTTP2: Bool, listener: Int, sourceAddress: String?, load: ClientLoad?
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let client = DownstreamConnectionInfo(
            channel: channel, context: context, isTLS: tls != nil, listener: listener, sourceAddress: sourceAddress,
            load: load, output: tls.map { _ in TLSOutput() })
        let input = limitsHandshake ? HandshakeInput() : nil
        if let input { try pipeline.addHandler(input) }
        if let tls { try pipeline.addHandler(tls) }
        if tls == nil, !allowsHTTP2 {
            try pipeline.addHandler(HTTP1DownstreamHandler(client))
        } else {
            try pipeline.addHandler(ProtocolNegotiationHandler(client, input: input, allowsHTTP2: allowsHTTP2))
        }
    }

    /// Adds the handler for HTTP/2.
    static func addHTTP2(_ client: DownstreamConnectionInfo) throws {
        try client.channel.pipeline.syncOperations.addHandler(HTTP2DownstreamHandler(client))
    }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Closes connections with a TCP reset instead of an orderly close.
enum TCPReset {
    /// Makes the next close of the channel a reset; call it immediately before closing. If that is not possible, the
    /// close is orderly.
    static func onClose(_ channel: any Channel) {
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
}

/// Closes connections without the closing sequence of TLS.
enum ChannelCut {
    /// Closes a connection in the middle of a response, without the close_notify alert that would mark the end as
    /// intended (RFC 8446 §6.1; RFC 9112 §9.8). Unsent data is lost. Must be called on the channel's event loop.
    /// - Parameter framing: The framing of the response.
    static func close(_ channel: any Channel, framing: BodyFraming) {
        // If the response is delimited by the end of the connection, an orderly close would make it appear complete
        // (RFC 9112 §8).
        if framing == .untilClose { TCPReset.onClose(channel) }
        closeBelowTLS(channel)
    }

    /// Closes a connection that is unusable, or on which everything including close_notify has been sent. Must be
    /// called on the channel's event loop.
    ///
    /// The TLS handler would wait for the client's close_notify for 5 s instead, and its timer keeps the handler with
    /// its buffers, about 56 KiB, for that time even if the connection has ended: 1,000 resets per second would occupy
    /// 280 MiB.
    static func closeBelowTLS(_ channel: any Channel) {
        // `close` on the handler's own context starts below the handler.
        guard let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) else {
            return channel.close(promise: nil)
        }
        tls.close(promise: nil)
    }

    /// Closes a connection without unsent data: sends close_notify, and does not wait for that of the client.
    static func closeIdle(_ channel: any Channel) {
        channel.close(mode: .output, promise: nil)
        closeBelowTLS(channel)
    }
}
