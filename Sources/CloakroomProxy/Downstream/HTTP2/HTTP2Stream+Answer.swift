import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOHTTP2

/// How answers are written in HTTP/2.
extension HTTP2Stream: ExchangeDownstream {
    var isWritable: Bool {
        if outboundBytes < Self.outboundLimit { return true }
        // More waits only for its turn.
        return outboundBytes <= sendWindow && connection?.hasRoom(for: outboundBytes) ?? false
    }

    func setDeadline(_ deadline: UInt64) { self.deadline = deadline }

    func continueBody() {
        guard let exchange, exchange.isActive, exchange.takesBody else { return }
        if held.readableBytes > 0 {
            let bytes = held
            held = ByteBuffer()
            hand(bytes, to: exchange)
        }
        finishBody()
        exchange.flushUpstream()
        connection?.flushLater()
    }

    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions) {
        var fields = HTTP2ResponseFields(status: head.status)
        fields.add(head)
        fields.add(additions)
        hasEnded = framing == .none
        connection?.write(fields.headers, on: id, endsStream: hasEnded)
    }

    func writeSwitch(_ head: borrowing ResponseHead) {
        // What stands for 101 there (RFC 8441 §5).
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
        guard !hasEnded, bytes.readableBytes > 0 else { return }
        outbound.append(bytes)
        outboundBytes += bytes.readableBytes
    }

    func writeEnd(trailers: ByteBuffer?) {
        isAnswered = true
        answerTrailers = trailers
    }

    func writeOwn(_ answer: OwnAnswer) {
        var fields = HTTP2ResponseFields(status: answer.status)
        fields.add(answer)
        let hasBody = !answer.body.isEmpty && exchange?.record.method != .head
        hasEnded = !hasBody
        connection?.write(fields.headers, on: id, endsStream: hasEnded)
        if hasBody { writeBody(ByteBuffer(bytes: answer.body)) }
        isAnswered = true
    }

    func flush() {
        connection?.enqueue(self)
    }

    /// Fields are sent in a form that depends on those before, so they cannot be taken back.
    func takeBack() -> Bool { false }

    func abort() {
        connection?.reset(self, .internalError)
    }

    func exchangeFinished() {
        if hasEnded {
            connection?.flushLater()
            finishIfDone()
        } else {
            deadline = context.now &+ context.generation.timeouts.bodyIdle
        }
    }
}
