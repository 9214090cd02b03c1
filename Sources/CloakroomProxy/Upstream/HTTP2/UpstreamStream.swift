import CloakroomCore
import CloakroomWire
import DequeModule
import NIOCore
import NIOHPACK

/// One request and its response on an HTTP/2 connection to an upstream. The counterpart of ``UpstreamConnection`` for an
/// exchange.
///
/// Nothing is written to the connection in the methods that the exchange calls: ``UpstreamHTTP2Connection`` writes what
/// is queued here at the end of the event loop tick.
final class UpstreamStream: UpstreamLease, Equatable {
    let connection: UpstreamHTTP2Connection
    /// Identifier of the stream; 0 until its head is written.
    var id: Int32 = 0
    /// The exchange being served; `nil` once it needs nothing more.
    private(set) var delegate: (any UpstreamDelegate)?
    /// Whether the lease of the exchange has ended.
    private var isReleased = false
    var isProbe = false
    /// Whether the target counts a request as waiting for its response head.
    private(set) var owesHead: Bool
    private var machine: UpstreamStreamStateMachine?

    /// The head that is not written yet.
    var head: HPACKHeaders?
    /// Why the request cannot be sent.
    private(set) var sendingProblem: UpstreamFailure.Kind?
    var outbound = Deque<ByteBuffer>()
    private(set) var outboundBytes = 0
    private(set) var trailers: HPACKHeaders?
    private(set) var isRequestComplete = false
    /// Whether END_STREAM is written.
    var isEndSent = false
    /// Whether the connection's queue contains the stream.
    var isQueued = false
    /// Bytes that the peer accepts on this stream (RFC 9113 §5.2).
    var sendWindow = 0
    /// Bytes that the peer may send on this stream.
    var receiveWindow = 0

    private var isPaused = false
    /// Received bytes that wait until the client has taken those before.
    private var held = Deque<ByteBuffer>()
    /// Number of bytes in ``held``.
    private(set) var heldBytes = 0 {
        didSet { if countsHeld { connection.context.responseBytes += heldBytes - oldValue } }
    }
    /// Whether the loop counts them with those that wait in streams of clients.
    private var countsHeld = false
    private var heldEnd: TrailerSection??
    /// Whether data was delivered since ``readComplete()``.
    var isTouched = false
    /// Bytes that are still accepted of a response that is not needed; `nil` if it is not received to be dropped.
    private var drainLimit: Int?
    /// Called once, when a stream whose response is dropped is closed.
    private var whenDrained: (() -> Void)?
    /// The connection's ``UpstreamHTTP2Connection/reads`` when the head was written.
    var readsAtStart: UInt64 = 0

    /// Bytes of a request body that are queued before the client is paused.
    static let outboundLimit = 16_384
    /// Number of bytes of a response that is not needed after which its stream is reset, if that is permitted.
    static let drainSize = 65_536
    /// Number of held bytes that are delivered before they are flushed.
    private static let resumeSize = 65_536

    init(_ connection: UpstreamHTTP2Connection, owesHead: Bool) {
        self.connection = connection
        self.owesHead = owesHead
        receiveWindow = connection.settings.streamWindow
    }

    static func == (left: UpstreamStream, right: UpstreamStream) -> Bool { left === right }

    var target: TargetRuntime { connection.target }
    var slot: Int { connection.slot }
    var isHTTP2: Bool { true }
    var drainingStream: UpstreamStream? { isDraining ? self : nil }

    // MARK: - Called by the exchange

    var isWritable: Bool { outboundBytes < Self.outboundLimit }

    func begin(_ request: UpstreamRequest, for delegate: any UpstreamDelegate, writeHead: (inout ByteBuffer) -> Void) {
        self.delegate = delegate
        countsHeld = request.isClientHTTP2
        machine = UpstreamStreamStateMachine(request, limits: connection.settings.headLimits)
        var bytes = ByteBuffer()
        writeHead(&bytes)
        do throws(HTTP2RequestHead.Problem) {
            head = try connection.requestHead.convert(&bytes)
        } catch {
            // Reported later: the exchange has not finished this call.
            sendingProblem = error == .tooLarge ? .requestHeadTooLarge : .invalidRequest
        }
        connection.enqueue(self)
    }

