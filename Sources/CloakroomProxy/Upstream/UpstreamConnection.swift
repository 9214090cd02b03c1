import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// An HTTP/1.1 connection to an upstream. It serves one exchange at a time, on the client connection's event loop.
final class UpstreamConnection: ChannelInboundHandler, LoopRegistered, PooledConnection, UpstreamLease, Equatable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let target: TargetRuntime
    let slot: Int
    let poolID: PooledConnectionID
    var registryIndex = -1
    /// How long the pool may keep it.
    var lifetime = ConnectionLifetime()
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { false }

    private let channel: any Channel
    private let pool: UpstreamPool
    private let context: LoopContext
    private var machine: UpstreamConnectionStateMachine
    /// The exchange being served.
    private var delegate: (any UpstreamDelegate)?
    /// Reused for all responses; `nil` while it is filled or delivered, so that it is not copied.
    private var head: ResponseHead? = ResponseHead()
    /// Buffer for request heads; its storage is reused while it has no other owner.
    private var outbound = WriteBuffer()
    private var handlerContext: ChannelHandlerContext?
    private var isPaused = false
    var isProbe = false
    /// Whether the target counts a request as waiting for its response head.
    private var owesHead = false

    init(
        channel: any Channel, pool: UpstreamPool, context: LoopContext, target: TargetRuntime,
        poolID: PooledConnectionID
    ) {
        self.channel = channel
        self.pool = pool
        self.context = context
        self.target = target
        slot = target.state.slot
        self.poolID = poolID
        machine = UpstreamConnectionStateMachine(limits: pool.settings.headLimits)
    }

    static func == (left: UpstreamConnection, right: UpstreamConnection) -> Bool { left === right }

    // MARK: - Called by the exchange

    var isHTTP2: Bool { false }
    var drainingStream: UpstreamStream? { nil }
    var heldBytes: Int { 0 }
    var isWritable: Bool { channel.isWritable }

    func begin(
        _ request: consuming UpstreamRequest, for delegate: any UpstreamDelegate, writeHead: (inout ByteBuffer) -> Void
    ) {
        self.delegate = delegate
        machine.begin(request)
        deadline = .max
        outbound.clear()
        writeHead(&outbound.bytes)
    }

    func writeBody(_ bytes: ByteBuffer, isChunked: Bool) {
        if isChunked { ChunkEncoder.writeChunkStart(bytes.readableBytes, into: &outbound.bytes) }
        if outbound.hasRoom(for: bytes.readableBytes) {
            outbound.append(bytes)
        } else {
            writeOut()
            handlerContext?.write(wrapOutboundOut(bytes), promise: nil)
        }
        if isChunked { ChunkEncoder.writeChunkEnd(into: &outbound.bytes) }
    }

    func writeLastChunk(trailers: ByteBuffer?) {
        ChunkEncoder.writeLastChunk(trailers: trailers, into: &outbound.bytes)
    }

    func finishRequest() {
        machine.requestEnded()
        flush()
    }

    func flush() {
        guard let handlerContext else { return }
        guard var bytes = outbound.take() else { return handlerContext.flush() }
        handlerContext.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        outbound.reuse(&bytes)
    }

    func closeWriteSide() {
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    func finishTunnel() {
        guard machine.cancel() else { return }
        delegate = nil
        flush()
        deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        pool.discardLeased(self)
        handlerContext?.afterFlush { $0.close(promise: nil) }
    }

    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        try? channel.syncOptions?.setOption(.autoRead, value: !isPaused)
    }

    /// What is left of the response is read, so that the connection can be used again.
    func discardResponse() {
        delegate = nil
        deadline = context.now &+ Self.discardTime
    }

    /// Maximum time to discard a response, in nanoseconds.
    private static let discardTime: UInt64 = 1_000_000_000

    func cancel() {
        guard machine.cancel() else { return }
        delegate = nil
        closeLeased()
    }

    func release() { pool.release(self) }

    func addSlowLeases(of pool: UpstreamPool, now: UInt64, to leases: inout [SlowLease]) {
        guard self.pool === pool, let pace = delegate?.clientPace(now: now) else { return }
        leases.append((self, pace))
    }

    func endForOthers() { delegate?.endForOthers() }

    // MARK: - Called by the pool

    var isTargetUsable: Bool { target.state.word.isUsable || pool.isPanicking }

    /// Whether it has served a request, and may serve no other.
    var isSpent: Bool { machine.isReused && !target.mayReuseConnections(now: context.now) }

    /// The connection is leased.
    /// - Parameter isTimed: Whether a response head is expected soon.
    func use(isTimed: Bool, now: UInt64) {
        owesHead = isTimed
        target.state.started(now: now, isTimed: isTimed)
    }

    /// The lease has ended.
    func endUse() {
        target.state.ended(owesHead: owesHead)
        owesHead = false
    }

    /// The pool keeps the connection as idle.
    func becomeIdle() {
        machine.becomeIdle()
        deadline = context.now &+ min(pool.idleTimeout, lifetime.idleLimit)
    }

    /// The pool closes an idle connection.
    func evict() {
        if machine.evict() { closeNow() }
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
        switch machine.received(&bytes) {
        case .read:
            read()
            if owesHead, machine.isReceivingBody {
                owesHead = false
                target.state.noLongerOwesHead()
            }
            delegate?.upstreamReadComplete()
        case .closeIdle:
            if machine.hasExcessBytes { target.sentExcessBytes(now: context.now) }
            pool.discardIdle(self)
            handlerContext.close(promise: nil)
        case .close:
            handlerContext.close(promise: nil)
        }
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        if let delegate, channel.isWritable { delegate.upstreamWritable() }
        handlerContext.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        if machine.inputClosed(), case ChannelEvent.inputClosed? = event as? ChannelEvent {
            context.updateTime()
            delegate?.upstreamHalfClosed()
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        machine.errorCaught()
        handlerContext.close(promise: nil)
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        context.remove(self)
        switch machine.closed() {
        case .discardIdle:
            pool.discardIdle(self)
        case .endResponse:
            endResponse(trailers: nil, isReusable: false)
        case .endTunnel:
            let delegate = self.delegate
            delegate?.upstreamHalfClosed()
            delegate?.upstreamClosed()
        case .fail(let kind, let isStale):
            fail(kind, isStale: isStale)
        case .ignore:
            break
        }
        handlerContext.fireChannelInactive()
    }

    // MARK: - Deadlines and drain

    func deadlineExpired(now: UInt64) {
        if machine.evict() {
            pool.discardIdle(self)
            closeNow()
        } else if machine.isClosed {
            closeNow()
        } else if delegate == nil {
            cancel()
        }
    }

    func drain() {}

    func closeNow() {
        handlerContext?.close(promise: nil)
    }

    // MARK: - Reading

    private func read() {
        // A nested call, if the delegate causes one, leaves the bytes to the outer one.
        guard var head = self.head.take() else { return }
        defer { self.head = head }
        while true {
            switch machine.next(&head, isActive: channel.isActive) {
            case .wait:
                return
            case .informational:
                countRemovedFields()
                delegate?.upstreamInformational(head)
                head.reset()
            case .head(let summary, let framing):
                countRemovedFields()
                if !machine.isReused { lifetime.applyKeepAliveTimeout(of: head) }
                delegate?.upstreamHead(head, summary: summary, framing: framing)
                head.reset()
            case .body(let bytes):
                delegate?.upstreamBody(bytes)
            case .end(let trailers, let isReusable):
                endResponse(trailers: trailers, isReusable: isReusable)
            case .upgrade:
                countRemovedFields()
                try? channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
                delegate?.upstreamUpgraded(head)
                head.reset()
            case .fail(let kind):
                countRemovedFields()
                fail(kind, isStale: false)
            }
        }
    }

    /// Counts the fields of a response that the upstream must not send.
    private func countRemovedFields() {
        if let removed = machine.takeRemovedFields() { pool.upstream.metrics.count(removed) }
    }

    // MARK: - Ends

    private func endResponse(trailers: TrailerSection?, isReusable: Bool) {
        let delegate = self.delegate
        self.delegate = nil
        setPaused(false)
        if isReusable { pool.release(self) } else { closeLeased() }
        delegate?.upstreamEnd(trailers: trailers)
    }

    private func fail(_ kind: UpstreamFailure.Kind, isStale: Bool) {
        let delegate = self.delegate
        self.delegate = nil
        closeLeased()
        delegate?.upstreamFailed(UpstreamFailure(kind), isStale: isStale)
    }

    private func closeLeased() {
        if machine.hasExcessBytes { target.sentExcessBytes(now: context.now) }
        outbound = WriteBuffer()
        handlerContext?.close(promise: nil)
        pool.discardLeased(self)
    }

    private func writeOut() {
        guard var bytes = outbound.take() else { return }
        handlerContext?.write(wrapOutboundOut(bytes), promise: nil)
        outbound.reuse(&bytes)
    }
}
