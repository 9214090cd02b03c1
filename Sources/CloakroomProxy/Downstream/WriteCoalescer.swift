import NIOCore

/// Coalesces the small writes of one flush into one buffer. Otherwise each frame header and payload would be a separate
/// TLS record, or a separate element of a vectored write.
final class WriteCoalescer: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = ByteBuffer

    private var gathered = ByteBuffer()
    private var promise: EventLoopPromise<Void>?

    /// Maximum number of bytes that are coalesced: the size of a TLS record (RFC 8446 §5.1).
    private static let limit = 16_384

    func write(context handlerContext: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .byteBuffer(let bytes) = unwrapOutboundIn(data) else {
            // File regions are not used here.
            promise?.fail(ChannelError.operationUnsupported)
            return
        }
        if bytes.readableBytes > Self.limit / 2 {
            writeOut(handlerContext)
            handlerContext.write(wrapOutboundOut(bytes), promise: promise)
        } else {
            if gathered.readableBytes + bytes.readableBytes > Self.limit { writeOut(handlerContext) }
            gathered.writeImmutableBuffer(bytes)
            join(promise)
        }
    }

    /// Writes bytes before any later write. They are sent with the next flush.
    func insert(_ bytes: ByteBuffer) {
        gathered.writeImmutableBuffer(bytes)
    }

    func flush(context handlerContext: ChannelHandlerContext) {
        guard gathered.readableBytes > 0 else { return handlerContext.flush() }
        // Sending may call back into this method: empty the buffer first.
        var bytes = ByteBuffer()
        swap(&bytes, &gathered)
        let promise = self.promise
        self.promise = nil
        handlerContext.writeAndFlush(wrapOutboundOut(bytes), promise: promise)
        guard gathered.readableBytes == 0 else { return }
        bytes.clear()
        gathered = bytes
    }

    func close(context handlerContext: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        writeOut(handlerContext)
        handlerContext.close(mode: mode, promise: promise)
    }

    private func writeOut(_ handlerContext: ChannelHandlerContext) {
        guard gathered.readableBytes > 0 else { return }
        handlerContext.write(wrapOutboundOut(gathered), promise: promise)
        promise = nil
        gathered.clear()
    }

    private func join(_ other: EventLoopPromise<Void>?) {
        guard let other else { return }
        if let promise { promise.futureResult.cascade(to: other) } else { promise = other }
    }
}
