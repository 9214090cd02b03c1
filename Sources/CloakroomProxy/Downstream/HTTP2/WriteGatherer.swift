import NIOCore

/// Gathers the small writes of one flush into one buffer: frame heads and their payloads would otherwise go out as so many
/// records of TLS, or as so many pieces of one system call.
final class WriteCoalescer: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = ByteBuffer

    private var gathered = ByteBuffer()
    private var promise: EventLoopPromise<Void>?

    /// The most bytes that are copied together: a record of TLS (RFC 8446 §5.1).
    private static let limit = 16_384

    func write(context handlerContext: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .byteBuffer(let bytes) = unwrapOutboundIn(data) else {
            // Nothing here sends files.
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

    /// Puts bytes in front of whatever is written next. They are sent with the next flush.
    func insert(_ bytes: ByteBuffer) {
        gathered.writeImmutableBuffer(bytes)
    }

    func flush(context handlerContext: ChannelHandlerContext) {
        guard gathered.readableBytes > 0 else { return handlerContext.flush() }
        // Sending may call back in here, so what is being sent must be gone from the buffer by then.
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
