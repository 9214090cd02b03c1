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
final class HTTP2DownstreamHandler: ChannelInboundHandler, LoopMember {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    let context: LoopContext
    let channel: any Channel
    private let client: ClientConnection
    private let gatherer: WriteGatherer
    private let watch = HTTP2FrameWatch()
    private var handlerContext: ChannelHandlerContext?
    private var peer: Peer?
    /// The streams that have not ended, and their ids beside them for finding one.
    private var streams: [HTTP2Stream] = []
    private var streamIDs: [HTTP2StreamID] = []
    /// Streams that served their request, for the next ones.
    private var resting: [HTTP2Stream] = []
    /// Streams that have something to send, in the order of their turns.
    private var queue: [HTTP2Stream] = []
    private var touched: [HTTP2Stream] = []
    private var connectionWindow = 65_535
    /// How many bytes of bodies were handed to the handler of frames.
    private var writtenBytes = 0
    /// What new streams may be sent before the client gives more room.
    private var initialWindow = 65_535
    private var lastStreamID = HTTP2StreamID.rootStream
    private var requestCount = 0
    private var glitches = GlitchBudget()
    private var isFlushDue = false
    /// Streams that are reset with NO_ERROR as soon as their answer is sent.
    private var lateResets: [HTTP2StreamID] = []
    private var phase = Phase.open

    var memberIndex = -1
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { true }

    private enum Phase: Comparable {
        case open
        /// The client was told that no more requests are wanted; those on their way are still taken (RFC 9113 §6.8).
        case announced
        /// No more requests are taken.
        case draining
        /// Everything is said; what still comes is dropped, so that the client is not reset before it has read it.
        case lingering
        case closed
    }

    init(_ client: ClientConnection, gatherer: WriteGatherer) {
        self.client = client
        self.gatherer = gatherer
        context = client.context
        channel = client.channel
    }

    /// The room of a new stream for its request's body, in bytes.
    static let streamWindow = 131_072
    /// The room of the whole connection: given back at once, so that no stream takes it from others.
    private static let connectionTarget = 1_048_576
    /// The most bytes that one stream sends in its turn.
    private static let turn = 16_384
    /// About the most bytes of bodies that are sent before others on the event loop have their turn.
    private static let flushLimit = 262_144
    /// Pieces below this size count as the client's doing where it gave no more room.
    private static let smallPiece = 256

