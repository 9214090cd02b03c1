import NIOCore

/// Coalesces the small writes of one flush into one buffer. Otherwise each frame header and payload would be a separate
/// TLS record, or a separate element of a vectored write.
final class WriteCoalescer: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = ByteBuffer

    private var gathered = WriteBuffer()
    private var promise: EventLoopPromise<Void>?

    func write(context handlerContext: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .byteBuffer(let bytes) = unwrapOutboundIn(data) else {
            // File regions are not used here.
            promise?.fail(ChannelError.operationUnsupported)
            return
        }
        if bytes.readableBytes > WriteBuffer.limit / 2 {
            writeOut(handlerContext)
            handlerContext.write(wrapOutboundOut(bytes), promise: promise)
        } else {
            if !gathered.hasRoom(for: bytes.readableBytes) { writeOut(handlerContext) }
            gathered.append(bytes)
            join(promise)
        }
    }

    /// Writes bytes before any later write. They are sent with the next flush.
    func insert(_ bytes: ByteBuffer) {
        gathered.append(bytes)
    }

    func flush(context handlerContext: ChannelHandlerContext) {
        guard var bytes = gathered.take() else { return handlerContext.flush() }
        handlerContext.writeAndFlush(wrapOutboundOut(bytes), promise: takePromise())
        gathered.reuse(&bytes)
    }

    func close(context handlerContext: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        writeOut(handlerContext)
        handlerContext.close(mode: mode, promise: promise)
    }

    private func writeOut(_ handlerContext: ChannelHandlerContext) {
        guard var bytes = gathered.take() else { return }
        handlerContext.write(wrapOutboundOut(bytes), promise: takePromise())
        gathered.reuse(&bytes)
    }

    private func takePromise() -> EventLoopPromise<Void>? {
        defer { promise = nil }
        return promise
    }

    private func join(_ other: EventLoopPromise<Void>?) {
        guard let other else { return }
        if let promise { promise.futureResult.cascade(to: other) } else { promise = other }
    }
}
