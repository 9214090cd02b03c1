import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOHPACK
import NIOHTTP2

/// A client's HTTP/2 connection: takes the frames of all its streams from swift-nio-http2, without a channel for each.
///
/// Frames, their order and the states of streams are checked below. This handler owes what a multiplexer would do: room for
/// the client's bodies, the order in which streams send, and limits (RFC 9113 §5.2, §10.5).
final class HTTP2DownstreamHandler: ChannelInboundHandler, LoopRegistered {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    let context: LoopContext
    let channel: any Channel
    let client: DownstreamConnectionInfo
    let gatherer: WriteCoalescer
    let watch = HTTP2FrameObserver()
    var handlerContext: ChannelHandlerContext?
    var peer: Peer?
    /// The streams that have not ended, and their ids beside them for finding one.
    var streams: [HTTP2Stream] = []
    var streamIDs: [HTTP2StreamID] = []
    /// Streams that served their request, for the next ones.
    var recycledStreams: [HTTP2Stream] = []
    /// Streams that have something to send, in the order of their turns.
    var queue: [HTTP2Stream] = []
    var streamsToFlush: [HTTP2Stream] = []
    var connectionWindow = 65_535
    /// How many bytes of bodies were handed to the handler of frames.
    var writtenBytes = 0
    /// What new streams may be sent before the client gives more room.
    private var initialWindow = 65_535
    var lastStreamID = HTTP2StreamID.rootStream
    var requestCount = 0
    /// How much of what a well-meaning client seldom does is put up with: tiny windows, errors.
    var glitches = FixedWindowLimiter(limit: 2_000)
    var isFlushDue = false
    /// Streams that are reset with NO_ERROR as soon as their answer is sent.
    var deferredResets: [HTTP2StreamID] = []
    var phase = Phase.open

    var registryIndex = -1
    var deadline = UInt64.max
    var isDownstream: Bool { true }

    enum Phase: Comparable {
        case open
        /// The client was told that no more requests are wanted; those on their way are still taken (RFC 9113 §6.8).
        case goAwaySent
        /// No more requests are taken.
        case draining
        /// Everything is said; what still comes is dropped, so that the client is not reset before it has read it.
        case lingering
        case closed
    }

    init(_ client: DownstreamConnectionInfo, gatherer: WriteCoalescer) {
        self.client = client
        self.gatherer = gatherer
        context = client.context
        channel = client.channel
    }

    /// The room of a new stream for its request's body, in bytes.
    static let streamWindow = 131_072
    /// The room of the whole connection: given back at once, so that no stream takes it from others.
    static let connectionTarget = 1_048_576
    /// The most bytes that one stream sends in its turn.
    static let sendQuantum = 16_384
    /// About the most bytes of bodies that are sent before others on the event loop have their turn.
    static let flushLimit = 262_144
    /// Room that is given in pieces below this size, in bytes, to a stream that waits for it counts as a glitch: what is left
    /// over at the end of a window is mostly larger.
    static let tinyWindowIncrement = 16

