import NIOCore

/// The ends of a tunnel. Each side has one of its own, and what was said before it arrives.
extension HTTP1DownstreamHandler {
    /// Tells the client that no more comes, once it has what came before.
    func closeTunnelOutput() {
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    /// The tunnel is over: ends the connection once everything is sent, or a while later if the client still speaks.
    func lingerAfterTunnel(for time: UInt64) {
        flush()
        handlerContext?.afterFlush { [self] handlerContext in
            isAllSent = true
            guard !hasInputEnded, time > 0 else { return closeNow() }
            deadline = context.now &+ time
            handlerContext.close(mode: .output, promise: nil)
        }
    }
}

extension ChannelHandlerContext {
    /// Calls back once everything that was written is sent, or cannot be any more.
    ///
    /// A channel waits by itself before it closes its output, but only while its input is open: with both sides closed
    /// it drops what is not sent.
    func afterFlush(_ next: @escaping (ChannelHandlerContext) -> Void) {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] _ in next(self) }
        writeAndFlush(NIOAny(ByteBuffer()), promise: sent)
    }
}
