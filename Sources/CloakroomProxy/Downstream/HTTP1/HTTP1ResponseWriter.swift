import CloakroomCore
import CloakroomWire
import NIOCore

/// Encodes responses in HTTP/1.1, into a buffer that the connection's handler sends.
struct HTTP1ResponseWriter {
    private var outbound = WriteBuffer()
    /// Framing of the current response body.
    private(set) var framing = BodyFraming.none
    /// Whether an upstream's response head is buffered, and none of it sent.
    private var isHeadBuffered = false

    mutating func writeHead(
        _ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions,
        connection: HTTP1ConnectionState.ConnectionField
    ) {
        isHeadBuffered = outbound.isEmpty
        self.framing = framing
        writeStatusAndFields(head)
        if let date = additions.date {
            outbound.bytes.writeStaticString("Date: ")
            outbound.bytes.writeBytes(date)
            outbound.bytes.writeStaticString("\r\n")
        }
        if additions.isPrivate { outbound.bytes.writeStaticString("Cache-Control: private\r\n") }
        if additions.variesByCookie { outbound.bytes.writeStaticString("Vary: Cookie\r\n") }
        if let lines = additions.crossOriginLines { outbound.bytes.writeBytes(lines) }
        if framing == .chunked { outbound.bytes.writeStaticString("Transfer-Encoding: chunked\r\n") }
        writeEndOfHead(connection)
    }

    mutating func writeContinue() {
        outbound.bytes.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n")
    }

    mutating func writeInformational(_ head: borrowing ResponseHead) {
        writeStatusAndFields(head)
        outbound.bytes.writeStaticString("\r\n")
    }

    mutating func writeUpgradeResponse(_ head: borrowing ResponseHead) {
        framing = .none
        writeStatusAndFields(head)
        outbound.bytes.writeStaticString("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    }

    mutating func writeLocalResponse(
        _ response: LocalResponse, isToHead: Bool, connection: HTTP1ConnectionState.ConnectionField
    ) {
        outbound.bytes.writeStaticString("HTTP/1.1 ")
        outbound.bytes.writeString("\(response.status) \(response.title)\r\nDate: ")
        outbound.bytes.writeBytes(response.date)
        outbound.bytes.writeStaticString("\r\n")
        outbound.bytes.writeBytes(response.fieldLines)
        if response.status != 204 { outbound.bytes.writeString("Content-Length: \(response.body.count)\r\n") }
        writeEndOfHead(connection)
        if !isToHead { outbound.bytes.writeBytes(response.body) }
    }

    /// Begins a part of the body; a chunk if the framing requires it.
    mutating func beginPart(_ count: Int) {
        if framing == .chunked { ChunkEncoder.writeChunkStart(count, into: &outbound.bytes) }
    }

    /// Writes the data of a part.
    /// - Returns: `false` if the data is too large to be coalesced, and is to be sent after what is buffered.
    mutating func append(_ bytes: ByteBuffer) -> Bool {
        guard outbound.hasRoom(for: bytes.readableBytes) else { return false }
        outbound.append(bytes)
        return true
    }

    mutating func endPart() {
        if framing == .chunked { ChunkEncoder.writeChunkEnd(into: &outbound.bytes) }
    }

    mutating func writeEnd(trailers: ByteBuffer?) {
        if framing == .chunked { ChunkEncoder.writeLastChunk(trailers: trailers, into: &outbound.bytes) }
    }

    /// Discards the upstream's response.
    /// - Returns: Whether that was possible, because none of it has been sent.
    mutating func discard() -> Bool {
        guard isHeadBuffered else { return false }
        isHeadBuffered = false
        outbound.clear()
        framing = .none
        return true
    }

    /// Removes the buffered data, to send it. See ``WriteBuffer/take()``.
    mutating func take() -> ByteBuffer? {
        isHeadBuffered = false
        return outbound.take()
    }

    /// See ``WriteBuffer/releaseStorage()``.
    mutating func releaseStorage() { outbound.releaseStorage() }

    /// See ``WriteBuffer/reuse(_:)``.
    mutating func reuse(_ taken: inout ByteBuffer) { outbound.reuse(&taken) }

    /// Writes the gateway's HTTP version, and the received status, reason and fields. The space after the status is
    /// required even without a reason (RFC 9112 §4).
    private mutating func writeStatusAndFields(_ head: borrowing ResponseHead) {
        let bytes = head.bytes.readableBytesSpan
        outbound.bytes.writeStaticString("HTTP/1.1 ")
        let statusStart = 9
        let statusEnd = max(head.reason.end, statusStart + 3)
        outbound.bytes.writeBytes(bytes.extracting(statusStart..<statusEnd))
        outbound.bytes.writeStaticString(head.reason.start == statusStart + 3 ? " \r\n" : "\r\n")
        outbound.bytes.writeFields(of: head.fields, bytes, end: bytes.byteCount - 2)
    }

    private mutating func writeEndOfHead(_ connection: HTTP1ConnectionState.ConnectionField) {
        switch connection {
        case .omitted: outbound.bytes.writeStaticString("\r\n")
        case .keepAlive: outbound.bytes.writeStaticString("Connection: keep-alive\r\n\r\n")
        case .close: outbound.bytes.writeStaticString("Connection: close\r\n\r\n")
        }
    }
}