    /// The handler that does the frames. The fields of requests are checked here, so not there.
    func makeFrameHandler() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        let limits = context.headLimits
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: context.tables.plan.limits.streamsPerConnection),
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
        connection.maximumRecentlyResetStreams = max(100, context.tables.plan.limits.streamsPerConnection)
        return NIOHTTP2Handler(mode: .server, frameDelegate: watch, connectionConfiguration: connection)
    }

    // MARK: - What the channel tells

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        peer = client.makePeer()
        // Until its settings come, the client is held to the shorter time.
        deadline = context.beginEvent() &+ context.timeouts.header
        context.add(self)
        write(.windowUpdate(windowSizeIncrement: Self.connectionTarget - 65_535), on: .rootStream)
        if context.isDraining { drain() }
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        let now = context.beginEvent()
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
            if requestCount == 0, phase == .open { deadline = now &+ context.timeouts.keepAlive }
            receive(settings)
        case .ping(_, ack: true):
            if phase == .announced { finishAnnouncement() }
        case .goAway:
            // The client opens no more streams; it closes the connection when it has its answers, or we do.
            phase = max(phase, .announced)
            closeIfDone()
        case .settings, .ping, .priority, .pushPromise, .alternativeService, .origin:
            break
        }
    }

    func channelReadComplete(context handlerContext: ChannelHandlerContext) {
        if !touched.isEmpty {
            let streams = touched
            touched.removeAll(keepingCapacity: true)
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
                giveRoom(Self.connectionTarget - room, to: .rootStream)
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
        context.beginEvent()
        if channel.isWritable { flushLater() }
        handlerContext.fireChannelWritabilityChanged()
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        context.beginEvent()
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
        context.beginEvent()
        phase = .closed
        context.remove(self)
        let open = streams
        streams = []
        streamIDs = []
        queue = []
        touched = []
        for stream in open + resting { stream.close() }
        resting = []
        handlerContext.fireChannelInactive()
    }

    // MARK: - Frames

    private func receive(_ payload: HTTP2Frame.FramePayload.Headers, on id: HTTP2StreamID, now: UInt64) {
        if let stream = stream(id) {
            guard payload.endStream else { return refuse(stream, .protocolError) }
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
        let stream = resting.popLast() ?? HTTP2Stream(self, peer: peer)
        streams.append(stream)
        streamIDs.append(id)
        stream.begin(id, payload.headers, endsStream: payload.endStream, sendWindow: initialWindow)
        let limit = context.tables.plan.limits.requestsPerConnection
        if limit > 0, requestCount >= limit, phase == .open { announceEnd() }
    }

    private func receiveWindow(_ increment: Int, on id: HTTP2StreamID) {
        if id == .rootStream {
            connectionWindow += increment
            flushLater()
        } else if let stream = stream(id) {
            // Little by little, to somebody who waits for more: work for us and none for the client (CVE-2019-9511).
            if increment < Self.smallPiece, stream.isBlocked { glitch() }
            stream.sendWindow += increment
            enqueue(stream)
        }
    }

    private func receive(_ settings: HTTP2Settings) {
        for setting in settings where setting.parameter == .initialWindowSize {
            let delta = setting.value - initialWindow
            initialWindow = setting.value
            for stream in streams {
                stream.sendWindow += delta
                if delta > 0 { enqueue(stream) }
            }
        }
    }

    private func stream(_ id: HTTP2StreamID) -> HTTP2Stream? {
        streamIDs.lastIndex(of: id).map { streams[$0] }
    }

    // MARK: - Sending

    /// The stream has something to send, when its turn comes.
    func enqueue(_ stream: HTTP2Stream) {
        if !stream.isQueued, stream.hasOutput {
            stream.isQueued = true
            queue.append(stream)
        }
        flushLater()
    }

    /// Whether so many bytes could be sent right away.
    func hasRoom(for count: Int) -> Bool {
        count <= connectionWindow && channel.isWritable
    }

    /// What is written is sent once all events of this turn of the loop have been handled: one system call for all streams.
    func flushLater() {
        guard !isFlushDue else { return }
        isFlushDue = true
        context.flushLater(self)
    }

    /// Sends what there is room for: each stream some, in turns.
    func flushNow() {
        isFlushDue = false
        guard let handlerContext, phase < .lingering else { return }
        var blocked: [HTTP2Stream] = []
        var turns = queue
        queue = []
        var index = 0
        var budget = Self.flushLimit
        while index < turns.count {
            let stream = turns[index]
            index += 1
            stream.isQueued = false
            guard stream.hasOutput else { continue }
            // An end without body needs no room.
            guard channel.isWritable, budget > 0, connectionWindow > 0 || !stream.hasBody else {
                blocked.append(stream)
                continue
            }
            let sent = stream.send(upTo: min(Self.turn, connectionWindow))
            connectionWindow -= sent
            writtenBytes &+= sent
            budget -= sent
            if stream.hasOutput, !stream.isBlocked { turns.append(stream) }
        }
        for stream in blocked where stream.hasOutput && !stream.isQueued {
            stream.isQueued = true
            queue.append(stream)
        }
        handlerContext.flush()
        restoreWindow()
        sendLateResets(handlerContext)
        if budget <= 0, channel.isWritable { flushLater() }
        handleBrokenConnection()
        closeIfDone()
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

    private func write(_ payload: HTTP2Frame.FramePayload, on id: HTTP2StreamID) {
        handlerContext?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
    }

    /// The client may send so many bytes more on a stream.
    func giveRoom(_ count: Int, to id: HTTP2StreamID) {
        write(.windowUpdate(windowSizeIncrement: count), on: id)
        flushLater()
    }

    func touch(_ stream: HTTP2Stream) {
        guard !stream.isTouched else { return }
        stream.isTouched = true
        touched.append(stream)
    }

    // MARK: - Ends of streams

    /// The request is malformed, and the client at fault.
    func refuse(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        context.reject("http2_stream", from: peer?.address ?? "unknown")
        glitch()
        reset(stream, code)
    }

    func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard !stream.isClosed else { return }
        let id = stream.id
        remove(stream)
        write(.rstStream(code), on: id)
        flushLater()
    }

    /// The answer is complete and the client's side still open: the stream is reset, but not before the answer is out, as
    /// what waits below would be dropped with it.
    func resetOnceSent(_ id: HTTP2StreamID) {
        lateResets.append(id)
        flushLater()
    }

    private func sendLateResets(_ handlerContext: ChannelHandlerContext) {
        guard !lateResets.isEmpty, channel.isWritable else { return }
        let ids = lateResets
        lateResets = []
        for id in ids { write(.rstStream(.noError), on: id) }
        handlerContext.flush()
    }

    /// What waited below when its stream was reset was dropped there, and took no room of the connection's (RFC 9113 §5.2.2).
    private func restoreWindow() {
        guard writtenBytes != watch.bodyBytes, channel.isWritable else { return }
        connectionWindow += writtenBytes &- watch.bodyBytes
        writtenBytes = watch.bodyBytes
    }

    /// The stream has served its request.
    func finished(_ stream: HTTP2Stream) {
        forget(stream)
        stream.rest()
        if phase != .closed, resting.count < 8 { resting.append(stream) } else { stream.close() }
        afterStream()
    }

    private func remove(_ stream: HTTP2Stream) {
        forget(stream)
        stream.close()
        afterStream()
    }

    private func forget(_ stream: HTTP2Stream) {
        guard let index = streams.firstIndex(where: { $0 === stream }) else { return }
        let last = streams.count - 1
        if index != last {
            streams.swapAt(index, last)
            streamIDs.swapAt(index, last)
        }
        streams.removeLast()
        streamIDs.removeLast()
    }

    private func afterStream() {
        guard streams.isEmpty, phase < .lingering else { return }
        deadline = context.now &+ (phase == .open ? context.timeouts.keepAlive : Self.announcementTime)
        flushLater()
    }

    // MARK: - Clients that are not up to any good

    /// Something that a well-meaning client seldom does.
    private func glitch() {
        guard phase != .closed, !glitches.spend(at: context.now) else { return }
        context.reject("http2_glitches", from: peer?.address ?? "unknown")
        goAway(.enhanceYourCalm)
        closeNow()
    }

    /// A small piece was sent because the client gave no more room.
    func countSmallPiece(_ size: Int) {
        if size < Self.smallPiece { glitch() }
    }

    /// Closes a connection whose client has been told in GOAWAY that it broke the rules.
    private func handleBrokenConnection() {
        guard let code = watch.fatalCode, phase != .closed else { return }
        context.reject(code == .enhanceYourCalm ? "http2_flood" : "http2_connection", from: peer?.address ?? "unknown")
        closeNow()
    }

    // MARK: - Ends of the connection

    private func goAway(_ code: HTTP2ErrorCode) {
        write(.goAway(lastStreamID: lastStreamID, errorCode: code, opaqueData: nil), on: .rootStream)
        handlerContext?.flush()
    }

    /// Tells the client to send no more requests, and waits for what is on its way already.
    private func announceEnd() {
        guard phase == .open else { return }
        phase = .announced
        // Past the handler of frames, which would take no more requests from here on: those that cross this one are served.
        gatherer.insert(Self.graceGoAway)
        // What the client sends before it has read that arrives before the answer to this.
        write(.ping(HTTP2PingData(withInteger: 0), ack: false), on: .rootStream)
        handlerContext?.flush()
        if streams.isEmpty { deadline = min(deadline, context.now &+ Self.announcementTime) }
    }

    /// GOAWAY with the highest id of all and NO_ERROR (RFC 9113 §6.8).
    private static let graceGoAway = ByteBuffer(
        bytes: [0, 0, 8, 0x07, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])
    private static let announcementTime: UInt64 = 1_000_000_000

    private func finishAnnouncement() {
        guard phase == .announced else { return }
        phase = .draining
        goAway(.noError)
        closeIfDone()
    }

    private func closeIfDone() {
        guard phase == .draining, streams.isEmpty, let handlerContext else { return }
        phase = .lingering
        deadline = context.now &+ HTTP1DownstreamHandler.lingerTime
        handlerContext.flush()
        handlerContext.close(mode: .output, promise: nil)
    }

    func deadlineExpired(now: UInt64) {
        guard streams.isEmpty else {
            deadline = .max
            return
        }
        switch phase {
        case .open:
            // Idle for too long.
            phase = .draining
            goAway(.noError)
            closeIfDone()
        case .announced: finishAnnouncement()
        case .draining, .lingering, .closed: closeNow()
        }
    }

    func drain() {
        // A client that has said goodbye itself knows already.
        if phase == .announced { finishAnnouncement() } else { announceEnd() }
    }

    func closeNow() {
        guard phase != .closed else { return }
        phase = .closed
        handlerContext?.flush()
        handlerContext?.close(promise: nil)
    }
}
