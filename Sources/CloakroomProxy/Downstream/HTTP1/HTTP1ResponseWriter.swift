import CloakroomCore
import CloakroomWire
import NIOCore

/// Encodes responses in HTTP/1.1, into a buffer that the connection's handler sends.
struct HTTP1ResponseWriter {
    private var outbound = WriteBuffer()
    private(set) var framing = BodyFraming.none
    /// Whether an upstream's response head is buffered, and none of it sent.
    private var isHeadBuffered = false

    mutating func writeHead(
        _ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions,
        connection: HTTP1ConnectionState.ConnectionField
    ) {
        isHeadBuffered = outbound.isEmpty
        self.framing = framing
        let size = head.bytes.readableBytes + (additions.fieldLines?.count ?? 0) + Self.reserve
        outbound.bytes.writeHead(reserving: size) { writer in
            writer.appendStatusAndFields(of: head)
            if let date = additions.date {
                writer.append("Date: ")
                writer.append(date)
                writer.append("\r\n")
            }
            if additions.isPrivate { writer.append("Cache-Control: private\r\n") }
            if additions.variesByCookie { writer.append("Vary: Cookie\r\n") }
            if let lines = additions.fieldLines { writer.append(lines) }
            if framing == .chunked { writer.append("Transfer-Encoding: chunked\r\n") }
            writer.append(connection)
        }
    }

    /// Space for the fields that the gateway adds to a response.
    private static let reserve = 160

    mutating func writeContinue() {
        outbound.bytes.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n")
    }

    mutating func writeInformational(_ head: borrowing ResponseHead) {
        write(head, [], end: "\r\n")
    }

    mutating func writeUpgradeResponse(_ head: borrowing ResponseHead, fieldLines: [UInt8]) {
        framing = .none
        write(head, fieldLines, end: "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    }

    private mutating func write(_ head: borrowing ResponseHead, _ fieldLines: [UInt8], end: StaticString) {
        let size = head.bytes.readableBytes + fieldLines.count + Self.reserve
        outbound.bytes.writeHead(reserving: size) { writer in
            writer.appendStatusAndFields(of: head)
            writer.append(fieldLines)
            writer.append(end)
        }
    }

    mutating func writeLocalResponse(
        _ response: LocalResponse, isToHead: Bool, connection: HTTP1ConnectionState.ConnectionField
    ) {
        framing = .none
        let size = response.fieldLines.count + response.body.count + Self.reserve
        outbound.bytes.writeHead(reserving: size) { writer in
            writer.append("HTTP/1.1 ")
            writer.append(decimal: response.status)
            writer.append(" ")
            writer.append(text: response.title)
            writer.append("\r\nDate: ")
            writer.append(response.date)
            writer.append("\r\n")
            writer.append(response.fieldLines)
            if let length = response.contentLength {
                writer.append("Content-Length: ")
                writer.append(decimal: length)
                writer.append("\r\n")
            }
            writer.append(connection)
            if !isToHead { writer.append(response.body) }
        }
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
}

extension HeadWriter {
    /// Appends the gateway's HTTP version, and the received status, reason and fields. The space after the status is
    /// required even without a reason (RFC 9112 §4).
    fileprivate mutating func appendStatusAndFields(of head: borrowing ResponseHead) {
        let bytes = head.bytes.readableBytesSpan
        append("HTTP/1.1 ")
        let statusStart = 9
        let statusEnd = max(head.reason.end, statusStart + 3)
        append(bytes.extracting(statusStart..<statusEnd))
        append(head.reason.start == statusStart + 3 ? " \r\n" : "\r\n")
        append(fields: head.fields, of: bytes, end: bytes.byteCount - 2)
    }

    /// Appends `Connection` and the end of the head.
    fileprivate mutating func append(_ connection: HTTP1ConnectionState.ConnectionField) {
        switch connection {
        case .omitted: append("\r\n")
        case .keepAlive: append("Connection: keep-alive\r\n\r\n")
        case .close: append("Connection: close\r\n\r\n")
        }
    }
}
