import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import DequeModule
import NIOCore
import NIOHPACK
import NIOHTTP2

/// The pool's side of an HTTP/2 connection. Called on the event loop of the connection.
protocol UpstreamHTTP2Owner: AnyObject {
    /// The peer's SETTINGS were received: the connection can be used.
    func http2Settled(_ connection: UpstreamHTTP2Connection)
    /// ``UpstreamHTTP2Connection/room`` may have grown or shrunk.
    func http2RoomChanged(_ connection: UpstreamHTTP2Connection)
    /// No more streams can be added; those in use continue. At most once, and not if it was never settled.
    func http2Closing(_ connection: UpstreamHTTP2Connection)
    /// The connection is closed. Exactly once, also if it was never settled.
    /// - Parameter isSettled: Whether ``http2Settled(_:)`` was called.
    func http2Closed(_ connection: UpstreamHTTP2Connection, isSettled: Bool, failure: UpstreamFailure)
    func http2LeaseEnded(_ stream: UpstreamStream)
    /// Whether the target may get a request of those that wait.
    func mayUse(_ target: TargetRuntime) -> Bool
    /// Counts the fields of a response that the upstream must not send.
    func count(_ removed: RemovedResponseFields)
}

/// An HTTP/2 connection to an upstream. It serves several exchanges at a time, each with an ``UpstreamStream``, on the
/// client connections' event loop.
///
/// Folder `Upstream/HTTP2/`: requests to and responses from upstreams in HTTP/2 (RFC 9113). NIOHTTP2 encodes and decodes
/// the frames; this handler takes those of all streams, without a channel per stream.
///
/// Frames are written only at the end of an event loop tick, in ``flushNow()``. If they were written in a callback of
/// NIOHTTP2, a HEADERS frame might wait in its buffer while the DATA frame after it fails because the stream does not
/// exist.
final class UpstreamHTTP2Connection: ChannelInboundHandler, LoopRegistered, PooledConnection, Equatable {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// What the pool determines.
    struct Settings {
        /// Maximum number of concurrent streams.
        var streams = 100
        /// Receive window of a stream, in bytes.
        var streamWindow = 131_072
        var headLimits = HeadLimits()
        /// Maximum time without a stream, in nanoseconds.
        var idleTimeout: UInt64 = 60_000_000_000
        /// Time until which the connection has to be settled.
        var settleDeadline: UInt64
        /// `:scheme` of the requests.
        var scheme = "http"
        /// Name of the field with the API token, in lower case; empty without one.
        var apiTokenName = ""
        /// Name of the field with a session's token, in lower case.
        var bearerName = ""
    }

    let target: TargetRuntime
    /// Number of the target; see ``TargetState/slot``.
    let slot: Int
    let poolID: PooledConnectionID
    let settings: Settings
    var registryIndex = -1
    /// How long the pool may use it.
    var lifetime = ConnectionLifetime()
    /// For heads of requests, with the peer's limits.
    var requestHead: HTTP2RequestHead
    /// Number of reads: whether anything was received since a request was sent.
    private(set) var reads: UInt64 = 0
    /// `nil` in tests of the connection alone.
    var metrics: UpstreamHTTP2Metrics?

    let context: LoopContext
    var machine: UpstreamHTTP2StateMachine
    /// Streams whose head is written and that are not closed, by identifier.
    var table: [Int32: UpstreamStream] = [:]
    /// Streams with output that is not blocked by their own window, in turn.
    var queue = Deque<UpstreamStream>()
    var resets: [(stream: UpstreamStream, reason: HTTP2StreamReset)] = []
    var resumed: [UpstreamStream] = []
    /// Streams that may need credit.
    var consumed: [UpstreamStream] = []
    var touched: [UpstreamStream] = []
    /// What the peer accepts on the connection, in bytes, as NIOHTTP2 last reported it.
    var sendWindow = 65_535
    /// What the peer may send on the connection, in bytes.
    var receiveWindow = 65_535
    /// The peer's initial window of a stream, in bytes.
    var initialSendWindow = 65_535
    var isPingDue = false
    var handlerContext: ChannelHandlerContext?
    /// Released when the connection is closed and its last lease has ended.
    var owner: (any UpstreamHTTP2Owner)?
    var failure = UpstreamFailure(.closedBeforeResponse)
    private(set) var isSettled = false
    /// Whether a response head was received: then a request that is not processed because of GOAWAY is no failure.
    private(set) var isProven = false
    /// The failure of a request that the peer has not begun to process.
    var kindOfUnprocessed: UpstreamFailure.Kind { isProven ? .unprocessed : .refused }
    var hasReportedClosing = false
    var hasReportedEnd = false
    let ownResets = HTTP2ResetMonitor()
    let intake: FrameIntakeHandler
    private var head: ResponseHead? = ResponseHead()
    private var isFlushScheduled = false
    private lazy var flushTask: @Sendable () -> Void = {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        return { bound.value.scheduledFlush() }
    }()

