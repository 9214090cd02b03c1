import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A client's HTTP/1.1 connection: parses requests, writes responses, one exchange at a time.
///
/// Pipelined requests wait in the buffer (RFC 9112 §9.3.2); reading stops only when the buffer is full.
final class HTTP1DownstreamHandler: ChannelInboundHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum ReadState: Equatable {
        /// The next bytes begin a request.
        case head
        /// The next bytes are a request body.
        case body
        /// The request is complete; its response is pending.
        case awaitingResponse
        /// The next bytes belong to a tunnel.
        case tunnel
        /// The last response is written; further input is discarded.
        case lingering
        case closed
    }

    let context: LoopContext
    private let client: DownstreamConnectionInfo
    let channel: any Channel
    var handlerContext: ChannelHandlerContext?
    var exchange: Exchange?
    var reading = ReadState.head
    private var parser: HeadParser
    private var decoder = BodyDecoder(.none)
    var inbound = ByteBuffer()
    /// Data that is written but not sent. Its storage is reused while it has no other owner.
    var outbound = ByteBuffer()
    /// Whether the connection is reusable after the current response.
    var keepsAlive = true
    /// Whether the connection closes after the next response, regardless of `Connection` fields. The head of the next
    /// request may be partly received.
    private var closesAfterResponse = false
    var needsKeepAliveField = false
    var outgoingFraming = BodyFraming.none
    /// Whether an upstream's response head is buffered, and none of it sent.
    var isResponseHeadBuffered = false
    var isReading = false
    private(set) var isPaused = false
    /// In a tunnel: whether the client's end of input has yet to be reported.
    private var isInputClosed = false
    /// In a tunnel: whether the client has ended its input.
    private(set) var hasInputEnded = false
    private var requestCount = 0
    var drainedBytes = 0
    /// Whether the last response is completely sent.
    var isAllSent = false
    var registryIndex = -1
    var deadline = UInt64.max
    var isDownstream: Bool { true }

    init(_ client: DownstreamConnectionInfo) {
        self.client = client
        channel = client.channel
        context = client.context
        parser = HeadParser(limits: context.snapshot.headLimits)
    }

    /// Maximum size in bytes of response data that is coalesced; larger parts are written separately.
    static let coalesceLimit = 16_384
    /// Maximum size in bytes of buffered input during an exchange, before reading stops.
    private static let inboundLimit = 65_536
    /// Maximum size in bytes of an unneeded body that is read to keep the connection.
    static let discardLimit = 65_536
    /// How long a connection lingers after its last response, so that the client can read it, in nanoseconds.
    static let lingerTime: UInt64 = 1_000_000_000

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        if handlerContext.channel.isActive { begin(handlerContext) }
    }

    func channelActive(context handlerContext: ChannelHandlerContext) {
        begin(handlerContext)
        handlerContext.fireChannelActive()
    }

    private func begin(_ handlerContext: ChannelHandlerContext) {
        guard exchange == nil else { return }
        context.updateTime()
        exchange = Exchange(context: context, peer: client.makePeer(), downstream: self)
        deadline = context.now &+ context.snapshot.timeouts.keepAlive
        context.add(self)
        // It was accepted just before draining began.
        if context.isDraining { closeNow() }
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        context.updateTime()
        var bytes = unwrapInboundIn(data)
        // Input is discarded without a size limit; the deadline ends it. Unread input would cause a reset before the
        // peer has read the response.
        if reading == .lingering { return }
        if inbound.readableBytes > 0 {
            inbound.writeBuffer(&bytes)
        } else {
            inbound = bytes
        }
        // Release this reference first, so the storage can be reused for the next read.
        bytes = ByteBuffer()
        read()
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        exchange?.downstreamWritabilityChanged(isWritable: channel.isWritable)
        if channel.isWritable, reading == .head, inbound.readableBytes > 0 {
            if exchange?.isActive == false, !parser.isInHead { waitForRequest() }
            read()
        }
        handlerContext.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Half-closure is enabled only for tunnels; otherwise the end of input closes the connection.
        if reading == .tunnel, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            context.updateTime()
            isInputClosed = true
            hasInputEnded = true
            read()
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // A failed handshake or a reset, caused by the peer: the connection is unusable.
        closeNow()
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        reading = .closed
        exchange?.downstreamClosed()
        exchange = nil
        context.remove(self)
        handlerContext.fireChannelInactive()
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
    }

    // MARK: - Reading

    func read() {
        // Reentrancy guard: an exchange that ends at once calls this method again, and the loop below continues.
        guard !isReading else { return }
        isReading = true
        defer { isReading = false }
        while step() {}
        if inbound.readableBytes == 0 { inbound = ByteBuffer() }
        exchange?.flushUpstream()
        let isFull = inbound.readableBytes > Self.inboundLimit && (reading != .head || !channel.isWritable)
        if isFull != isPaused, reading != .closed {
            isPaused = isFull
            try? channel.syncOptions?.setOption(.autoRead, value: !isFull)
        }
    }

    /// - Returns: Whether another step may be possible.
    private func step() -> Bool {
        guard let exchange else { return false }
        switch reading {
        case .head:
            // Pipelined requests wait until the client has read earlier responses.
            guard inbound.readableBytes > 0, channel.isWritable else { return false }
            return readHead(exchange)
        case .body:
            return readBody(exchange)
        case .tunnel:
            return readTunnel(exchange)
        case .awaitingResponse, .lingering, .closed:
            return false
        }
    }

    private func readHead(_ exchange: Exchange) -> Bool {
        let now = context.now
        do throws(WireError) {
            guard try parser.parse(&inbound, into: &exchange.head) else {
                // Measured from the first byte: later bytes do not extend the deadline.
                deadline = min(deadline, now &+ context.snapshot.timeouts.header)
                return false
            }
            let framing = try BodyFraming.of(exchange.head)
            exchange.protocolVersion = exchange.head.minorVersion == 0 ? .http1_0 : .http1_1
            let options = ConnectionOptions.read(exchange.head)
            guard !options.isOverLimit else { throw WireError.connectionOptions }
            requestCount += 1
            let limit = context.snapshot.config.configuration.limits.requestsPerConnection
            keepsAlive =
                options.persists(minorVersion: exchange.head.minorVersion) && !context.isDraining
                && !closesAfterResponse
                && (limit == 0 || requestCount < limit)
            needsKeepAliveField = keepsAlive && exchange.head.minorVersion == 0
            decoder = BodyDecoder(framing)
            reading = framing == .none ? .awaitingResponse : .body
            deadline = .max
            exchange.begin(framing, now: now)
            return true
        } catch {
            inbound = ByteBuffer()
            keepsAlive = false
            exchange.reject(error, now: now)
            return true
        }
    }

    private func readTunnel(_ exchange: Exchange) -> Bool {
        guard exchange.isActive, exchange.acceptsBody else { return false }
        if let bytes = inbound.readSlice(length: inbound.readableBytes), bytes.readableBytes > 0 {
            exchange.requestBody(bytes)
            return true
        }
        guard isInputClosed else { return false }
        isInputClosed = false
        exchange.requestEnd()
        return true
    }

    private func readBody(_ exchange: Exchange) -> Bool {
        // Without an active exchange the body is read and discarded, to keep the connection.
        let isWanted = exchange.isActive
        guard !isWanted || exchange.acceptsBody else { return false }
        do throws(WireError) {
            switch try decoder.next(&inbound) {
            case .data(let bytes):
                if isWanted {
                    exchange.requestBody(bytes)
                } else {
                    drop(bytes.readableBytes)
                }
                return true
            case .end:
                reading = isWanted ? .awaitingResponse : .head
                if isWanted {
                    exchange.requestEnd(trailers: decoder.takeTrailers())
                } else if keepsAlive {
                    waitForRequest()
                } else {
                    linger()
                }
                return true
            case .needMoreData:
                return false
            }
        } catch {
            inbound = ByteBuffer()
            keepsAlive = false
            guard exchange.isActive else {
                linger()
                return true
            }
            exchange.malformedBody(error)
            return true
        }
    }

    private func drop(_ count: Int) {
        drainedBytes += count
        if drainedBytes > Self.discardLimit { closeNow() }
    }

    func waitForRequest() {
        reading = .head
        drainedBytes = 0
        guard channel.isWritable else {
            deadline = context.now &+ context.snapshot.timeouts.bodyIdle
            return
        }
        let timeouts = context.snapshot.timeouts
        deadline = context.now &+ (inbound.readableBytes > 0 ? timeouts.header : timeouts.keepAlive)
    }

    // MARK: - Ends

    /// The last response is written: input in flight is read and discarded, so that the peer is not reset before it has
    /// read the response (RFC 9112 §9.6).
    func linger(for time: UInt64 = lingerTime) {
        guard reading != .closed, let handlerContext else { return }
        let wasTunnel = reading == .tunnel
        reading = .lingering
        inbound = ByteBuffer()
        if isPaused {
            isPaused = false
            try? channel.syncOptions?.setOption(.autoRead, value: true)
        }
        // The body timeout applies until everything is sent; then the linger time begins.
        deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        guard !wasTunnel else { return lingerAfterTunnel(for: time) }
        let sent = channel.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] result in
            if case .success = result { isAllSent = true }
            if time == 0 { closeNow() } else { deadline = context.now &+ time }
        }
        handlerContext.close(mode: .output, promise: sent)
    }

    func closeNow() {
        // The response may be incomplete: the exchange is active, or not all data is sent.
        close(isCut: reading == .lingering ? !isAllSent : exchange?.isActive == true)
    }

    /// - Parameter isCut: Whether the client must be able to detect that the response is incomplete.
    func close(isCut: Bool) {
        guard reading != .closed else { return }
        reading = .closed
        guard isCut else {
            handlerContext?.close(promise: nil)
            return
        }
        // If the response is delimited by the end of the connection, an orderly close would make it appear complete
        // (RFC 9112 §8).
        if outgoingFraming == .untilClose { TCPReset.onClose(channel) }
        ChannelCut.close(channel)
    }

    func deadlineExpired(now: UInt64) {
        guard let exchange else { return }
        if exchange.isActive {
            exchange.deadlineExpired(now: now)
        } else if reading == .head, channel.isWritable, parser.isInHead || inbound.readableBytes > 0 {
            deadline = .max
            keepsAlive = false
            exchange.requestHeadTimedOut(now: now)
        } else {
            closeNow()
        }
    }

    var usesTLS: Bool { client.isTLS }

    func configurationReplaced() { exchange?.configurationReplaced() }

    func drain() {
        keepsAlive = false
        closesAfterResponse = true
        guard let exchange else { return closeNow() }
        exchange.drain()
        // The last response may not be sent yet.
        if !exchange.isActive, reading == .head, inbound.readableBytes == 0 { linger(for: 0) }
    }
}
