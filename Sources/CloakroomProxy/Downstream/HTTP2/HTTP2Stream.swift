import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire
import DequeModule
import NIOCore

/// One stream of a client's HTTP/2 connection: a request and its response (RFC 9113 §8.1).
///
/// Request data that the upstream cannot accept yet is buffered here, bounded by the receive windows. Response data that
/// the client cannot accept yet is buffered here too, and the upstream is paused meanwhile. Other streams are not
/// blocked. The object serves one request after another.
final class HTTP2Stream {
    enum RequestBodyState: Equatable {
        case open
        /// All of the body was received, but not all was passed on.
        case ended
        /// The end was reported to the exchange.
        case done
    }

    /// What remains to be done with a request head that was received.
    private enum Start {
        case begin(BodyFraming, RequestedUpgrade)
        case reject(WireError)
    }

    private(set) var slot = -1
    let context: LoopContext
    /// `nil` after the connection was closed.
    private(set) var connection: HTTP2DownstreamHandler?
    private(set) var exchange: Exchange?
    private var start: Start?
    /// Storage of a request head that waits for the client to read, counted with the responses that wait: a large head
    /// costs the client a few bytes.
    private var waitingHead = 0
    /// Whether ``proceed()`` follows the current read.
    var isTouched = false

    var inbound = RequestBodyState.open
    /// Body that the exchange could not accept yet.
    var pendingBody = ByteBuffer()
    private var trailers: TrailerSection?
    /// Bytes of the body that the exchange buffers: their window is returned when they are forwarded.
    private var heldBytes = 0
    /// Credit of a client that reads a complete response; `nil` until the response is complete.
    private var drainCredit: DrainCredit?

    var outbound = Deque<ByteBuffer>()
    var outboundBytes = 0
    /// Whether the response is complete, except for the data in ``outbound``.
    var isResponseComplete = false
    /// Whether the gateway itself has made the response.
    var isResponseLocal = false
    var responseTrailers: ByteBuffer?
    /// Whether the stream's last frame has been written.
    var endStreamSent = false
    var isClosed = false
    var deadline = UInt64.max
    /// The latest deadline of the request.
    var deadlineLimit = UInt64.max

    init(_ connection: HTTP2DownstreamHandler, peer: Peer) {
        self.connection = connection
        context = connection.context
        exchange = Exchange(context: context, peer: peer, downstream: self)
        exchange?.protocolVersion = .http2
    }

    /// Bytes of a response that are buffered for the client's window before the upstream is paused.
    static let outboundLimit = 65_536

    // MARK: - The request

    /// A request head was received. The exchange begins in ``proceed()``.
    /// - Parameter head: Exchanged for the storage of an earlier head.
    func begin(_ slot: Int, _ head: inout RequestHead, _ request: RequestBlock, endsStream: Bool) {
        guard let exchange else { return }
        prepare(slot, endsStream: endsStream)
        swap(&exchange.head, &head)
        let upgrade = RequestedUpgrade(connect: request.tunnel)
        guard let framing = framing(of: exchange.head, isTunnel: upgrade != .none) else {
            exchange.resetHead()
            connection?.reject(self)
            return
        }
        // For a request without body the end is implied; the end of a tunnel's input has to be passed on.
        if endsStream, upgrade != .none { inbound = .ended }
        start = .begin(framing, upgrade)
    }

    /// A request head was received that exceeds a limit.
    func begin(_ slot: Int, tooLarge error: WireError, endsStream: Bool) {
        prepare(slot, endsStream: endsStream)
        start = .reject(error)
    }

    private func prepare(_ slot: Int, endsStream: Bool) {
        self.slot = slot
        inbound = endsStream ? .done : .open
        isResponseComplete = false
        isResponseLocal = false
        endStreamSent = false
        isClosed = false
        heldBytes = 0
        if drainCredit != nil { drainCredit = nil }
        trailers = nil
        responseTrailers = nil
        deadline = .max
        deadlineLimit = .max
    }

    /// - Returns: `nil` if the request is malformed.
    private func framing(of head: borrowing RequestHead, isTunnel: Bool) -> BodyFraming? {
        let framing: BodyFraming
        do throws(WireError) { framing = try BodyFraming.of(head) } catch { return nil }
        switch framing {
        case .length(let length):
            guard inbound == .open, !isTunnel else { return nil }
            connection?.connection.expectBody(length, on: slot)
            return framing
        case .none where inbound == .open && !isTunnel:
            guard !head.fields.contains(where: { $0.name == .contentLength }) else {
                connection?.connection.expectBody(0, on: slot)
                return BodyFraming.none
            }
            return .chunked
        case .none, .chunked, .untilClose:
            return BodyFraming.none
        }
    }

    /// Continues after a read: begins the exchange, passes on its body, and flushes the upstream.
    func proceed() {
        isTouched = false
        countWaitingHead(0)
        guard !isClosed, let exchange else { return }
        if let start {
            self.start = nil
            if drainCredit != nil { (drainCredit, deadline) = (nil, .max) }
            switch start {
            case .begin(let framing, let upgrade): exchange.begin(framing, upgrade: upgrade, now: context.now)
            case .reject(let error): exchange.reject(error, now: context.now)
            }
        }
        passOnBody()
        exchange.flushUpstream()
        // Bodies that wait must not use up the receive window that others need.
        if !isClosed, connection?.connection.isReceiveWindowScarce == true { exchange.stopGathering() }
    }