    /// Receive window of the connection, in bytes. It is credited on arrival, so that one slow client does not stop the
    /// others.
    static let window = 1_048_576
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`, in bytes. A larger list would end the connection, so it is well above
    /// ``HeadLimits``.
    static let headerListSize = 131_072
    /// Minimum of the peer's `SETTINGS_MAX_HEADER_LIST_SIZE` that is respected, in bytes. The setting is advisory
    /// (RFC 9113 §6.5.2); a lower one would reject every request as the client's fault.
    private static let leastHeaderListSize = 4_096
    /// Maximum of the peer's `SETTINGS_HEADER_TABLE_SIZE` with which the table is used, in bytes.
    private static let largestHeaderTable = 65_536

    init(
        owner: any UpstreamHTTP2Owner, context: LoopContext, target: TargetRuntime, poolID: PooledConnectionID,
        settings: Settings
    ) {
        self.owner = owner
        self.context = context
        self.target = target
        slot = target.state.slot
        self.poolID = poolID
        self.settings = settings
        intake = FrameIntakeHandler { context.updateTime() }
        requestHead = HTTP2RequestHead(
            scheme: settings.scheme, apiTokenName: settings.apiTokenName, bearerName: settings.bearerName)
        machine = UpstreamHTTP2StateMachine(
            streams: settings.streams, settleDeadline: settings.settleDeadline, idleTimeout: settings.idleTimeout)
    }

    static func == (left: UpstreamHTTP2Connection, right: UpstreamHTTP2Connection) -> Bool { left === right }

    // MARK: - Called by the pool

    /// Number of requests that can be added.
    var room: Int { machine.room }
    /// Number of streams that serve an exchange. Others may be in use until the rest of their response is received.
    private(set) var leases = 0

    /// Adds a stream for one request.
    /// - Parameter isTimed: Whether a response head is expected soon.
    /// - Returns: `nil` if there is no room.
    func lease(isTimed: Bool) -> UpstreamStream? {
        let now = context.now
        guard machine.reserve(now: now) else { return nil }
        leases += 1
        target.state.started(now: now, isTimed: isTimed)
        let stream = UpstreamStream(self, owesHead: isTimed)
        if lifetime.isOver(now: now) { retire() }
        return stream
    }

    func endLease() { leases -= 1 }

    var isTargetUsable: Bool { owner?.mayUse(target) == true }

    /// The peer's address.
    var remoteAddress: SocketAddress? { handlerContext?.remoteAddress }

    var deadline: UInt64 { machine.deadline }
    var isDownstream: Bool { false }

    func deadlineExpired(now: UInt64) {
        if machine.drainDeadline <= now { drainingExpired(now: now) }
        guard machine.deadline <= now else { return }
        switch machine.deadlineExpired(now: now) {
        case .ping:
            isPingDue = true
            // Responses that are only received to be dropped must not occupy streams without end.
            for stream in table.values where !stream.isServing { reset(stream, .cancel) }
            flushLater()
        case .fail: fail(.connectTimeout)
        case .close: closeGracefully()
        case .nothing: break
        }
    }

    func drain() {}

    func closeNow() { handlerContext?.close(promise: nil) }

    func addSlowLeases(of pool: UpstreamPool, now: UInt64, to leases: inout [SlowLease]) {
        guard owner === pool else { return }
        for stream in table.values {
            if let pace = stream.paceOfSlowClient(now: now) { leases.append((stream, pace)) }
        }
    }

    func count(_ removed: RemovedResponseFields) { owner?.count(removed) }

    // MARK: - Channel events

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        context.add(self)
        flushLater()
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
        ended()
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        let now = context.updateTime()
        reads &+= 1
        let frame = unwrapInboundIn(data)
        if case .ping(_, ack: true) = frame.payload { return machine.pingAcknowledged(now: now) }
        machine.frameReceived(now: now)
        let id = Int32(frame.streamID)
        switch frame.payload {
        case .headers(let headers): receive(headers, on: id)
        case .data(let data): receive(data, on: id)
        case .rstStream(let code): receiveReset(code, on: id)
        case .goAway(let last, _, _): receiveGoAway(last: Int32(last))
        case .settings(.settings(let settings)): receive(settings)
        default: break
        }
    }

    func channelReadComplete(context handlerContext: ChannelHandlerContext) {
        for stream in touched { stream.readComplete() }
        touched.removeAll(keepingCapacity: true)
        handlerContext.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context handlerContext: ChannelHandlerContext) {
        if handlerContext.channel.isWritable, !queue.isEmpty { flushLater() }
        handlerContext.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        // Comparing types is cheaper than failed casts; these events occur for each frame.
        if type(of: event) == NIOHTTP2WindowUpdatedEvent.self, let event = event as? NIOHTTP2WindowUpdatedEvent {
            windowUpdated(event)
        } else if type(of: event) == StreamClosedEvent.self, let event = event as? StreamClosedEvent {
            streamClosed(Int32(event.streamID), reason: event.reason)
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // After an error of a stream, NIOHTTP2 has reset it. All others leave the connection in an unknown state.
        let isInvalidFrame = error is FrameIntakeHandler.Problem
        guard isInvalidFrame || !ownResets.takeReset() else { return }
        context.updateTime()
        let isProtocolError = isInvalidFrame || error is any NIOHTTP2Error || error is any NIOHPACKError
        fail(isProtocolError ? .invalidResponse : .closedBeforeResponse)
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        context.updateTime()
        ended()
        handlerContext.fireChannelInactive()
    }

    // MARK: - Frames

    private func receive(_ headers: HTTP2Frame.FramePayload.Headers, on id: Int32) {
        // A nested call, if the delegate causes one, is not possible: reads are not nested.
        guard let stream = table[id], var head = self.head.take() else { return }
        stream.receive(headers: headers.headers, endsStream: headers.endStream, head: &head)
        if stream.hasHead { isProven = true }
        head.reset()
        self.head = head
        touch(stream)
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on id: Int32) {
        guard let stream = table[id], case .byteBuffer(let bytes) = data.data else { return }
        stream.receive(bytes, endsStream: data.endStream)
        touch(stream)
    }

    private func touch(_ stream: UpstreamStream) {
        if stream.isTouched, touched.last != stream { touched.append(stream) }
    }

    private func receiveReset(_ code: HTTP2ErrorCode, on id: Int32) {
        metrics?.countReset(code: UInt32(code.networkCode), by: .target)
        guard let stream = table[id], stream.isServing, !stream.isResponseReceived else { return }
        switch code {
        case .refusedStream: stream.fail(.refused)
        case .cancel, .noError: stream.fail(stream.hasHead ? .closedDuringResponse : .cancelled)
        default: stream.fail(stream.hasHead ? .closedDuringResponse : .closedBeforeResponse)
        }
    }

    private func receiveGoAway(last: Int32) {
        metrics?.countGoAway()
        beginClosing(isGoAway: true)
        // NIOHTTP2 reports them as cancelled after this frame.
        for (id, stream) in table where id > last && stream.isServing && !stream.isResponseReceived {
            stream.fail(kindOfUnprocessed)
        }
    }

    private func receive(_ settings: HTTP2Settings) {
        var streams: Int?
        for setting in settings {
            switch setting.parameter {
            case .maxConcurrentStreams: streams = setting.value
            case .maxFrameSize: requestHead.maxFrame = min(setting.value, 65_536)
            // A peer that permits less than ordinary requests need gets them, and rejects them itself.
            case .maxHeaderListSize: requestHead.maxList = max(setting.value, Self.leastHeaderListSize)
            case .headerTableSize: requestHead.isIndexing = setting.value <= Self.largestHeaderTable
            case .initialWindowSize: changeInitialWindow(to: setting.value)
            default: break
            }
        }
        switch machine.settingsReceived(streams: streams, now: context.now) {
        case .settled:
            isSettled = true
            owner?.http2Settled(self)
        case .checkRoom:
            failUnsent(keeping: machine.openable)
            roomChanged()
        }
    }

    private func streamClosed(_ id: Int32, reason: HTTP2ErrorCode?) {
        guard let stream = table.removeValue(forKey: id) else { return }
        if stream.isServing, !stream.isResponseReceived {
            stream.fail(reason == nil ? .closedDuringResponse : .invalidResponse)
        }
        stream.closed()
        perform(machine.streamClosed(now: context.now))
    }

    /// Performs what follows from the end of a stream.
    func perform(_ action: UpstreamHTTP2StateMachine.StreamEndAction) {
        switch action {
        case .checkRoom: roomChanged()
        case .close: closeGracefully()
        case .nothing: break
        }
    }

    private func roomChanged() {
        if lifetime.isOver(now: context.now) { retire() }
        if !queue.isEmpty { flushLater() }
        owner?.http2RoomChanged(self)
    }

    // MARK: - Flush

    /// Writes what is queued at the end of the event loop tick.
    func flushLater() {
        guard !isFlushScheduled else { return }
        isFlushScheduled = true
        context.eventLoop.execute(flushTask)
    }

    /// The task and the connection hold each other.
    func releaseFlushTask() { flushTask = {} }

    private func scheduledFlush() {
        isFlushScheduled = false
        context.updateTime()
        ownResets.isWriting = true
        flushNow()
        ownResets.isWriting = false
    }
}
