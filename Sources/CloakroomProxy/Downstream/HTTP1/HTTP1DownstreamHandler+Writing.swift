import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// How answers are written in HTTP/1.1.
extension HTTP1DownstreamHandler: ResponseWriter {
    var isWritable: Bool { channel.isWritable }

    func setDeadline(_ deadline: UInt64) {
        self.deadline = deadline
    }

    func resumeRequestBody() {
        read()
    }

    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions) {
        let bytes = head.bytes.readableBytesSpan
        isResponseHeadBuffered = outbound.readableBytes == 0
        outgoingFraming = framing
        if framing == .untilClose || framing == .chunked {
            if exchange?.protocolVersion == .http1_0 {
                outgoingFraming = .untilClose
                keepsAlive = false
            } else {
                outgoingFraming = .chunked
            }
        }
        // An answer before the request is through leaves the rest of it unread.
        if reading == .body { keepsAlive = false }
        writeStatusLine(head, bytes)
        outbound.writeFields(of: head.fields, bytes, end: bytes.byteCount - 2)
        if let date = additions.date {
            outbound.writeStaticString("Date: ")
            outbound.writeBytes(date)
            outbound.writeStaticString("\r\n")
        }
        if additions.isPrivate { outbound.writeStaticString("Cache-Control: private\r\n") }
        if additions.variesByCookie { outbound.writeStaticString("Vary: Cookie\r\n") }
        if let lines = additions.crossOriginLines { outbound.writeBytes(lines) }
        if outgoingFraming == .chunked { outbound.writeStaticString("Transfer-Encoding: chunked\r\n") }
        writeConnectionField()
        outbound.writeStaticString("\r\n")
    }

    func writeContinue() {
        outbound.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n")
        flush()
    }

    func writeInformational(_ head: borrowing ResponseHead) {
        let bytes = head.bytes.readableBytesSpan
        writeStatusLine(head, bytes)
        outbound.writeFields(of: head.fields, bytes, end: bytes.byteCount - 2)
        outbound.writeStaticString("\r\n")
    }

    func writeBody(_ bytes: ByteBuffer) {
        let isChunked = outgoingFraming == .chunked
        if isChunked { ChunkEncoder.writeChunkStart(bytes.readableBytes, into: &outbound) }
        if outbound.readableBytes + bytes.readableBytes <= Self.coalesceLimit {
            outbound.writeImmutableBuffer(bytes)
        } else {
            writeOut()
            handlerContext?.write(wrapOutboundOut(bytes), promise: nil)
        }
        if isChunked { ChunkEncoder.writeChunkEnd(into: &outbound) }
    }

    func writeEnd(trailers: ByteBuffer?) {
        if reading == .tunnel { return closeTunnelOutput() }
        if outgoingFraming == .chunked { ChunkEncoder.writeLastChunk(trailers: trailers, into: &outbound) }
    }

    func writeUpgradeResponse(_ head: borrowing ResponseHead) {
        let bytes = head.bytes.readableBytesSpan
        outgoingFraming = .none
        keepsAlive = false
        reading = .tunnel
        try? channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        writeStatusLine(head, bytes)
        outbound.writeFields(of: head.fields, bytes, end: bytes.byteCount - 2)
        outbound.writeStaticString("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    }

    func writeLocalResponse(_ response: LocalResponse) {
        // Behind what is malformed, did not come whole or wants a tunnel, nothing can be trusted.
        let isLast =
            switch response.status {
            case 400, 408, 501: true
            default: reading == .body && !canDrainBody
            }
        if isLast { keepsAlive = false }
        outbound.writeStaticString("HTTP/1.1 ")
        outbound.writeString("\(response.status) \(response.title)\r\nDate: ")
        outbound.writeBytes(response.date)
        outbound.writeStaticString("\r\n")
        outbound.writeBytes(response.fieldLines)
        if response.status != 204 { outbound.writeString("Content-Length: \(response.body.count)\r\n") }
        writeConnectionField()
        outbound.writeStaticString("\r\n")
        if exchange?.record.method != .head { outbound.writeBytes(response.body) }
    }

    func flush() {
        guard let handlerContext else { return }
        isResponseHeadBuffered = false
        guard outbound.readableBytes > 0 else { return handlerContext.flush() }
        // Sending may call back in here, so what is being sent must be gone from the buffer by then.
        var bytes = ByteBuffer()
        swap(&bytes, &outbound)
        handlerContext.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        guard outbound.readableBytes == 0 else { return }
        bytes.clear()
        outbound = bytes
    }

    func discardUnsentResponse() -> Bool {
        guard isResponseHeadBuffered else { return false }
        isResponseHeadBuffered = false
        outbound.clear()
        outgoingFraming = .none
        return true
    }

    func abort() {
        close(isCut: true)
    }

    func exchangeCompleted() {
        guard reading != .closed else { return }
        guard keepsAlive, !context.isDraining else { return linger() }
        drainedBytes = 0
        if reading == .body {
            // The rest of the request is read and dropped.
            deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        } else {
            waitForRequest()
        }
        if !isReading, inbound.readableBytes > 0 { read() }
    }

    /// Whether the rest of a refused request's body is so short that reading it is cheaper than a new connection.
    private var canDrainBody: Bool {
        guard let exchange, exchange.summary.expectation == .none else { return false }
        if case .length(let length) = exchange.framing { return length <= Self.discardLimit }
        return false
    }

    private func writeOut() {
        isResponseHeadBuffered = false
        guard outbound.readableBytes > 0 else { return }
        handlerContext?.write(wrapOutboundOut(outbound), promise: nil)
        outbound.clear()
    }

    /// Ours as to the version; the rest as it came, but for the space that stands even before no reason (RFC 9112 §4).
    private func writeStatusLine(_ head: borrowing ResponseHead, _ bytes: RawSpan) {
        outbound.writeStaticString("HTTP/1.1 ")
        let statusStart = 9
        let statusEnd = max(head.reason.end, statusStart + 3)
        outbound.writeBytes(bytes.extracting(statusStart..<statusEnd))
        outbound.writeStaticString(head.reason.start == statusStart + 3 ? " \r\n" : "\r\n")
    }

    /// `Connection`, where it says something that the version does not (RFC 9112 §9.3).
    private func writeConnectionField() {
        if !keepsAlive {
            outbound.writeStaticString("Connection: close\r\n")
        } else if needsKeepAliveField {
            outbound.writeStaticString("Connection: keep-alive\r\n")
        }
    }
}
