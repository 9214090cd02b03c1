import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A client's HTTP/2 connection: performs the I/O for ``HTTP2Connection``, and runs one exchange per stream.
///
/// Folder `HTTP2/`: moves bytes between the channel, the connection's state and the streams; requests begin and
/// responses are sent once per read and once per tick of the event loop.
final class HTTP2DownstreamHandler: ChannelInboundHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let context: LoopContext
    let channel: any Channel
    let client: DownstreamConnectionInfo
    private(set) var handlerContext: ChannelHandlerContext?
    private(set) var peer: Peer?
    var connection: HTTP2Connection
    /// Streams by their slot.
    private(set) var streams: [HTTP2Stream?] = []
    /// Stream objects whose request has ended, for reuse.
    private(set) var recycledStreams: [HTTP2Stream] = []
    /// Streams with work to do after the current read, or when the client has read what waits.
    private(set) var touched: [HTTP2Stream] = []
    /// An incomplete frame.
    private var input = ByteBuffer()
    /// Storage of the input, in bytes.
    var inputStorage: Int { input.storageCapacity }
    /// Storage of the output, in bytes.
    var outputStorage: Int { connection.output.storageCapacity }
    var isFlushDue = false
    private var isPaused = false
    private var requestCount = 0
    private(set) var hasBodyWindow = false
    /// Bytes of all responses that wait to be sent.
    var outboundBytes = 0
    var phase = Phase.open
    /// When the connection began, or its last open stream ended.
    private(set) var idleStart = UInt64.max
    /// When the incomplete header block began; 0 if there is none.
    private(set) var headStart: UInt64 = 0
    /// Unacknowledged bytes at the last linger deadline.
    var lingeringBytes = Int.max
    /// Bytes that a client has to acknowledge in each linger time, so that the connection is kept.
    static let lingerProgress = 1_024

    var registryIndex = -1
    var deadlines = HTTP2Deadlines()
    var deadline: UInt64 { deadlines.next }
    var isDownstream: Bool { true }
    var connectionState: ClientConnectionState {
        deadlines.hasIncompleteFrame || streams.contains { $0 != nil } ? .active : .idle
    }
    var usesTLS: Bool { client.isTLS }

    enum Phase: Comparable {
        case open
        /// A GOAWAY was sent or received; requests in flight are still accepted (RFC 9113 §6.8).
        case goAwaySent
        /// No more requests are accepted.
        case draining
        /// All data is sent; input is discarded, so the client can read the data before the connection is closed
        /// instead of being reset.
        case lingering
        case closed
    }

    init(_ client: DownstreamConnectionInfo) {
        self.client = client
        context = client.context
        channel = client.channel
        connection = HTTP2Connection(
            HTTP2ConnectionConfiguration(
                headLimits: context.snapshot.headLimits,
                concurrentStreams: context.snapshot.config.configuration.limits.streamsPerConnection),
            now: context.now)
    }

    /// Stream objects that are kept for reuse until the connection is quiet.
    private static let recycledLimit = 32

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        peer = client.makePeer()
        // The header timeout applies until the client's SETTINGS are received.
        idleStart = context.updateTime()
        deadlines.idle = idleStart &+ context.snapshot.timeouts.header
        context.add(self)
        flushLater()
        if context.isDraining { drain() }
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        context.updateTime()
        guard phase < .lingering else { return }
        var bytes = unwrapInboundIn(data)
        if streams.isEmpty { client.begin(with: bytes) }
        let isContinued = input.readableBytes > 0
        if isContinued { input.writeBuffer(&bytes) } else { input = bytes }
        // What a read delivers after it was paused waits.
        if !isPaused { readFrames() }
        keepRest(isOwn: isContinued)
    }

    private func readFrames() {
        let before = input.readableBytes
        while phase < .lingering {
            let event = connection.next(&input, head: &context.requestHead, now: context.now)
            if case .needsInput = event { break }
            handle(event, now: context.now)
        }
        guard phase < .lingering else {
            input = ByteBuffer()
            return
        }
        watchFrames(isFrameComplete: input.readableBytes < before)
        if !channel.isWritable { setPaused(true) }
        if connection.output.readableBytes > 0 { flushLater() }
    }

    /// Sets the deadlines of an incomplete frame and of an incomplete header block.
    private func watchFrames(isFrameComplete: Bool) {
        // Type HEADERS (RFC 9113 §6.2) at offset 3 of a frame (§4.1). Part of another frame does not end an idle time.
        let isHead =
            connection.isReceivingHeaderBlock || input.getInteger(at: input.readerIndex + 3, as: UInt8.self) == 1
        if !isHead { headStart = 0 } else if headStart == 0 { headStart = context.now }
        deadlines.received(
            isFramePartial: input.readableBytes > 0, isFrameComplete: isFrameComplete,
            isInHeaderBlock: connection.isReceivingHeaderBlock, expiry: context.now &+ context.snapshot.timeouts.header)
    }

    /// Keeps an incomplete frame in a buffer of its own: that of the read is used again for the next one.
    private func keepRest(isOwn: Bool) {
        guard input.readableBytes > 0 else {
            input = ByteBuffer()
            return
        }
        if isOwn {
            input.releaseReadStorage()
        } else {
            input = ByteBuffer(bytes: input.readableBytesView)
        }
    }

    func channelReadComplete(context handlerContext: ChannelHandlerContext) {
        finishRead()
        handlerContext.fireChannelReadComplete()
    }

    /// A request begins after the read: one that is cancelled in the same read costs nothing more. While output waits,
    /// none begins: no window limits the heads of responses.
    func finishRead() {
        if !touched.isEmpty {
            var streams: [HTTP2Stream] = []
            swap(&streams, &touched)
            var count = 0
            while count < streams.count, hasRoom {
                streams[count].proceed()
                count += 1
            }
            if count < streams.count, phase < .lingering {
                for stream in streams[count...] { stream.waitForOutput(isRestarted: count > 0) }
                touched.insert(contentsOf: streams[count...], at: 0)
            } else {
                streams.removeAll(keepingCapacity: true)
                if touched.isEmpty { swap(&streams, &touched) }
            }
        }
        if connection.isReceiveWindowScarce, touched.isEmpty { forEachStream { $0.proceed() } }
        // Streams have written window updates.
        if connection.output.readableBytes > 0 { flushLater() }
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        if channel.isWritable {
            flushLater()
            setPaused(false)
        }
        handlerContext.fireChannelWritabilityChanged()
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // A reset or an error of TLS, caused by the peer: the connection is unusable.
        context.updateTime()
        ChannelCut.closeBelowTLS(channel)
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        phase = .closed
        context.remove(self)
        if hasBodyWindow { context.returnBodyWindow() }
        hasBodyWindow = false
        closeStreams()
        releaseRecycled()
        handlerContext.fireChannelInactive()
    }

    /// The connection is at its end: open requests are cancelled.
    func closeStreams() {
        let open = streams
        streams = []
        touched = []
        for stream in open { stream?.close() }
    }

    /// Pauses or resumes reading: requests of a client that does not read their responses wait.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        // The client cannot continue a frame that is not read.
        if isPaused { deadlines.suspendFrames() }
        try? channel.syncOptions?.setOption(.autoRead, value: !isPaused)
        guard !isPaused, phase < .lingering else { return }
        readFrames()
        finishRead()
    }

    // MARK: - Events

    private func handle(_ event: HTTP2Event, now: UInt64) {
        switch event {
        case .needsInput: break
        case .request(let slot, let request, let endsStream):
            guard let stream = open(slot, now: now) else { return }
            stream.begin(slot, &context.requestHead, request, endsStream: endsStream)
            touch(stream)
        case .oversizedRequest(let slot, let error, let endsStream):
            guard let stream = open(slot, now: now) else { return }
            stream.begin(slot, tooLarge: error, endsStream: endsStream)
            touch(stream)
        case .malformedRequest:
            context.reject("http2_stream", from: peer?.address ?? "unknown")
        case .data(let slot, let bytes, let endsStream):
            if !hasBodyWindow, connection.needsReceiveWindow, context.takeBodyWindow() {
                hasBodyWindow = true
                connection.growReceiveWindow(to: LoopContext.bodyWindow)
            }
            guard let stream = stream(slot) else { return }
            stream.receive(bytes, endsStream: endsStream)
            touch(stream)
        case .trailers(let slot, let trailers):
            guard let stream = stream(slot) else { return }
            stream.receive(trailers: trailers)
            touch(stream)
        case .closed(let slot, let code):
            if code != nil { context.reject("http2_stream", from: peer?.address ?? "unknown") }
            remove(slot)
        case .sendWindowOpened:
            flushLater()
        case .settingsReceived:
            // The keep-alive timeout applies to the first request. Later SETTINGS do not extend it.
            if requestCount == 0, phase == .open { deadlines.idle = now &+ context.snapshot.timeouts.keepAlive }
        case .shutdownAcknowledged:
            if phase == .goAwaySent { sendFinalGoAway() }
        case .goAwayReceived:
            // The client opens no more streams. The connection is closed when all responses are sent.
            phase = max(phase, .goAwaySent)
            deadlines.announced(now &+ Self.announcementTime)
        case .failed(let code):
            connectionFailed(code)
        }
    }

    private func open(_ slot: Int, now: UInt64) -> HTTP2Stream? {
        guard let peer else { return nil }
        requestCount += 1
        deadlines.requestBegan()
        let stream = recycledStreams.popLast() ?? HTTP2Stream(self, peer: peer)
        while streams.count <= slot { streams.append(nil) }
        streams[slot] = stream
        return stream
    }

    func stream(_ slot: Int) -> HTTP2Stream? { streams.indices.contains(slot) ? streams[slot] : nil }

    /// Continues with the stream after the current read.
    private func touch(_ stream: HTTP2Stream) {
        guard !stream.isTouched else { return }
        stream.isTouched = true
        touched.append(stream)
    }

    // MARK: - Ends of streams

    /// The stream's request and response are complete, or its rest is not needed.
    func finished(_ stream: HTTP2Stream) {
        guard self.stream(stream.slot) === stream else { return }
        streams[stream.slot] = nil
        connection.finish(stream.slot, isForwarded: !stream.isResponseLocal)
        stream.rest()
        if phase != .closed, recycledStreams.count < Self.recycledLimit {
            recycledStreams.append(stream)
        } else {
            stream.release()
        }
        streamEnded()
    }

    /// The stream was closed by the client or for an error.
    private func remove(_ slot: Int) {
        guard let stream = stream(slot) else { return }
        streams[slot] = nil
        stream.close()
        streamEnded()
    }

    func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard self.stream(stream.slot) === stream else { return }
        connection.reset(stream.slot, code)
        remove(stream.slot)
        flushLater()
    }

    /// Rejects a malformed request with a stream error.
    func reject(_ stream: HTTP2Stream) {
        guard self.stream(stream.slot) === stream else { return }
        context.reject("http2_stream", from: peer?.address ?? "unknown")
        connection.rejectRequest(stream.slot, now: context.now)
        remove(stream.slot)
        flushLater()
    }

    private func streamEnded() {
        guard connection.streamCount == 0, phase < .lingering else { return }
        idleStart = context.now
        deadlines.streamsEnded(
            now: idleStart, idle: phase == .open ? context.snapshot.timeouts.keepAlive : Self.announcementTime)
        if phase > .open { flushLater() }
    }

    func forEachStream(_ body: (HTTP2Stream) -> Void) {
        // A stream that ends meanwhile does not change the indices.
        for slot in streams.indices { if let stream = stream(slot) { body(stream) } }
    }

    func releaseRecycled() {
        for stream in recycledStreams { stream.release() }
        recycledStreams = []
    }

    /// The connection is quiet: frees memory that only requests need.
    func compact() {
        guard connection.streamCount == 0 else { return }
        releaseRecycled()
        streams = []
        touched = []
        // The allocator would keep these pages: it returns memory only from the end of its heap.
        if connection.output.readableBytes == 0 { connection.output.returnPages(from: 0) }
        connection.compact()
        client.output?.releaseStorage()
    }
}
