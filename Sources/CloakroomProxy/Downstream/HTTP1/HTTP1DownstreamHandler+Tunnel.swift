import NIOCore

/// Ends of a tunnel. Each direction ends separately, after the data before it is delivered.
extension HTTP1DownstreamHandler {
    /// Closes the write side after the pending data is sent.
    func closeTunnelOutput() {
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    /// Both sides of the tunnel have ended: closes the connection after the pending data is sent, or after the linger
    /// time if the client has not closed its side.
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
    /// Calls back when everything written so far is sent or has failed.
    ///
    /// A channel flushes pending data before it closes its output only while its input is open. With both sides closed
    /// it discards unsent data.
    func afterFlush(_ next: @escaping (ChannelHandlerContext) -> Void) {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] _ in next(self) }
        writeAndFlush(NIOAny(ByteBuffer()), promise: sent)
    }
}
