import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A client's HTTP/1.1 connection: performs the I/O for ``HTTP1ConnectionState``, and runs one exchange at a time.
///
/// Folder `HTTP1/`: reads requests one at a time, writes responses, and decides when the connection is kept, lingers or
/// closes.
final class HTTP1DownstreamHandler: ChannelInboundHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let context: LoopContext
    let client: DownstreamConnectionInfo
    let channel: any Channel
    private(set) var handlerContext: ChannelHandlerContext?
    /// Created with the first request, and again after ``releaseMemory()``.
    private(set) var exchange: Exchange?
    var state: HTTP1ConnectionState
    private(set) var writer = HTTP1ResponseWriter()
    private var isReading = false
    /// Whether more of the input can be consumed since the last step.
    private var readsAgain = false
    private(set) var isPaused = false
    var registryIndex = -1
    var deadline = UInt64.max
    /// The latest deadline of the exchange in progress.
    private var deadlineLimit = UInt64.max
    /// When the connection is closed unless a request arrives. While it is idle, ``deadline`` may be earlier.
    var idleEnd = UInt64.max
    /// When the connection began to wait for a request, or for the rest of its head.
    private(set) var idleStart = UInt64.max
    /// Credit of a client that is behind with reading responses that are complete.
    private var drainCredit: DrainCredit?
    private(set) var hasBegun = false
    var isDownstream: Bool { true }
    var connectionState: ClientConnectionState { isActive || state.isReceivingHead ? .active : .idle }

    init(_ client: DownstreamConnectionInfo) {
        self.client = client
        channel = client.channel
        context = client.context
        state = HTTP1ConnectionState(limits: context.snapshot.headLimits)
    }

    /// How long a connection keeps the memory of its last request for the next one, in nanoseconds.
    static let quietTime: UInt64 = 3_000_000_000

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        if handlerContext.channel.isActive { begin() }
    }

    func channelActive(context handlerContext: ChannelHandlerContext) {
        begin()
        handlerContext.fireChannelActive()
    }

    private func begin() {
        guard !hasBegun else { return }
        hasBegun = true
        idleStart = context.updateTime()
        idleEnd = context.now &+ context.snapshot.timeouts.keepAlive
        deadline = idleEnd
        context.add(self)
        // It was accepted just before draining began.
        if context.isDraining { drain() }
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        let now = context.updateTime()
        if !state.isReceivingHead {
            idleStart = now
            // The header timeout applies to the last request, too.
            if state.closesAfterResponse { idleEnd = .max }
        }
        var bytes = unwrapInboundIn(data)
        if exchange == nil { client.begin(with: bytes) }
        state.receive(&bytes)
        read()
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        exchange?.downstreamWritabilityChanged(isWritable: channel.isWritable)
        if channel.isWritable, state.phase == .head {
            drainCredit?.end(coarse: -unacceptedBytes(isExact: false), now: context.now)
            if !isActive, !state.isReceivingHead || state.hasUnparsedHead { waitForRequest() }
            if state.hasInput { read() }
        }
        handlerContext.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Half-closure is enabled only for tunnels; otherwise the end of input closes the connection.
        if state.phase == .tunnel, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            state.inputClosed()
            context.updateTime()
            read()
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // A failed handshake or a reset, caused by the peer: the connection is unusable, so nothing is sent to end it.
        let isCut = state.isResponseIncomplete(isActive: isActive)
        guard state.close() else { return }
        if isCut { ChannelCut.close(channel, framing: writer.framing) } else { ChannelCut.closeBelowTLS(channel) }
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        // The channel reports no end of input if its output has ended before: it is closed at once.
        if state.phase == .tunnel {
            if !state.hasInputEnded { state.inputClosed() }
            readRest()
        }
        state.close()
        exchange?.downstreamClosed()
        exchange = nil
        context.remove(self)
        handlerContext.fireChannelInactive()
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
    }

    var isActive: Bool { exchange?.isActive == true }

    /// The exchange for the next request.
    func makeExchange() -> Exchange {
        let exchange = Exchange(context: context, peer: client.makePeer(), downstream: self)
        self.exchange = exchange
        return exchange
    }

    /// Releases what an idle connection holds for its next request.
    func releaseMemory() {
        exchange = nil
        drainCredit = nil
        writer.releaseStorage()
        client.output?.releaseStorage()
    }

    // MARK: - Reading

    private func read() {
        // Reentrancy guard: an exchange that ends at once calls this method again, and the loop below continues.
        guard !isReading else {
            readsAgain = true
            return
        }
        isReading = true
        defer { isReading = false }
        repeat {
            while step() {}
            state.releaseInput()
            // Requests that wait until the client reads: the connection is not quiet.
            if state.hasInput, state.phase == .head { deadline = idleEnd }
            // The flush may make room in the connection to the upstream. No other event follows if the client has sent
            // everything.
            readsAgain = false
            exchange?.flushUpstream()
        } while readsAgain
        let isFull = state.isFull(isWritable: channel.isWritable)
        if isFull != isPaused, state.phase != .closed { setPaused(isFull) }
    }

    /// Both sides of a tunnel have ended, which closes the channel. Passes on what the client sent before, also if the
    /// upstream does not keep up: no other event follows.
    private func readRest() {
        while let exchange {
            switch state.nextStep(isWritable: false, acceptsBody: true) {
            case .body(let bytes): exchange.requestBody(bytes)
            case .bodyEnd(let trailers): exchange.requestEnd(trailers: trailers)
            default: return
            }
        }
    }

    func setPaused(_ isPaused: Bool) {
        self.isPaused = isPaused
        try? channel.syncOptions?.setOption(.autoRead, value: !isPaused)
    }

    /// - Returns: Whether another step may be possible.
    private func step() -> Bool {
        guard state.phase != .closed else { return false }
        let exchange = exchange ?? makeExchange()
        switch state.nextStep(isWritable: channel.isWritable, acceptsBody: exchange.acceptsBody) {
        case .wait: return false
        case .parseHead: return readHead(exchange)
        case .body(let bytes): exchange.requestBody(bytes)
        case .bodyEnd(let trailers): exchange.requestEnd(trailers: trailers)
        case .malformedBody(let error): exchange.malformedBody(error)
        case .discarded: break
        case .nextRequest: waitForRequest()
        case .linger: linger()
        }
        return true
    }

    private func readHead(_ exchange: Exchange) -> Bool {
        do throws(WireError) {
            guard let framing = try parseHead(into: &exchange.request.head) else {
                // Measured from the first byte: later bytes do not extend the deadline.
                idleEnd = min(idleEnd, context.now &+ context.snapshot.timeouts.header)
                deadline = idleEnd
                return false
            }
            exchange.protocolVersion = exchange.request.head.minorVersion == 0 ? .http1_0 : .http1_1
            deadline = .max
            exchange.begin(framing, now: context.now)
        } catch {
            state.rejected()
            exchange.reject(error, now: context.now)
        }
        return true
    }

    /// Parses a request head. The head is `inout` for all of it, because a property of a class would be copied.
    /// - Returns: The framing of the body; `nil` if the head is incomplete.
    private func parseHead(into head: inout RequestHead) throws(WireError) -> BodyFraming? {
        guard try state.parseHead(into: &head) else { return nil }
        let framing = try BodyFraming.of(head)
        try state.requestReceived(head, framing: framing)
        return framing
    }

    private func waitForRequest() {
        let timeouts = context.snapshot.timeouts
        let timeout = state.hasInput ? timeouts.header : timeouts.keepAlive
        idleStart = context.now
        idleEnd = channel.isWritable ? context.now &+ timeout : waitForClient()
        deadline = state.hasInput ? idleEnd : min(idleEnd, context.now &+ Self.quietTime)
        if state.closesAfterResponse, !state.hasInput { waitForLastRequest() }
    }

    /// A response is complete, but not sent: the client has to read it.
    /// - Returns: The deadline.
    func waitForClient() -> UInt64 {
        var credit = drainCredit ?? DrainCredit(context.snapshot.creditLimit())
        let deadline = credit.begin(coarse: -unacceptedBytes(isExact: false), now: context.now)
        drainCredit = credit
        return deadline
    }

    /// The deadline of a client that is behind has passed.
    /// - Returns: Whether it has read enough to continue; the next deadline is set.
    func clientMayContinue(now: UInt64) -> Bool {
        guard !channel.isWritable || state.isLingeringUnsent,
            let next = drainCredit?.expired(exact: -unacceptedBytes(isExact: true), now: now)
        else { return false }
        idleEnd = next
        deadline = next
        return true
    }
}

