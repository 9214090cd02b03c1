import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import DequeModule
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One stream of a client's HTTP/2 connection: a request and its response (RFC 9113 §8.1).
///
/// Request data that the upstream cannot accept yet is buffered here, bounded by the stream's receive window. Response
/// data that the client cannot accept yet is buffered here too, and the upstream is paused meanwhile. Other streams are
/// not blocked.
final class HTTP2Stream: LoopRegistered, HTTP2ScheduledStream {
    /// State of the request body.
    private enum RequestBodyState: Equatable {
        case open
        /// All of the body was received, but not all was passed on.
        case ended
        /// The end was reported to the exchange.
        case done
    }

    private(set) var id = HTTP2StreamID.rootStream
    let context: LoopContext
    /// `nil` after the connection was closed.
    weak var connection: HTTP2DownstreamHandler?
    private(set) var exchange: Exchange?
    /// Remaining send window; negative after the client has reduced it (RFC 9113 §6.9.2).
    var sendWindow = 0

    private var inbound = RequestBodyState.open
    /// Body that the exchange could not accept yet.
    var pendingBody = ByteBuffer()
    private var trailers: TrailerSection?
    /// Remaining bytes of the body, if its length is known.
    private var remainingLength: Int?
    /// Bytes passed on since the last WINDOW_UPDATE.
    private var unacknowledgedBytes = 0

    var outbound = Deque<ByteBuffer>()
    var outboundBytes = 0
    /// Whether the response is complete, except for the data in ``outbound``.
    var isResponseComplete = false
    var responseTrailers: ByteBuffer?
    /// Whether the stream's last frame has been written.
    var endStreamSent = false
    private(set) var isClosed = false
    var scheduling = HTTP2StreamScheduling()

    var registryIndex = -1
    var deadline = UInt64.max
    /// The connection is registered on behalf of its streams.
    var isDownstream: Bool { false }

    init(_ connection: HTTP2DownstreamHandler, peer: Peer) {
        self.connection = connection
        context = connection.context
        exchange = Exchange(context: context, peer: peer, downstream: self)
        exchange?.protocolVersion = .http2
    }

    /// Bytes of a response that are buffered for the client's window before the upstream is paused.
    static let outboundLimit = 16_384

    /// Whether there is anything to send.
    var hasOutput: Bool { !endStreamSent && !isClosed && (outboundBytes > 0 || isResponseComplete) }
    /// Whether body data is to be sent.
    var hasBody: Bool { outboundBytes > 0 }
    /// Whether sending is blocked by the stream's window.
    var isBlocked: Bool { outboundBytes > 0 && sendWindow <= 0 }

    // MARK: - The request

    /// Begins a request. The stream object may have served another one before.
    func begin(_ id: HTTP2StreamID, _ headers: HPACKHeaders, endsStream: Bool, sendWindow: Int) {
        guard let exchange, let connection else { return }
        self.id = id
        self.sendWindow = sendWindow
        inbound = endsStream ? .done : .open
        isResponseComplete = false
        endStreamSent = false
        isClosed = false
        unacknowledgedBytes = 0
        remainingLength = nil
        trailers = nil
        responseTrailers = nil
        deadline = .max
        context.add(self)
        exchange.head.bytes = ByteBufferAllocator().buffer(capacity: 1_024)
        var writer = HTTP2RequestHead(limits: context.snapshot.headLimits)
        do throws(HTTP2HeadError) {
            try writer.write(headers, into: &exchange.head)
            let framing = try self.framing(of: exchange.head, isTunnel: writer.tunnelProtocol != nil)
            // For a request without body the end is implied; the end of a tunnel's input has to be passed on.
            if endsStream, writer.tunnelProtocol != nil { inbound = .ended }
            exchange.begin(framing, upgrade: RequestedUpgrade(connect: writer.tunnelProtocol), now: context.now)
        } catch .tooLarge(let error) {
            exchange.reject(error, now: context.now)
        } catch {
            exchange.resetHead()
            connection.reject(self, .protocolError)
        }
    }

    private func framing(of head: borrowing RequestHead, isTunnel: Bool) throws(HTTP2HeadError) -> BodyFraming {
        let framing: BodyFraming
        do throws(WireError) { framing = try BodyFraming.of(head) } catch { throw HTTP2HeadError.malformed }
        switch framing {
        case .length(let length):
            guard inbound == .open, !isTunnel else { throw .malformed }
            remainingLength = length
            return framing
        case .none where inbound == .open && !isTunnel:
            guard !head.fields.contains(where: { $0.name == .contentLength }) else {
                remainingLength = 0
                return .none
            }
            return .chunked
        case .none, .chunked, .untilClose:
            return .none
        }
    }