    /// Queues part of the request body.
    func writeBody(_ bytes: ByteBuffer, isChunked: Bool) {
        guard !isRequestComplete, delegate != nil, bytes.readableBytes > 0 else { return }
        outbound.appendPart(bytes)
        outboundBytes += bytes.readableBytes
        if outboundBytes > sendWindow { outbound.compactLast() }
        connection.enqueue(self)
    }

    /// Queues the trailer section.
    func writeLastChunk(trailers lines: ByteBuffer?) {
        guard let lines, lines.readableBytes > 0 else { return }
        do throws(HTTP2RequestHead.Problem) {
            trailers = try connection.requestHead.convert(trailers: lines)
        } catch {
            sendingProblem = error == .tooLarge ? .requestHeadTooLarge : .invalidRequest
        }
    }

    func finishRequest() {
        guard !isRequestComplete, delegate != nil else { return }
        isRequestComplete = true
        connection.enqueue(self)
    }

    func flush() { connection.flushLater() }
    func closeWriteSide() { finishRequest() }
    func finishTunnel() { cancel() }
    func discardResponse() { cancel() }

    /// Pauses or resumes the delivery of the response. The peer is limited by the stream's window.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        if !isPaused, !held.isEmpty || heldEnd != nil { connection.resumeLater(self) }
    }

    func cancel() {
        guard takeDelegate() != nil else { return }
        connection.cancel(self)
    }

    func release() {
        _ = takeDelegate()
        connection.cancel(self)
    }

    /// The lease that it holds of a pool, if an exchange waits for its client.
    func paceOfSlowClient(now: UInt64) -> PressureRule.Lease? { delegate?.clientPace(now: now) }

    func endForOthers() { delegate?.endForOthers() }

    /// Ends the lease.
    private func takeDelegate() -> (any UpstreamDelegate)? {
        if !isReleased {
            isReleased = true
            connection.leaseEnded(self)
        }
        defer { delegate = nil }
        return delegate
    }

    // MARK: - Sending

    /// Whether something can be written apart from the windows.
    var hasOutput: Bool {
        guard !isEndSent, sendingProblem == nil else { return false }
        return head != nil || outboundBytes > 0 || isRequestComplete
    }

    /// Whether the head is the whole request.
    var isHeadOnly: Bool { isRequestComplete && outboundBytes == 0 && trailers == nil }

    /// Removes at most this many bytes of the queued body.
    func takeBody(upTo limit: Int) -> ByteBuffer? {
        guard var piece = outbound.popFirst() else { return nil }
        if piece.readableBytes > limit, let front = piece.readSlice(length: limit) {
            outbound.prepend(piece)
            piece = front
        }
        outboundBytes -= piece.readableBytes
        sendWindow -= piece.readableBytes
        return piece
    }

    /// The body that was queued has been written: the exchange may continue.
    func becameWritable() { delegate?.upstreamWritable() }

    // MARK: - Receiving

    func receive(headers list: HPACKHeaders, endsStream: Bool, head: inout ResponseHead) {
        guard delegate != nil, let action = machine?.headersReceived(list, endsStream: endsStream, into: &head) else {
            return
        }
        if let removed = machine?.takeRemovedFields() { connection.count(removed) }
        switch action {
        case .informational:
            delegate?.upstreamInformational(head)
        case .head(let summary, let framing, let isEnd):
            isTouched = true
            delegate?.upstreamHead(head, summary: summary, framing: framing)
            if isEnd { deliverEnd(nil) }
        case .end(let trailers):
            deliverEnd(trailers)
        case .fail:
            fail(.invalidResponse, resetting: .protocolError)
        case .ignore:
            break
        }
    }

    /// Receives a DATA frame.
    func receive(_ bytes: ByteBuffer, endsStream: Bool) {
        if let limit = drainLimit {
            drainLimit = limit - bytes.readableBytes
            return limit < bytes.readableBytes ? connection.reset(self, .cancel) : ()
        }
        guard delegate != nil, let action = machine?.dataReceived(bytes.readableBytes, endsStream: endsStream) else {
            return
        }
        switch action {
        case .deliver:
            deliver(bytes)
        case .deliverAndEnd:
            deliver(bytes)
            deliverEnd(nil)
        case .fail:
            fail(.invalidResponse, resetting: .protocolError)
        case .ignore:
            break
        }
    }

    private func deliver(_ bytes: ByteBuffer) {
        guard bytes.readableBytes > 0 else { return }
        if isPaused || !held.isEmpty {
            // A copy: a slice would keep the whole buffer of the read.
            held.appendPart(ByteBuffer(buffer: bytes))
            heldBytes += bytes.readableBytes
        } else {
            isTouched = true
            delegate?.upstreamBody(bytes)
        }
    }

    private func deliverEnd(_ trailers: TrailerSection?) {
        guard delegate != nil else { return }
        guard held.isEmpty else {
            heldEnd = .some(trailers)
            return
        }
        let delegate = takeDelegate()
        // The rest of the request is not needed (RFC 9113 §8.1).
        if !isEndSent { connection.abandonRequest(self) }
        delegate?.upstreamEnd(trailers: trailers)
    }

    /// Delivers what was held while the exchange was paused, until it is paused again.
    func resume() {
        while !isPaused, delegate != nil {
            var left = Self.resumeSize
            while !isPaused, left > 0, let part = held.popFirst() {
                left -= part.readableBytes
                heldBytes -= part.readableBytes
                delegate?.upstreamBody(part)
            }
            if held.isEmpty, let end = heldEnd {
                heldEnd = nil
                return deliverEnd(end)
            }
            delegate?.upstreamReadComplete()
            if held.isEmpty { return }
        }
    }

    /// All frames of one read were delivered.
    func readComplete() {
        guard isTouched else { return }
        isTouched = false
        if owesHead, delegate != nil {
            owesHead = false
            target.state.noLongerOwesHead()
        }
        delegate?.upstreamReadComplete()
    }

    /// The number of bytes to add to the stream's window: the client has taken at least half of it. 0 for none yet.
    var credit: Int {
        guard machine?.isEnded == false, heldEnd == nil else { return 0 }
        let window = connection.settings.streamWindow
        let credit = window - heldBytes - receiveWindow
        return credit >= window / 2 ? credit : 0
    }

    // MARK: - Ends

    /// Whether the response head was received.
    var hasHead: Bool { machine?.hasHead == true }
    /// Whether a response is still expected.
    var isServing: Bool { delegate != nil }
    /// Whether all of the response has been received, possibly not delivered.
    var isResponseReceived: Bool { machine?.isEnded == true }

    /// Whether the stream is in use although its exchange needs nothing more, because a reset is not permitted yet.
    var isDraining: Bool { drainLimit != nil }

    /// The response is received and dropped.
    func drain() {
        drainLimit = Self.drainSize
        discard()
    }

    /// Calls a closure when the stream, which is draining, is closed.
    func afterDraining(_ whenDrained: @escaping () -> Void) { self.whenDrained = whenDrained }

    func closed() {
        drainLimit = nil
        whenDrained.take()?()
    }

    /// The request failed.
    /// - Parameter reset: Why the stream is reset; `nil` if it is closed or will be. The reset is decided on before the
    ///   exchange ends, because the request counts for its client while the stream is draining.
    func fail(_ kind: UpstreamFailure.Kind, isStale: Bool = false, resetting reset: HTTP2StreamReset? = nil) {
        let delegate = takeDelegate()
        discard()
        if let reset { connection.reset(self, reset) }
        delegate?.upstreamFailed(UpstreamFailure(kind), isStale: isStale)
    }

    /// Releases what is queued in both directions.
    func discard() {
        head = nil
        outbound.removeAll()
        outboundBytes = 0
        trailers = nil
        held.removeAll()
        heldBytes = 0
        heldEnd = nil
        machine?.end()
    }
}

/// Why a stream is reset by the gateway.
enum HTTP2StreamReset {
    case cancel
    case protocolError
}
