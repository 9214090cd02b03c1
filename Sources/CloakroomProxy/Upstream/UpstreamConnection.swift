import CloakroomCore
import CloakroomWire
import NIOCore

/// An HTTP/1.1 connection to an upstream. It serves one exchange at a time, on the client connection's event loop.
final class UpstreamConnection: ChannelInboundHandler, LoopRegistered, Equatable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// Not yet passed to its pool.
        case new
        /// Not leased.
        case idle
        /// Serves ``exchange``.
        case leased
        case closed
    }

    private enum ReadState {
        case nothing
        case head
        case body(BodyDecoder)
        /// Bytes of an upgraded protocol.
        case tunnel
    }

    /// Index of the target within its upstream.
    let targetIndex: Int
    /// Whether it has served an exchange before. The upstream may have closed it, which is not yet detected.
    private(set) var isReused = false
    var registryIndex = -1
    /// How long the pool may keep it.
    var lifetime = ConnectionLifetime()
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { false }

    private let channel: any Channel
    private let pool: UpstreamPool
    private let context: LoopContext
    private var phase = Phase.new
    private var reading = ReadState.nothing
    private var exchange: Exchange?
    private var parser: HeadParser
    private var head = ResponseHead()
    private var inbound = ByteBuffer()
    private var outbound = WriteBuffer()
    private var handlerContext: ChannelHandlerContext?
    private var isHeadRequest = false
    private var isRequestComplete = false
    private var keepsAlive = true
    private var receivedResponseBytes = false
    private var hadError = false
    private var isPaused = false

    init(channel: any Channel, pool: UpstreamPool, context: LoopContext, targetIndex: Int) {
        self.channel = channel
        self.pool = pool
        self.context = context
        self.targetIndex = targetIndex
        parser = HeadParser(limits: pool.headLimits)
    }

    static func == (left: UpstreamConnection, right: UpstreamConnection) -> Bool { left === right }

    // MARK: - Called by the exchange

    /// Whether more can be written at the moment.
    var isWritable: Bool { channel.isWritable }

    /// Begins an exchange.
    /// - Parameters:
    ///   - isToHead: Whether the request method is `HEAD`.
    ///   - writeHead: Writes the request head into the buffer.
    func begin(_ exchange: Exchange, isToHead: Bool, writeHead: (inout ByteBuffer) -> Void) {
        self.exchange = exchange
        self.isHeadRequest = isToHead
        phase = .leased
        reading = .head
        isRequestComplete = false
        receivedResponseBytes = false
        deadline = .max
        outbound.clear()
        writeHead(&outbound.bytes)
    }

    /// Writes part of the request body, with framing if required.
    func writeBody(_ bytes: ByteBuffer) {
        if outbound.hasRoom(for: bytes.readableBytes) {
            outbound.append(bytes)
        } else {
            writeOut()
            handlerContext?.write(wrapOutboundOut(bytes), promise: nil)
        }
    }

    /// Writes framing of the request body.
    func writeFraming(_ write: (inout ByteBuffer) -> Void) {
        write(&outbound.bytes)
    }

    /// The request is complete.
    func finishRequest() {
        isRequestComplete = true
        flush()
    }

    /// Sends the data written so far.
    func flush() {
        guard let handlerContext else { return }
        guard var bytes = outbound.take() else { return handlerContext.flush() }
        handlerContext.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        outbound.reuse(&bytes)
    }

    /// The client's side of a tunnel has ended.
    func closeWriteSide() {
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    /// Both sides of a tunnel have ended: closes the connection after the pending data is sent.
    func finishTunnel() {
        guard phase == .leased else { return }
        exchange = nil
        phase = .closed
        reading = .nothing
        flush()
        deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        pool.discardLeased()
        handlerContext?.afterFlush { $0.close(promise: nil) }
    }

    /// Pauses or resumes reading, to follow the client's speed.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        try? channel.syncOptions?.setOption(.autoRead, value: !isPaused)
    }

    /// The exchange was cancelled.
    func cancel() {
        guard phase == .leased else { return }
        exchange = nil
        closeLeased()
    }

    /// The pool keeps the connection as idle.
    func becomeIdle() {
        phase = .idle
        deadline = context.now &+ min(pool.idleTimeout, lifetime.idleLimit)
    }

    /// The pool closes an idle connection.
    func evict() {
        guard phase == .idle else { return }
        phase = .closed
        handlerContext?.close(promise: nil)
    }

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        context.add(self)
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
        context.remove(self)
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        context.updateTime()
        var bytes = unwrapInboundIn(data)
        guard phase == .leased, bytes.readableBytes > 0 else {
            // Unsolicited bytes on an idle connection: close it.
            if phase == .idle { closeIdle() } else { handlerContext.close(promise: nil) }
            return
        }
        receivedResponseBytes = true
        if inbound.readableBytes > 0 {
            inbound.writeBuffer(&bytes)
        } else {
            inbound = bytes
        }
        // Release this reference first, so the storage can be reused for the next read.
        bytes = ByteBuffer()
        do {
            try read()
        } catch {
            fail(.invalidResponse)
        }
        if inbound.readableBytes == 0 { inbound = ByteBuffer() }
        exchange?.flushDownstream()
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        if phase == .leased, channel.isWritable { exchange?.upstreamWritable() }
        handlerContext.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Half-closure is enabled only for tunnels; otherwise the end of input closes the connection.
        if case .tunnel = reading, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            context.updateTime()
            exchange?.upstreamHalfClosed()
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        hadError = true
        handlerContext.close(promise: nil)
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        context.remove(self)
        switch phase {
        case .idle:
            phase = .closed
            pool.discardIdle(self)
        case .leased:
            if !hadError, case .body(var decoder) = reading, decoder.close() {
                keepsAlive = false
                finishResponse()
                exchange?.flushDownstream()
            } else if !hadError, case .tunnel = reading {
                // Both directions were closed at once.
                let exchange = self.exchange
                exchange?.upstreamHalfClosed()
                exchange?.upstreamClosed()
            } else {
                fail(receivedResponseBytes ? .closedDuringResponse : .closedBeforeResponse)
            }
        case .new, .closed: break
        }
        handlerContext.fireChannelInactive()
    }

    // MARK: - Deadlines and drain

    func deadlineExpired(now: UInt64) {
        // In phase `closed` the remaining data could not be sent in time.
        if phase == .idle { closeIdle() } else if phase == .closed { handlerContext?.close(promise: nil) }
    }

    func drain() {}

    func closeNow() {
        handlerContext?.close(promise: nil)
    }

    // MARK: - Reading

    private func read() throws(WireError) {
        while phase == .leased {
            switch reading {
            case .nothing:
                return
            case .head:
                guard try parser.parse(&inbound, into: &head) else { return }
                try received()
                head.reset()
            case .body(var decoder):
                let step = try decoder.next(&inbound)
                let trailers = step == .end ? decoder.takeTrailers() : nil
                reading = .body(decoder)
                switch step {
                case .data(let bytes): exchange?.upstreamBody(bytes)
                case .end: finishResponse(trailers: trailers)
                case .needMoreData: return
                }
            case .tunnel:
                guard let bytes = inbound.readSlice(length: inbound.readableBytes), bytes.readableBytes > 0 else {
                    return
                }
                exchange?.upstreamBody(bytes)
            }
        }
    }

    private func received() throws(WireError) {
        guard let exchange else { return }
        if head.status < 200 {
            _ = try BodyFraming.of(head, isToHead: isHeadRequest)
            let summary = try mark(for: exchange)
            guard head.status != 101 else { return try switchProtocol(summary, exchange) }
            // A copy: forwarding it may call back into this method.
            let interim = head
            exchange.upstreamInformational(interim)
            return
        }
        // For a client that used extended CONNECT, any 2xx status would mean an established tunnel (RFC 8441 §5).
        guard exchange.tunnel != .webSocketConnect || head.status >= 300 else { throw .statusLine }
        let framing = try BodyFraming.of(head, isToHead: isHeadRequest)
        let summary = try mark(for: exchange)
        keepsAlive = summary.connection.persists(minorVersion: head.minorVersion) && framing != .untilClose
        if !isReused { lifetime.applyKeepAliveTimeout(of: head) }
        reading = .body(BodyDecoder(framing))
        exchange.upstreamHead(head, summary: summary, framing: framing)
    }

    /// Marks the fields of the response head to strip, and counts fields that an upstream must not send.
    private func mark(for exchange: Exchange) throws(WireError) -> ResponseHeaderPolicy.ResponseHeaderSummary {
        let summary = exchange.snapshot.config.responsePolicy.apply(&head, without: exchange.injectedSecrets)
        guard !summary.connection.isOverLimit else { throw .connectionOptions }
        if !summary.removed.isEmpty { pool.upstream.count(summary.removed) }
        return summary
    }

    private func switchProtocol(_ summary: ResponseHeaderPolicy.ResponseHeaderSummary, _ exchange: Exchange)
        throws(WireError)
    {
        // No upgrade, or a different one, was requested (RFC 9110 §15.2.2).
        guard exchange.tunnel != .none, summary.isUpgradeToWebSocket else { throw .statusLine }
        reading = .tunnel
        keepsAlive = false
        try? channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        let response = head
        exchange.upstreamSwitched(response)
    }

    /// The response is complete: the connection is reusable if both directions are at a message boundary.
    private func finishResponse(trailers: TrailerSection? = nil) {
        guard let exchange else { return }
        self.exchange = nil
        setPaused(false)
        if keepsAlive, isRequestComplete, inbound.readableBytes == 0, channel.isActive {
            reading = .nothing
            isReused = true
            pool.release(self)
        } else {
            closeLeased()
        }
        exchange.upstreamEnd(trailers: trailers)
    }

    // MARK: - Ends

    private func fail(_ kind: UpstreamFailure.Kind) {
        guard phase == .leased else { return }
        let exchange = self.exchange
        self.exchange = nil
        let mayRetry = kind == .closedBeforeResponse && isReused
        closeLeased()
        exchange?.upstreamFailed(UpstreamFailure(kind), isStale: mayRetry)
    }

    private func closeLeased() {
        phase = .closed
        reading = .nothing
        outbound = WriteBuffer()
        handlerContext?.close(promise: nil)
        pool.discardLeased()
    }

    private func closeIdle() {
        phase = .closed
        pool.discardIdle(self)
        handlerContext?.close(promise: nil)
    }

    private func writeOut() {
        guard var bytes = outbound.take() else { return }
        handlerContext?.write(wrapOutboundOut(bytes), promise: nil)
        outbound.reuse(&bytes)
    }
}
