import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOHTTP2

/// Writes responses in HTTP/2.
extension HTTP2Stream: ResponseWriter {
    var isWritable: Bool {
        if outboundBytes < Self.outboundLimit { return true }
        // More is writable if all of it could be sent at once.
        return outboundBytes <= sendWindow && connection?.hasSendWindow(for: outboundBytes) ?? false
    }

    func setDeadline(_ deadline: UInt64) { self.deadline = deadline }

    func resumeRequestBody() {
        guard let exchange, exchange.isActive, exchange.acceptsBody else { return }
        if pendingBody.readableBytes > 0 {
            let bytes = pendingBody
            pendingBody = ByteBuffer()
            forward(bytes, to: exchange)
        }
        finishBody()
        exchange.flushUpstream()
        connection?.flushLater()
    }

    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions) {
        var fields = HTTP2ResponseFields(status: head.status)
        fields.add(head)
        fields.add(additions)
        endStreamSent = framing == .none
        connection?.write(fields.headers, on: id, endsStream: endStreamSent)
    }

    func writeUpgradeResponse(_ head: borrowing ResponseHead) {
        // The equivalent of 101 in HTTP/2 (RFC 8441 §5).
        var fields = HTTP2ResponseFields(status: 200)
        fields.add(head, except: "sec-websocket-accept")
        connection?.write(fields.headers, on: id, endsStream: false)
    }

    func writeContinue() {
        connection?.write(HTTP2ResponseFields(status: 100).headers, on: id, endsStream: false)
        flush()
    }

    func writeInformational(_ head: borrowing ResponseHead) {
        guard connection?.channel.isWritable == true else { return }
        var fields = HTTP2ResponseFields(status: head.status)
        fields.add(head)
        connection?.write(fields.headers, on: id, endsStream: false)
    }

    func writeBody(_ bytes: ByteBuffer) {
        guard !endStreamSent, bytes.readableBytes > 0 else { return }
        outbound.append(bytes)
        outboundBytes += bytes.readableBytes
    }

    func writeEnd(trailers: ByteBuffer?) {
        isResponseComplete = true
        responseTrailers = trailers
    }

    func writeLocalResponse(_ response: LocalResponse) {
        var fields = HTTP2ResponseFields(status: response.status)
        fields.add(response)
        let hasBody = !response.body.isEmpty && exchange?.request.method != .head
        endStreamSent = !hasBody
        connection?.write(fields.headers, on: id, endsStream: endStreamSent)
        if hasBody { writeBody(ByteBuffer(bytes: response.body)) }
        isResponseComplete = true
    }

    func flush() {
        connection?.enqueue(self)
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
            deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        }
    }
}
