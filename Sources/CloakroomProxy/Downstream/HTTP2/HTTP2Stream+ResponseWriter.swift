import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Writes responses in HTTP/2.
extension HTTP2Stream: ResponseWriter {
    var isWritable: Bool {
        // More is writable if all of it could be sent at once.
        outboundBytes < Self.outboundLimit || canSendAll
    }

    /// Whether the client lets everything that waits be sent.
    private var canSendAll: Bool {
        guard let connection, connection.channel.isWritable else { return false }
        return outboundBytes <= min(connection.connection.sendWindow, connection.connection.sendWindow(of: slot))
    }

    func unacceptedBytes(isExact: Bool) -> Int {
        guard isExact, let connection, !connection.channel.isWritable else { return outboundBytes }
        // All streams wait for the connection.
        let waiting = SendQueue.unacknowledged(in: connection.channel) + connection.connection.output.readableBytes
        return outboundBytes + waiting / max(1, connection.connection.streamCount)
    }

    func bufferedBodySent() { returnHeldBody() }
    var isResponseSent: Bool { endStreamSent || isClosed }

    func setDeadline(_ deadline: UInt64) {
        self.deadline = min(deadline, deadlineLimit)
        connection?.deadlines.set(self.deadline)
    }

    func limitDeadlines(to limit: UInt64) {
        deadlineLimit = limit
        setDeadline(deadline)
    }

    func resumeRequestBody() {
        guard let exchange, exchange.isActive, exchange.acceptsBody else { return }
        passOnBody()
        exchange.flushUpstream()
        connection?.flushLater()
    }

    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions) {
        guard !isClosed else { return }
        endStreamSent = framing == .none
        connection?.writeHead(head, status: head.status, additions: additions, on: slot, endsStream: endStreamSent)
    }

    func writeUpgradeResponse(_ head: borrowing ResponseHead, fieldLines: [UInt8]) {
        // The equivalent of 101 in HTTP/2 (RFC 8441 §5).
        guard !isClosed else { return }
        connection?.writeHead(
            head, status: 200, except: "sec-websocket-accept", additions: ResponseAdditions(fieldLines: fieldLines),
            on: slot, endsStream: false)
    }

    func writeContinue() {
        guard !isClosed else { return }
        connection?.writeInterimHead(status: 100, on: slot)
    }

    func writeInformational(_ head: borrowing ResponseHead) {
        guard !isClosed, let connection, connection.channel.isWritable else { return }
        connection.writeHead(head, status: head.status, on: slot, endsStream: false)
    }

    func writeBody(_ bytes: ByteBuffer) {
        guard !endStreamSent, bytes.readableBytes > 0 else { return }
        outbound.appendPart(bytes)
        addOutbound(bytes.readableBytes)
    }

    func writeEnd(trailers: ByteBuffer?) {
        isResponseComplete = true
        // A section without a field would be a frame without content.
        responseTrailers = trailers.flatMap { $0.readableBytes > 0 ? $0 : nil }
    }

    func writeLocalResponse(_ response: LocalResponse) {
        guard !isClosed else { return }
        isResponseLocal = true
        let hasBody = (response.contentLength ?? 0) > 0 && exchange?.request.isToHead != true
        endStreamSent = !hasBody
        connection?.writeLocalHead(response, on: slot, endsStream: endStreamSent)
        if hasBody { writeBody(ByteBuffer(bytes: response.body)) }
        isResponseComplete = !hasBody || response.followingLength == 0
    }

    func flush() {
        guard !isClosed, let connection else { return }
        connection.flushLater()
        guard !endStreamSent else { return }
        if outboundBytes == 0 {
            sendEnd()
        } else if isResponseComplete, connection.canSendNow(outboundBytes, on: slot) {
            writeData(outboundBytes)
        } else {
            connection.connection.setPending(outboundBytes, on: slot)
            outbound.compactLast()
            if context.isResponseMemoryExceeded, connection.exceedsResponseShare, !canSendAll {
                connection.reset(self, .enhanceYourCalm)
            }
        }
    }

    /// Counts bytes that wait to be sent.
    func addOutbound(_ count: Int) {
        outboundBytes += count
        connection?.addOutbound(count)
    }

    /// HPACK encoding depends on earlier fields, so written fields cannot be discarded.
    func discardUnsentResponse() -> Bool { false }

    func abort() {
        connection?.reset(self, .internalError)
    }

    func exchangeCompleted() {
        if endStreamSent {
            connection?.flushLater()
            finishIfDone()
        } else {
            setDeadline(waitForClient())
        }
    }
}