    /// Receives part of the body.
    func receive(_ bytes: ByteBuffer, padding: Int, endsStream: Bool) {
        guard !isClosed, inbound == .open else { return }
        unacknowledgedBytes += padding
        if let remainingLength {
            guard bytes.readableBytes <= remainingLength, !endsStream || bytes.readableBytes == remainingLength else {
                connection?.reject(self, .protocolError)
                return
            }
            self.remainingLength = remainingLength - bytes.readableBytes
        }
        if endsStream { inbound = .ended }
        guard let exchange, exchange.isActive else {
            // The body is no longer needed.
            if endsStream { inbound = .done }
            return
        }
        if pendingBody.readableBytes == 0, exchange.acceptsBody {
            forward(bytes, to: exchange)
        } else if bytes.readableBytes > 0 {
            pendingBody.writeImmutableBuffer(bytes)
        }
        finishBody()
    }

    /// Receives the trailer section, which ends the request.
    func receiveTrailers(_ headers: HPACKHeaders) {
        guard !isClosed, inbound == .open, remainingLength ?? 0 == 0 else {
            connection?.reject(self, .protocolError)
            return
        }
        do throws(HTTP2HeadError) {
            trailers = try HTTP2RequestHead(limits: context.snapshot.headLimits).trailers(headers)
        } catch {
            connection?.reject(self, .protocolError)
            return
        }
        inbound = .ended
        finishBody()
    }

    func forward(_ bytes: ByteBuffer, to exchange: Exchange) {
        guard bytes.readableBytes > 0 else { return }
        exchange.requestBody(bytes)
        connection?.touch(self)
        unacknowledgedBytes += bytes.readableBytes
        sendWindowUpdate()
    }

    private func sendWindowUpdate() {
        guard inbound == .open, unacknowledgedBytes >= HTTP2DownstreamHandler.streamWindow / 2, !isClosed else {
            return
        }
        connection?.sendWindowUpdate(unacknowledgedBytes, to: id)
        unacknowledgedBytes = 0
    }

    func finishBody() {
        guard inbound == .ended, pendingBody.readableBytes == 0, let exchange else { return }
        guard exchange.isActive else {
            inbound = .done
            return
        }
        // The end of the body must wait until the body may be passed on.
        guard exchange.acceptsBody else { return }
        inbound = .done
        exchange.requestEnd(trailers: trailers)
    }

    func flushUpstream() {
        exchange?.flushUpstream()
    }

    // MARK: - Sending

    /// Sends as much as the windows allow.
    /// - Parameter limit: Maximum number of bytes.
    /// - Returns: Number of body bytes sent.
    func send(upTo limit: Int) -> Int {
        guard let connection, !isClosed, !endStreamSent else { return 0 }
        var sent = 0
        while let first = outbound.first {
            let room = min(limit - sent, sendWindow)
            guard room > 0 else { break }
            var piece = first
            if piece.readableBytes > room {
                guard var rest = outbound.popFirst(), let front = rest.readSlice(length: room) else { break }
                piece = front
                outbound.prepend(rest)
            } else {
                _ = outbound.popFirst()
            }
            let count = piece.readableBytes
            sent += count
            sendWindow -= count
            outboundBytes -= count
            let isLast = isResponseComplete && outbound.isEmpty && responseTrailers == nil
            connection.write(data: piece, on: id, endsStream: isLast)
            if isLast { endStreamSent = true }
        }
        if isResponseComplete, outbound.isEmpty, !endStreamSent {
            endStreamSent = true
            if let responseTrailers {
                connection.write(trailers: responseTrailers, on: id)
            } else {
                connection.write(data: ByteBuffer(), on: id, endsStream: true)
            }
        }
        guard sent > 0 || endStreamSent else { return sent }
        if let exchange, exchange.isActive {
            if isWritable { exchange.downstreamWritabilityChanged(isWritable: true) }
            // The client reads, if slowly: restart the idle timeout.
            if sent > 0, !exchange.isLongLived {
                deadline = context.now &+ context.snapshot.timeouts.bodyIdle
            }
        } else if !endStreamSent {
            deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        }
        finishIfDone()
        return sent
    }

    /// Ends the stream if the response is sent and the exchange has ended.
    func finishIfDone() {
        guard endStreamSent, let exchange, !exchange.isActive, !isClosed else { return }
        let isCutShort = inbound == .open
        connection?.finished(self)
        // The remaining request body is not needed (RFC 9113 §8.1).
        if isCutShort { connection?.resetOnceSent(id) }
    }

    /// The stream was closed by either side.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        deadline = .max
        context.remove(self)
        outbound.removeAll()
        outboundBytes = 0
        pendingBody = ByteBuffer()
        exchange?.downstreamClosed()
        exchange = nil
    }

    /// Prepares the object for reuse by another request.
    func rest() {
        isClosed = true
        deadline = .max
        context.remove(self)
        pendingBody = ByteBuffer()
    }

    /// Releases the exchange, which retains the stream.
    func release() {
        exchange?.downstreamClosed()
        exchange = nil
    }

    // MARK: - Deadlines

    func deadlineExpired(now: UInt64) {
        deadline = .max
        if let exchange, exchange.isActive {
            exchange.deadlineExpired(now: now)
        } else {
            // The response is complete, but the client does not read it.
            connection?.reset(self, .cancel)
        }
    }

    var usesTLS: Bool { exchange?.peer.scheme == .https }

    func configurationReplaced() { exchange?.configurationReplaced() }

    func drain() {
        exchange?.drain()
    }

    func closeNow() {}
}
