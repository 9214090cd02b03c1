import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Writes responses in HTTP/1.1.
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
        // A response before the end of the request leaves the remaining body unread.
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
        // After a malformed or incomplete request, or one for an unsupported tunnel, further bytes cannot be
        // interpreted.
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
        if exchange?.request.method != .head { outbound.writeBytes(response.body) }
    }

    func flush() {
        guard let handlerContext else { return }
        isResponseHeadBuffered = false
        guard outbound.readableBytes > 0 else { return handlerContext.flush() }
        // Sending may call back into this method: empty the buffer first.
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
            // The remaining request body is read and discarded.
            deadline = context.now &+ context.snapshot.timeouts.bodyIdle
        } else {
            waitForRequest()
        }
        if !isReading, inbound.readableBytes > 0 { read() }
    }

    /// Whether the remaining body of a rejected request is small enough that reading it costs less than a new
    /// connection.
    private var canDrainBody: Bool {
        guard let exchange, exchange.request.summary.expectation == .none else { return false }
        if case .length(let length) = exchange.request.framing { return length <= Self.discardLimit }
        return false
    }

    private func writeOut() {
        isResponseHeadBuffered = false
        guard outbound.readableBytes > 0 else { return }
        handlerContext?.write(wrapOutboundOut(outbound), promise: nil)
        outbound.clear()
    }

    /// Writes the gateway's HTTP version, and the received status and reason. The space after the status is required
    /// even without a reason (RFC 9112 §4).
    private func writeStatusLine(_ head: borrowing ResponseHead, _ bytes: RawSpan) {
        outbound.writeStaticString("HTTP/1.1 ")
        let statusStart = 9
        let statusEnd = max(head.reason.end, statusStart + 3)
        outbound.writeBytes(bytes.extracting(statusStart..<statusEnd))
        outbound.writeStaticString(head.reason.start == statusStart + 3 ? " \r\n" : "\r\n")
    }

    /// Writes `Connection` if the default of the HTTP version does not apply (RFC 9112 §9.3).
    private func writeConnectionField() {
        if !keepsAlive {
            outbound.writeStaticString("Connection: close\r\n")
        } else if needsKeepAliveField {
            outbound.writeStaticString("Connection: keep-alive\r\n")
        }
    }
}

/// Ends of a tunnel. Each direction ends separately, after the data before it is delivered.
extension HTTP1DownstreamHandler {
    /// Closes the write side after the pending data is sent.
    func closeTunnelOutput() {
        flush()
        handlerContext?.afterFlush { $0.close(mode: .output, promise: nil) }
    }

    /// Both sides of the tunnel have ended: closes the connection after the pending data is sent, or after the linger
    /// time if the client has not closed its side.
    func lingerAfterTunnel(for time: UInt64) {
        flush()
        handlerContext?.afterFlush { [self] handlerContext in
            isAllSent = true
            guard !hasInputEnded, time > 0 else { return closeNow() }
            deadline = context.now &+ time
            handlerContext.close(mode: .output, promise: nil)
        }
    }
}

extension ChannelHandlerContext {
    /// Calls back when everything written so far is sent or has failed.
    ///
    /// A channel flushes pending data before it closes its output only while its input is open. With both sides closed
    /// it discards unsent data.
    func afterFlush(_ next: @escaping (ChannelHandlerContext) -> Void) {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] _ in next(self) }
        writeAndFlush(NIOAny(ByteBuffer()), promise: sent)
    }
}