    /// The handler that does the frames. The fields of requests are checked here, so not there.
    func makeFrameHandler() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        let limits = context.snapshot.headLimits
        connection.initialSettings = [
            HTTP2Setting(
                parameter: .maxConcurrentStreams,
                value: context.snapshot.config.configuration.limits.streamsPerConnection),
            // Counted with 32 bytes for each field (RFC 9113 §6.5.2).
            HTTP2Setting(parameter: .maxHeaderListSize, value: limits.head + limits.fields * 32),
            HTTP2Setting(parameter: .initialWindowSize, value: Self.streamWindow),
            HTTP2Setting(parameter: .enableConnectProtocol, value: 1),
        ]
        connection.headerBlockValidation = .disabled
        connection.contentLengthValidation = .disabled
        connection.maximumBufferedControlFrames = 1_000
        // They are counted over the connection's life, until some stream ends; a tunnel may have a few.
        connection.maximumSequentialEmptyDataFrames = 100
        // Bodies may be on their way to all streams that were answered early.
        connection.maximumRecentlyResetStreams = max(
            100, context.snapshot.config.configuration.limits.streamsPerConnection)
        return NIOHTTP2Handler(mode: .server, frameDelegate: watch, connectionConfiguration: connection)
    }

    // MARK: - What the channel tells

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        peer = client.makePeer()
        // Until its settings come, the client is held to the shorter time.
        deadline = context.updateTime() &+ context.snapshot.timeouts.header
        context.add(self)
        write(.windowUpdate(windowSizeIncrement: Self.connectionTarget - 65_535), on: .rootStream)
        if context.isDraining { drain() }
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        let now = context.updateTime()
        let frame = unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let payload):
            receive(payload, on: frame.streamID, now: now)
        case .data(let payload):
            guard case .byteBuffer(let bytes) = payload.data else { return }
            // Padding takes room too (RFC 9113 §6.1).
            let padding = payload.paddingBytes.map { $0 + 1 } ?? 0
            stream(frame.streamID)?.receive(bytes, padding: padding, endsStream: payload.endStream)
        case .rstStream:
            if let stream = stream(frame.streamID) { remove(stream) }
        case .windowUpdate(let increment):
            receiveWindow(increment, on: frame.streamID)
        case .settings(.settings(let settings)):
            // The client is there; it may take its time for the first request.
            if requestCount == 0, phase == .open { deadline = now &+ context.snapshot.timeouts.keepAlive }
            receive(settings)
        case .ping(_, ack: true):
            if phase == .goAwaySent { sendFinalGoAway() }
        case .goAway:
            // The client opens no more streams; it closes the connection when it has its answers, or we do.
            phase = max(phase, .goAwaySent)
            closeIfDone()
        case .settings, .ping, .priority, .pushPromise, .alternativeService, .origin:
            break
        }
    }

    func channelReadComplete(context handlerContext: ChannelHandlerContext) {
        if !streamsToFlush.isEmpty {
            let streams = streamsToFlush
            streamsToFlush.removeAll(keepingCapacity: true)
            for stream in streams { stream.flushUpstream() }
        }
        handleBrokenConnection()
        handlerContext.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Asked for its type first: a cast that fails looks for conformances, which was a sixth of a request's instructions.
        let kind = type(of: event)
        if kind == NIOHTTP2WindowUpdatedEvent.self, let event = event as? NIOHTTP2WindowUpdatedEvent {
            // Whatever becomes of the bytes, on streams that are gone too: the connection's room is for all.
            if event.streamID == .rootStream, let room = event.inboundWindowSize, room < Self.connectionTarget / 2 {
                sendWindowUpdate(Self.connectionTarget - room, to: .rootStream)
            }
        } else if kind == StreamClosedEvent.self, let event = event as? StreamClosedEvent {
            // Closed for a reason that did not come from here, such as an error of the stream's.
            if let reason = event.reason, let stream = stream(event.streamID) {
                if reason != .noError, reason != .cancel { glitch() }
                remove(stream)
            }
        }
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        if channel.isWritable { flushLater() }
        handlerContext.fireChannelWritabilityChanged()
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        context.updateTime()
        // An error of one stream has been answered with a reset below. What ends the connection has either been told to the
        // client in GOAWAY, or is no error of HTTP/2 at all.
        handleBrokenConnection()
        if error is NIOHTTP2Errors.RaisedGoawayLastStreamID {
            // The client broke the rules behind our last word, which cannot be followed by another.
            context.reject("http2_connection", from: peer?.address ?? "unknown")
            return closeNow()
        }
        if !(error is any NIOHTTP2Error) { handlerContext.close(promise: nil) }
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        phase = .closed
        context.remove(self)
        let open = streams
        streams = []
        streamIDs = []
        queue = []
        streamsToFlush = []
        for stream in open { stream.close() }
        for stream in recycledStreams { stream.release() }
        recycledStreams = []
        handlerContext.fireChannelInactive()
    }

    // MARK: - Frames

    func receive(_ payload: HTTP2Frame.FramePayload.Headers, on id: HTTP2StreamID, now: UInt64) {
        if let stream = stream(id) {
            guard payload.endStream else { return reject(stream, .protocolError) }
            return stream.receiveTrailers(payload.headers)
        }
        guard id > lastStreamID, let peer else { return }
        lastStreamID = id
        guard phase < .draining else {
            // Safe to send again: nothing has been done about it (RFC 9113 §8.7).
            write(.rstStream(.refusedStream), on: id)
            return
        }
        requestCount += 1
        deadline = .max
        let stream = recycledStreams.popLast() ?? HTTP2Stream(self, peer: peer)
        streams.append(stream)
        streamIDs.append(id)
        stream.begin(id, payload.headers, endsStream: payload.endStream, sendWindow: initialWindow)
        let limit = context.snapshot.config.configuration.limits.requestsPerConnection
        if limit > 0, requestCount >= limit, phase == .open { beginGracefulShutdown() }
    }

    func receiveWindow(_ increment: Int, on id: HTTP2StreamID) {
        if id == .rootStream {
            connectionWindow += increment
            flushLater()
        } else if let stream = stream(id) {
            // Little by little, to somebody who waits for more: work for us and none for the client (CVE-2019-9511).
            if increment < Self.tinyWindowIncrement, stream.isBlocked { glitch() }
            stream.sendWindow += increment
            enqueue(stream)
        }
    }

    func receive(_ settings: HTTP2Settings) {
        for setting in settings where setting.parameter == .initialWindowSize {
            let delta = setting.value - initialWindow
            initialWindow = setting.value
            for stream in streams {
                stream.sendWindow += delta
                if delta > 0 { enqueue(stream) }
            }
        }
    }

    func stream(_ id: HTTP2StreamID) -> HTTP2Stream? {
        streamIDs.lastIndex(of: id).map { streams[$0] }
    }
}
