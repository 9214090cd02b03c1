import NIOCore
import NIOSSL

/// What a client's connection gets to talk to, from the first byte of TLS or HTTP on.
enum DownstreamPipeline {
    /// Adds the handlers to the end of a channel's pipeline. Only on the channel's event loop.
    /// - Parameters:
    ///   - tls: The handler that does TLS; `nil` in clear.
    ///   - allowsHTTP2: Whether HTTP/2 is spoken: by ALPN over TLS, with prior knowledge in clear (RFC 9113 §3).
    ///   - sourceAddress: The client's address where a PROXY header told it.
    static func add(
        to channel: any Channel, context: LoopContext, tls: NIOSSLServerHandler?, allowsHTTP2: Bool,
        sourceAddress: String?
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let client = DownstreamConnectionInfo(
            channel: channel, context: context, isTLS: tls != nil, sourceAddress: sourceAddress)
        if let tls { try pipeline.addHandler(tls) }
        if tls == nil, !allowsHTTP2 {
            try pipeline.addHandler(HTTP1DownstreamHandler(client))
        } else {
            try pipeline.addHandler(ProtocolNegotiationHandler(client, allowsHTTP2: allowsHTTP2))
        }
    }

    /// Adds what speaks HTTP/2.
    static func addHTTP2(_ client: DownstreamConnectionInfo) throws {
        let gatherer = WriteCoalescer()
        let handler = HTTP2DownstreamHandler(client, gatherer: gatherer)
        try client.channel.pipeline.syncOperations.addHandlers([gatherer, handler.makeFrameHandler(), handler])
    }
}