/// Writes responses in HTTP/1.1.
extension HTTP1DownstreamHandler: ResponseWriter {
    var isWritable: Bool { channel.isWritable }
    func unacceptedBytes(isExact: Bool) -> Int {
        isExact ? SendQueue.unacknowledged(in: channel) : SendQueue.buffered(in: channel)
    }
    func bufferedBodySent() {}
    var isResponseSent: Bool { true }
    func setDeadline(_ deadline: UInt64) { self.deadline = min(deadline, deadlineLimit) }
    func limitDeadlines(to limit: UInt64) {
        deadlineLimit = limit
        setDeadline(deadline)
    }
    func resumeRequestBody() { read() }
    func discardUnsentResponse() -> Bool { writer.discard() }
    func abort() { close(isCut: true) }

    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions) {
        let framing = state.responseStarted(framing)
        writer.writeHead(head, framing: framing, additions: additions, connection: state.connectionField)
    }

    func writeInformational(_ head: borrowing ResponseHead) { writer.writeInformational(head) }
    func writeContinue() {
        writer.writeContinue()
        flush()
    }

    func writeBody(_ bytes: ByteBuffer) {
        writer.beginPart(bytes.readableBytes)
        if !writer.append(bytes), let handlerContext {
            if var pending = writer.take() {
                client.write(pending, from: handlerContext)
                writer.reuse(&pending)
            }
            client.write(bytes, from: handlerContext)
        }
        writer.endPart()
    }

    func writeEnd(trailers: ByteBuffer?) {
        guard state.phase == .tunnel else { return writer.writeEnd(trailers: trailers) }
        // The write side is closed after the pending data is sent.
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    func writeUpgradeResponse(_ head: borrowing ResponseHead, fieldLines: [UInt8]) {
        state.upgraded()
        // Each direction of a tunnel ends separately.
        try? channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        writer.writeUpgradeResponse(head, fieldLines: fieldLines)
    }

    func writeLocalResponse(_ response: LocalResponse) {
        guard let exchange else { return }
        state.localResponseStarted(
            status: response.status, expectsContinue: exchange.request.summary.expectation != .none,
            isInvalid: exchange.request.isInvalid)
        writer.writeLocalResponse(
            response, isToHead: exchange.request.isToHead, connection: state.connectionField)
    }

    func flush() {
        guard let handlerContext else { return }
        guard var bytes = writer.take() else { return client.flush(from: handlerContext) }
        client.writeAndFlush(bytes, from: handlerContext)
        writer.reuse(&bytes)
    }

    func exchangeCompleted() {
        switch state.responseCompleted() {
        case .next: waitForRequest()
        case .drainBody: deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        case .linger: return linger()
        case .alreadyClosed: return
        }
        if state.hasInput { read() }
    }
}