    /// Receives part of the body. Its length was checked.
    func receive(_ bytes: ByteBuffer, endsStream: Bool) {
        guard !isClosed, inbound == .open else { return }
        if endsStream { inbound = .ended }
        if start == nil, pendingBody.readableBytes == 0, let exchange, exchange.isActive, exchange.acceptsBody {
            forward(bytes, to: exchange)
        } else {
            // A copy: a slice would keep the whole buffer of the read.
            pendingBody.writeImmutableBuffer(bytes)
        }
    }

    /// Receives the trailer section, which ends the request.
    func receive(trailers: TrailerSection?) {
        guard !isClosed, inbound == .open else { return }
        self.trailers = trailers
        inbound = .ended
    }

    private func forward(_ bytes: ByteBuffer, to exchange: Exchange) {
        guard bytes.readableBytes > 0 else { return }
        heldBytes += bytes.readableBytes
        exchange.requestBody(bytes)
        if !exchange.holdsBody { returnHeldBody() }
    }

    /// The exchange has forwarded or dropped what it buffered.
    func returnHeldBody() {
        guard heldBytes > 0 else { return }
        connection?.connection.consumed(heldBytes, on: slot)
        heldBytes = 0
    }

    func passOnBody() {
        guard let exchange, !isClosed, inbound != .done, start == nil else { return }
        guard exchange.isActive else {
            // The body is no longer needed.
            returnHeldBody()
            connection?.connection.consumed(pendingBody.readableBytes, on: slot)
            pendingBody = ByteBuffer()
            if inbound == .ended { inbound = .done }
            return
        }
        // The end of the body must wait until the body may be passed on.
        guard exchange.acceptsBody else { return }
        if pendingBody.readableBytes > 0 {
            var bytes = ByteBuffer()
            swap(&bytes, &pendingBody)
            forward(bytes, to: exchange)
        }
        guard inbound == .ended, pendingBody.readableBytes == 0, exchange.acceptsBody else { return }
        inbound = .done
        exchange.requestEnd(trailers: trailers)
    }

    // MARK: - Sending

    /// Sends part of the body. The windows allow it.
    /// - Parameter count: Number of bytes, at most ``outboundBytes``.
    func send(_ count: Int) {
        guard !isClosed, !endStreamSent else { return }
        writeData(count)
        if let exchange, exchange.isActive {
            if isWritable { exchange.downstreamWritabilityChanged(isWritable: true) }
        }
        finishIfDone()
    }

    /// The response is complete, but not sent: the client has to read it.
    /// - Returns: The deadline.
    func waitForClient() -> UInt64 {
        var credit = drainCredit ?? DrainCredit(context.snapshot.creditLimit())
        let deadline = credit.begin(coarse: -unacceptedBytes(isExact: false), now: context.now)
        drainCredit = credit
        return deadline
    }

    /// The request does not begin before the client has read earlier responses.
    /// - Parameter isRestarted: Whether it has read some since the last call.
    func waitForOutput(isRestarted: Bool) {
        guard start != nil else { return }
        countWaitingHead(exchange?.head.bytes.storageCapacity ?? 0)
        guard isRestarted || drainCredit == nil else { return }
        drainCredit = nil
        setDeadline(waitForClient())
    }

    private func countWaitingHead(_ count: Int) {
        if count != waitingHead { connection?.addOutbound(count - waitingHead) }
        waitingHead = count
    }

    /// Writes a DATA frame, and the end of the stream if nothing follows.
    func writeData(_ count: Int) {
        guard let connection else { return }
        let isLast = isResponseComplete && count == outboundBytes && responseTrailers == nil
        connection.connection.beginData(count, on: slot, endsStream: isLast)
        var left = count
        while left > 0, var piece = outbound.popFirst() {
            if piece.readableBytes > left, let front = piece.readSlice(length: left) {
                outbound.prepend(piece)
                piece = front
            }
            left -= piece.readableBytes
            connection.connection.output.writeImmutableBuffer(piece)
        }
        addOutbound(-count)
        endStreamSent = isLast
        if outboundBytes == 0 { sendEnd() }
    }

    /// Ends the response, if all of its body is sent. The end needs no window.
    func sendEnd() {
        guard isResponseComplete, outboundBytes == 0, !endStreamSent, !isClosed, let connection else { return }
        endStreamSent = true
        if let responseTrailers {
            connection.writeTrailers(responseTrailers, on: slot)
        } else {
            connection.connection.beginData(0, on: slot, endsStream: true)
        }
    }

    /// Ends the stream if the response is sent and the exchange has ended.
    func finishIfDone() {
        guard endStreamSent, let exchange, !exchange.isActive, !isClosed else { return }
        connection?.finished(self)
    }

    /// The stream was closed by either side.
    func close() {
        guard !isClosed else { return }
        rest()
        outbound.removeAll()
        addOutbound(-outboundBytes)
        release()
    }

    /// Prepares the object for reuse by another request.
    func rest() {
        isClosed = true
        if let exchange, !exchange.isActive { exchange.responseSent() }
        countWaitingHead(0)
        start = nil
        deadline = .max
        pendingBody = ByteBuffer()
    }

    /// Releases the exchange, which retains the stream.
    func release() {
        exchange?.downstreamClosed()
        exchange = nil
        connection = nil
    }

    // MARK: - Deadlines and drain

    func deadlineExpired(now: UInt64) {
        deadline = .max
        if let exchange, exchange.isActive {
            exchange.deadlineExpired(now: now)
        } else if let next = drainCredit?.expired(exact: -unacceptedBytes(isExact: true), now: now) {
            setDeadline(next)
        } else {
            // The response is complete, but the client does not read it, or too slowly.
            connection?.reset(self, .cancel)
        }
    }

    func configurationReplaced() { exchange?.configurationReplaced() }
    func sessionsChanged(now: UInt64) { exchange?.sessionsChanged(now: now) }

    func drain() { exchange?.drain() }
}
