import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A client's HTTP/1.1 connection: bytes in, bytes out, one exchange after the other.
///
/// Requests that come while one is running wait in the buffer (RFC 9112 §9.3.2); reading stops only when that is full.
final class HTTP1DownstreamHandler: ChannelInboundHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum ReadState: Equatable {
        /// The next bytes begin a request.
        case head
        /// The next bytes are a request's body.
        case body
        /// All of a request has been read; its answer is due.
        case awaitingResponse
        /// The next bytes are those of a tunnel.
        case tunnel
        /// An answer is written and the connection ends; what still comes is dropped.
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
    /// What is written and not sent. Used again and again while nobody else holds its storage.
    var outbound = ByteBuffer()
    /// Whether the connection can be used for another request once this one is answered.
    var keepsAlive = true
    /// Whether it is to end with the next answer, whatever the next request says. Its head may have begun already.
    private var closesAfterResponse = false
    var needsKeepAliveField = false
    var outgoingFraming = BodyFraming.none
    /// Whether an upstream's answer has been written, and nothing of it sent.
    var isResponseHeadBuffered = false
    var isReading = false
    private(set) var isPaused = false
    /// In a tunnel: whether the client sends no more, and nobody has been told yet.
    private var isInputClosed = false
    /// In a tunnel: whether the client sends no more.
    private(set) var hasInputEnded = false
    private var requestCount = 0
    var drainedBytes = 0
    /// Whether the last answer is written and all of it is sent.
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

    /// Up to so many bytes an answer is gathered before it is sent; larger parts go by themselves.
    static let coalesceLimit = 16_384
    /// Up to so many bytes wait while an exchange is running, before reading stops.
    private static let inboundLimit = 65_536
    /// Up to so many bytes that nobody wants are read to keep a connection.
    static let discardLimit = 65_536
    /// How long a connection lingers after its last answer, so that the client can read it.
    static let lingerTime: UInt64 = 1_000_000_000

    // MARK: - What the channel tells

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
        // It was accepted just before the gateway was told to stop.
        if context.isDraining { closeNow() }
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        context.updateTime()
        var bytes = unwrapInboundIn(data)
        // However much it is: time is what ends this, and reading it keeps the peer's answer from being reset.
        if reading == .lingering { return }
        if inbound.readableBytes > 0 {
            inbound.writeBuffer(&bytes)
        } else {
            inbound = bytes
        }
        // Let go of the buffer before reading it, so that its storage can be used for the next read.
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
        // Only a tunnel allows it: otherwise the end of input is the end of the connection.
        if reading == .tunnel, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            context.updateTime()
            isInputClosed = true
            hasInputEnded = true
            read()
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // A handshake that fails, a reset: the connection is of no more use, and it is the peer's doing.
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
        // An exchange that ends at once calls back in here: the loop below goes on by itself.
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

    /// - Returns: Whether there may be more to do.
    private func step() -> Bool {
        guard let exchange else { return false }
        switch reading {
        case .head:
            // A client that does not take its answers gets no more of them.
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
                // Counted from the first byte: what comes later does not put it off.
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
        // Nobody wants it any more: it is read to its end to keep the connection.
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

    /// The last answer is written: no more is read but what is on its way, so that the peer is not reset before it has
    /// read the answer (RFC 9112 §9.6).
    func linger(for time: UInt64 = lingerTime) {
        guard reading != .closed, let handlerContext else { return }
        let wasTunnel = reading == .tunnel
        reading = .lingering
        inbound = ByteBuffer()
        if isPaused {
            isPaused = false
            try? channel.syncOptions?.setOption(.autoRead, value: true)
        }
        // A slow reader has as long as for any body; the short time begins when everything is sent.
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
        // Bytes of an answer may be missing: it is not over, or its end is not sent.
        close(isCut: reading == .lingering ? !isAllSent : exchange?.isActive == true)
    }

    /// - Parameter isCut: Whether the client has to see that there should have been more.
    func close(isCut: Bool) {
        guard reading != .closed else { return }
        reading = .closed
        guard isCut else {
            handlerContext?.close(promise: nil)
            return
        }
        // Where the end of the connection would be the end of the answer, it must not look like one (RFC 9112 §8).
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
        // The last answer may not be sent yet.
        if !exchange.isActive, reading == .head, inbound.readableBytes == 0 { linger(for: 0) }
    }
}
