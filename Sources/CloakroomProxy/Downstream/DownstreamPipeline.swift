import NIOCore
import NIOSSL

/// Builds the channel pipeline of client connections.
enum DownstreamPipeline {
    /// Adds the handlers to the end of a channel's pipeline. Must be called on the channel's event loop.
    /// - Parameters:
    ///   - tls: The TLS handler; `nil` without TLS.
    ///   - allowsHTTP2: Whether HTTP/2 is supported: by ALPN with TLS, with prior knowledge without TLS (RFC 9113 §3).
    ///   - sourceAddress: The client's address from a PROXY header; `nil` without one.
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

    /// Adds the handlers for HTTP/2.
    static func addHTTP2(_ client: DownstreamConnectionInfo) throws {
        let gatherer = WriteCoalescer()
        let handler = HTTP2DownstreamHandler(client, gatherer: gatherer)
        try client.channel.pipeline.syncOperations.addHandlers([gatherer, handler.makeFrameHandler(), handler])
    }
}
