import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOHPACK
import NIOHTTP2

/// A client's HTTP/2 connection: handles the frames of all streams from swift-nio-http2, without a channel per stream.
///
/// swift-nio-http2 validates frames, their order and stream states. This handler does the work of a multiplexer:
/// receive windows, scheduling of streams, and limits (RFC 9113 §5.2, §10.5).
///
/// Folder `HTTP2/`: streams of one connection: flow control, the order of sending, limits for abuse, and GOAWAY.
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
    /// Streams that have not ended, and their ids at the same indices, for lookup.
    var streams: [HTTP2Stream] = []
    var streamIDs: [HTTP2StreamID] = []
    /// Stream objects whose request has ended, for reuse.
    var recycledStreams: [HTTP2Stream] = []
    private var scheduler = HTTP2SendScheduler<HTTP2Stream>(quantum: 16_384)
    /// Initial send window of new streams.
    private var initialWindow = 65_535
    var lastStreamID = HTTP2StreamID.rootStream
    var requestCount = 0
    /// Budget of suspicious events that regular clients rarely cause: tiny window updates, stream errors.
    var glitches = FixedWindowLimiter(limit: 2_000)
    var phase = Phase.open

    var registryIndex = -1
    var deadline = UInt64.max
    var isDownstream: Bool { true }

    enum Phase: Comparable {
        case open
        /// A GOAWAY was sent; requests in flight are still accepted (RFC 9113 §6.8).
        case goAwaySent
        /// No more requests are accepted.
        case draining
        /// All data is sent; input is discarded, so the client can read the data before the connection is closed
        /// instead of being reset.
        case lingering
        case closed
    }

    init(_ client: DownstreamConnectionInfo, gatherer: WriteCoalescer) {
        self.client = client
        self.gatherer = gatherer
        context = client.context
        channel = client.channel
    }

    /// Receive window of a new stream, in bytes.
    static let streamWindow = 131_072
    /// Receive window of the connection, in bytes. It is replenished at once, so that no stream blocks others.
    static let connectionTarget = 1_048_576
    /// Approximate number of body bytes sent before the event loop continues with other work.
    private static let flushLimit = 262_144
    /// A window update below this size, in bytes, for a blocked stream counts as a glitch. The remainder at the end of
    /// a window is usually larger.
    static let tinyWindowIncrement = 16

    /// Creates the handler from swift-nio-http2. Its validation of request fields is disabled, because this module
    /// validates them.
    func makeFrameHandler() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        let limits = context.snapshot.headLimits
        connection.initialSettings = [
            HTTP2Setting(
                parameter: .maxConcurrentStreams,
                value: context.snapshot.config.configuration.limits.streamsPerConnection),
            // Each field counts 32 bytes more than its length (RFC 9113 §6.5.2).
            HTTP2Setting(parameter: .maxHeaderListSize, value: limits.head + limits.fields * 32),
            HTTP2Setting(parameter: .initialWindowSize, value: Self.streamWindow),
            HTTP2Setting(parameter: .enableConnectProtocol, value: 1),
        ]
        connection.headerBlockValidation = .disabled
        connection.contentLengthValidation = .disabled
        connection.maximumBufferedControlFrames = 1_000
        // Counted per connection and reset when a stream ends; a tunnel may send a few.
        connection.maximumSequentialEmptyDataFrames = 100
        // Body frames may be in flight on all streams that got an early response.
        connection.maximumRecentlyResetStreams = max(
            100, context.snapshot.config.configuration.limits.streamsPerConnection)
        return NIOHTTP2Handler(mode: .server, frameDelegate: watch, connectionConfiguration: connection)
    }

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        peer = client.makePeer()
        // The header timeout applies until the client's SETTINGS are received.
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
            // Padding counts against the window (RFC 9113 §6.1).
            let padding = payload.paddingBytes.map { $0 + 1 } ?? 0
            stream(frame.streamID)?.receive(bytes, padding: padding, endsStream: payload.endStream)
        case .rstStream:
            if let stream = stream(frame.streamID) { remove(stream) }
        case .windowUpdate(let increment):
            receiveWindow(increment, on: frame.streamID)
        case .settings(.settings(let settings)):
            // The client has sent its SETTINGS; the keep-alive timeout applies to its first request.
            if requestCount == 0, phase == .open { deadline = now &+ context.snapshot.timeouts.keepAlive }
            receive(settings)
        case .ping(_, ack: true):
            if phase == .goAwaySent { sendFinalGoAway() }
        case .goAway:
            // The client opens no more streams. The connection is closed when all responses are sent.
            phase = max(phase, .goAwaySent)
            closeIfDone()
        case .settings, .ping, .priority, .pushPromise, .alternativeService, .origin:
            break
        }
    }

    func channelReadComplete(context handlerContext: ChannelHandlerContext) {
        for stream in scheduler.takeStreamsToFlush() { stream.flushUpstream() }
        handleBrokenConnection()
        handlerContext.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Compare the type first: a failing cast searches conformances, which took one sixth of a request's
        // instructions.
        let kind = type(of: event)
        if kind == NIOHTTP2WindowUpdatedEvent.self, let event = event as? NIOHTTP2WindowUpdatedEvent {
            // Data of closed streams counts too: the connection's window is shared by all streams.
            if event.streamID == .rootStream, let room = event.inboundWindowSize, room < Self.connectionTarget / 2 {
                sendWindowUpdate(Self.connectionTarget - room, to: .rootStream)
            }
        } else if kind == StreamClosedEvent.self, let event = event as? StreamClosedEvent {
            // Closed by swift-nio-http2 or the client, for example after a stream error.
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
        // swift-nio-http2 has already reset a stream after a stream error. After a connection error either a GOAWAY was
        // sent, or the error is not one of HTTP/2.
        handleBrokenConnection()
        if error is NIOHTTP2Errors.RaisedGoawayLastStreamID {
            // The client violated the protocol after the final GOAWAY; no further GOAWAY can be sent.
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
        scheduler.removeAll()
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
            // Safe to retry: the request has not been processed (RFC 9113 §8.7).
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
            scheduler.windowUpdate(increment)
            flushLater()
        } else if let stream = stream(id) {
            // Tiny window updates for a blocked stream cost the gateway more than the client (CVE-2019-9511).
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

    // MARK: - Sending

    /// Sends the output of a stream with the next flush.
    func enqueue(_ stream: HTTP2Stream) {
        scheduler.enqueue(stream)
        flushLater()
    }

    /// Flushes the stream's upstream after the current read.
    func touch(_ stream: HTTP2Stream) { scheduler.touch(stream) }

    /// Whether the given number of bytes could be sent immediately.
    func hasSendWindow(for count: Int) -> Bool {
        scheduler.hasWindow(for: count) && channel.isWritable
    }

    /// Resets a stream after its response has been sent.
    func resetOnceSent(_ id: HTTP2StreamID) {
        scheduler.deferReset(id)
        flushLater()
    }

    /// Schedules a flush after all events of this event loop tick, so all streams share one system call.
    func flushLater() {
        if scheduler.requestFlush() { context.flushLater(self) }
    }

    /// Sends as much as the windows allow.
    func flushNow() {
        guard let handlerContext, phase < .lingering else { return }
        scheduler.beginRound(budget: Self.flushLimit)
        while let turn = scheduler.next(isWritable: channel.isWritable) {
            let sent = turn.stream.send(upTo: turn.limit)
            scheduler.wrote(sent, on: turn.stream)
        }
        let hasMore = scheduler.endRound()
        handlerContext.flush()
        if channel.isWritable { scheduler.reconcile(sentBytes: watch.bodyBytes) }
        if channel.isWritable { sendDeferredResets(handlerContext) }
        if hasMore, channel.isWritable { flushLater() }
        handleBrokenConnection()
        closeIfDone()
    }

    private func sendDeferredResets(_ handlerContext: ChannelHandlerContext) {
        let ids = scheduler.takeDeferredResets()
        guard !ids.isEmpty else { return }
        for id in ids { write(.rstStream(.noError), on: id) }
        handlerContext.flush()
    }

    /// Increases the receive window of a stream by the given number of bytes.
    func sendWindowUpdate(_ count: Int, to id: HTTP2StreamID) {
        write(.windowUpdate(windowSizeIncrement: count), on: id)
        flushLater()
    }

    func write(_ headers: HPACKHeaders, on id: HTTP2StreamID, endsStream: Bool) {
        write(.headers(.init(headers: headers, endStream: endsStream)), on: id)
    }

    func write(data: ByteBuffer, on id: HTTP2StreamID, endsStream: Bool) {
        write(.data(.init(data: .byteBuffer(data), endStream: endsStream)), on: id)
    }

    func write(trailers: ByteBuffer, on id: HTTP2StreamID) {
        var fields = HTTP2ResponseFields()
        fields.add(lines: trailers.readableBytesUInt8Span)
        write(fields.headers, on: id, endsStream: true)
    }

    func write(_ payload: HTTP2Frame.FramePayload, on id: HTTP2StreamID) {
        handlerContext?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
    }
}

/// Observes the frames that swift-nio-http2 writes: after a GOAWAY with an error the connection must be closed.
final class HTTP2FrameObserver: NIOHTTP2FrameDelegate {
    /// The error code of a GOAWAY that was sent; `nil` without one.
    private(set) var fatalCode: HTTP2ErrorCode?

    /// Number of body bytes sent.
    private(set) var bodyBytes = 0

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .data(let payload) = frame.payload { bodyBytes &+= payload.data.readableBytes }
        if case .goAway(_, let code, _) = frame.payload, code != .noError { fatalCode = code }
    }
}
