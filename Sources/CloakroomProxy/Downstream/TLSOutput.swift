import NIOCore
import NIOSSL

/// Bounds the memory that large output leaves in the TLS handler of a client connection.
///
/// The TLS handler encrypts everything between two flushes into one buffer, which it keeps until the connection ends:
/// 128 KiB after one large response. In swift-nio-ssl 2.37.6 its option for this bound has no effect. Therefore each
/// part of a large output is flushed separately, so the buffer keeps its initial size. Below TLS, this handler holds
/// the encrypted parts until the end of the output, so that one flush still sends all of them.
///
/// Each part that waits for the client keeps the storage of that buffer, 16 KiB however small the part is. This handler
/// passes on a copy of a small part instead.
///
/// The handler is added to the pipeline by the first large output, and when small output waits for the client.
/// Connections with small responses only, whose clients read them, do not have it.
final class TLSOutput: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Maximum number of bytes of a part: encrypted, it fits in the initial buffer of 16,384 bytes. A record of an AEAD
    /// cipher has at most 32 bytes more than its content (RFC 5246 §6.2.3.3, RFC 8446 §5.2).
    static let partSize = 16_352

    /// Number of small flushes after which it is checked whether any output waits. The check costs more than a flush
    /// should; until it, each flush that waits keeps 16 KiB.
    static let uncheckedFlushes = 16

    private var context: ChannelHandlerContext?
    /// Whether parts have been written and not sent.
    private(set) var isHolding = false
    /// The encrypted parts that have not been sent: those of the output of one event. The channel does not know them, so it
    /// stays writable until all are encrypted.
    private var held: [(bytes: NIOAny, promise: EventLoopPromise<Void>?)] = []
    /// The last encrypted part since a large output. It shares the storage of the TLS handler's buffer.
    private var last: ByteBuffer?
    /// Small flushes since the last check.
    private var unchecked = 0

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        last = nil
        for part in held { part.promise?.fail(ChannelError.ioOnClosedChannel) }
        held = []
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = Self.unwrapOutboundIn(data)
        if isHolding || last != nil { last = part }
        let isSmall = 2 * part.readableBytes <= Self.partSize
        let bytes = isSmall ? NIOAny(ByteBuffer(buffer: part)) : data
        if isHolding { held.append((bytes, promise)) } else { context.write(bytes, promise: promise) }
    }

    func flush(context: ChannelHandlerContext) {
        if !isHolding { context.flush() }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        release()
        context.close(mode: mode, promise: promise)
    }

    /// Encrypts output. It is sent by ``release()``.
    fileprivate func hold(_ bytes: ByteBuffer, from handler: ChannelHandlerContext) {
        guard add(to: handler.pipeline.syncOperations) else { return handler.write(NIOAny(bytes), promise: nil) }
        isHolding = true
        var rest = bytes
        while rest.readableBytes > Self.partSize, let part = rest.readSlice(length: Self.partSize) {
            handler.writeAndFlush(NIOAny(part), promise: nil)
        }
        handler.writeAndFlush(NIOAny(rest), promise: nil)
    }

    /// Adds the handler below TLS, if it has not been added.
    /// - Returns: `false` if the connection is closed.
    private func add(to pipeline: ChannelPipeline.SynchronousOperations) -> Bool {
        if context != nil { return true }
        guard let tls = try? pipeline.handler(type: NIOSSLServerHandler.self) else { return false }
        return (try? pipeline.addHandler(self, position: .before(tls))) != nil
    }

    /// Small output was flushed without this handler.
    fileprivate func flushed(_ handler: ChannelHandlerContext) {
        guard context == nil else { return }
        unchecked += 1
        guard unchecked == Self.uncheckedFlushes else { return }
        unchecked = 0
        if SendQueue.buffered(in: handler.channel) > 0 { _ = add(to: handler.pipeline.syncOperations) }
    }

    /// Sends the output that is held.
    fileprivate func release() {
        guard isHolding else { return }
        isHolding = false
        var parts: [(bytes: NIOAny, promise: EventLoopPromise<Void>?)] = []
        swap(&parts, &held)
        for part in parts { context?.write(part.bytes, promise: part.promise) }
        context?.flush()
    }

    /// The connection is quiet: returns the pages of the TLS handler's buffer to the system, if large output has used
    /// them.
    ///
    /// The buffer itself is not reachable, but the last part shares its storage. The bytes are not read again: all of
    /// them are sent, and the TLS handler clears the buffer before it writes. Without this, an idle connection holds
    /// 12 KiB more.
    func releaseStorage() {
        guard let last, let context, SendQueue.buffered(in: context.channel) == 0 else { return }
        last.returnPages(from: 0)
        self.last = nil
    }
}

extension DownstreamConnectionInfo {
    /// Writes output that is too large to be coalesced with more.
    func write(_ bytes: ByteBuffer, from handler: ChannelHandlerContext) {
        guard let output else { return handler.write(NIOAny(bytes), promise: nil) }
        output.hold(bytes, from: handler)
    }

    /// Writes the last output of an event, and sends all.
    func writeAndFlush(_ bytes: ByteBuffer, from handler: ChannelHandlerContext) {
        guard let output else { return handler.writeAndFlush(NIOAny(bytes), promise: nil) }
        guard output.isHolding || bytes.readableBytes > TLSOutput.partSize else {
            handler.writeAndFlush(NIOAny(bytes), promise: nil)
            return output.flushed(handler)
        }
        output.hold(bytes, from: handler)
        flush(from: handler)
    }

    /// Sends what has been written.
    func flush(from handler: ChannelHandlerContext) {
        handler.flush()
        output?.release()
    }

    /// Input of a connection that is new or was quiet. With TLS it is at the start of a buffer of 32 KiB that the connection
    /// keeps: returns the pages after the input to the system. They still contain what their previous owner wrote, for
    /// example a response to another client. Without this, an idle connection holds up to 28 KiB more.
    ///
    /// The next input is written to the start again, or to other storage while this is in use.
    func begin(with input: ByteBuffer) {
        if isTLS { input.returnPages(from: input.writerIndex) }
    }
}
