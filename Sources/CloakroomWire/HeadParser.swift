public import NIOCore

/// Parses heads of HTTP/1.1 messages, strictly, from input in pieces of any size (RFC 9112 §2 to §5).
///
/// The caller passes the same buffer, extended at its end, until the head is complete. Complete lines are not parsed
/// again, and all checks follow the order of the bytes: the result does not depend on how the input is split.
///
/// Module `CloakroomWire`: parses and writes HTTP/1.1, PROXY and WebSocket bytes; knows no session, route or
/// configuration.
public struct HeadParser: Sendable {
    /// The progress of the parser.
    private enum State {
        case startLine
        case fields
    }

    private let limits: HeadLimits
    private let names = KnownFieldTable.shared
    private var progress = State.startLine
    /// Offset of the next line from the reader index.
    private var lineStart = 0
    /// Offset of the next byte in an incomplete line; 0 at its start. A line that arrives byte by byte costs no more
    /// than one that arrives at once.
    private var scanned = 0
    /// Offset of the colon in such a line; 0 if it has not been found.
    private var colon = 0
    /// The number of bytes of the empty lines before the request line.
    private var skippedBytes = 0

    /// Creates a parser for one connection.
    public init(limits: HeadLimits) {
        self.limits = limits
    }

    /// Whether part of a head has been read.
    public var isInHead: Bool { progress != .startLine }

    /// Parses a request head from the front of the buffer.
    /// - Parameter head: Reset by the caller; complete only when the call returns `true`.
    /// - Returns: Whether the head is complete; its bytes are then removed from the buffer. Otherwise call again with
    ///   more bytes.
    /// - Throws: ``WireError`` if the head is malformed. The parser is then unusable.
    public mutating func parse(_ buffer: inout ByteBuffer, into head: inout RequestHead) throws(WireError) -> Bool {
        if progress == .startLine {
            try skipEmptyLines(&buffer)
            guard try parseRequestLine(buffer.readableBytesUInt8Span, into: &head) else { return false }
            progress = .fields
        }
        guard let end = try parseFields(buffer.readableBytesUInt8Span, into: &head.fields) else { return false }
        finish(&buffer, count: end, into: &head.bytes)
        return true
    }

    /// Parses a response head from the front of the buffer. Parameters, result and errors as for a request.
    public mutating func parse(_ buffer: inout ByteBuffer, into head: inout ResponseHead) throws(WireError) -> Bool {
        if progress == .startLine {
            guard try parseStatusLine(buffer.readableBytesUInt8Span, into: &head) else { return false }
            progress = .fields
        }
        guard let end = try parseFields(buffer.readableBytesUInt8Span, into: &head.fields) else { return false }
        finish(&buffer, count: end, into: &head.bytes)
        return true
    }

    private mutating func finish(_ buffer: inout ByteBuffer, count: Int, into bytes: inout ByteBuffer) {
        if let slice = buffer.readSlice(length: count) { bytes = slice }
        progress = .startLine
        lineStart = 0
        scanned = 0
        colon = 0
        skippedBytes = 0
    }

    /// Skips empty lines before a request line (RFC 9112 §2.2), up to the size limit of a head.
    private mutating func skipEmptyLines(_ buffer: inout ByteBuffer) throws(WireError) {
        while let first = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self) {
            guard first != Byte.lf else { throw .lineEnd }
            guard first == Byte.cr,
                let second = buffer.getInteger(at: buffer.readerIndex + 1, as: UInt8.self)
            else { return }
            guard second == Byte.lf else { throw .lineEnd }
            buffer.moveReaderIndex(forwardBy: 2)
            skippedBytes += 2
            guard skippedBytes <= limits.head else { throw .headTooLarge }
        }
    }
}

// MARK: - Start lines

extension HeadParser {
    private mutating func parseRequestLine(_ bytes: Span<UInt8>, into head: inout RequestHead) throws(WireError) -> Bool
    {
        let end = min(bytes.count, limits.head)
        var index = 0
        while index < end, Byte.isToken(bytes[index]) {
            index += 1
            if index > Self.maxMethodLength { throw .requestLine }
        }
        guard index < end else { return try incomplete(bytes) }
        guard index > 0, bytes[index] == Byte.space else {
            // A lone carriage return may be the start of an empty line to be skipped.
            if index == 0, bytes[0] == Byte.cr, bytes.count == 1 { return false }
            throw .requestLine
        }
        head.method = ByteRange(start: 0, count: index)
        index += 1
        let targetStart = index
        index = max(index, scanned)
        // One byte more than the limit is enough to detect a longer target.
        index = Byte.endOfVisible(bytes, from: index, to: min(end, targetStart + limits.target + 1))
        if index - targetStart > limits.target { throw .targetTooLong }
        scanned = index
        guard index < end else { return try incomplete(bytes) }
        guard index > targetStart, bytes[index] == Byte.space else { throw .requestLine }
        head.target = ByteRange(start: targetStart, count: index - targetStart)
        index += 1
        guard let version = try parseVersion(bytes, from: index, to: end, or: .requestLine) else {
            return try incomplete(bytes)
        }
        index += Self.versionLength
        guard try hasLineEnd(bytes, at: index, to: end, or: .requestLine) else { return try incomplete(bytes) }
        head.minorVersion = version
        lineStart = index + 2
        scanned = 0
        return true
    }

    private mutating func parseStatusLine(_ bytes: Span<UInt8>, into head: inout ResponseHead) throws(WireError) -> Bool
    {
        let end = min(bytes.count, limits.head)
        guard let version = try parseVersion(bytes, from: 0, to: end, or: .statusLine) else {
            return try incomplete(bytes)
        }
        var index = Self.versionLength
        guard index < end else { return try incomplete(bytes) }
        guard bytes[index] == Byte.space else { throw .statusLine }
        index += 1
        var status = 0
        for _ in 0..<3 {
            guard index < end else { return try incomplete(bytes) }
            guard let digit = Byte.decimal(bytes[index]) else { throw .statusLine }
            status = status * 10 + digit
            index += 1
        }
        guard status >= 100 else { throw .statusLine }
        guard index < end else { return try incomplete(bytes) }
        var reasonStart = index
        if bytes[index] == Byte.space {
            index += 1
            reasonStart = index
            index = max(index, scanned)
            while index < end, Byte.isFieldText(bytes[index]) { index += 1 }
            scanned = index
            guard index < end else { return try incomplete(bytes) }
        }
        guard try hasLineEnd(bytes, at: index, to: end, or: .statusLine) else { return try incomplete(bytes) }
        head.status = status
        head.reason = ByteRange(start: reasonStart, count: index - reasonStart)
        head.minorVersion = version
        lineStart = index + 2
        scanned = 0
        return true
    }

    /// The maximum length of a method: longer than any registered one, and short enough to reject input that is not
    /// HTTP.
    private static var maxMethodLength: Int { 32 }
    private static var versionLength: Int { 8 }

    /// Parses `HTTP/1.x`. Returns `nil` if there are not enough bytes yet.
    private func parseVersion(
        _ bytes: Span<UInt8>, from start: Int, to end: Int, or malformed: WireError
    ) throws(WireError) -> UInt8? {
        if start + 8 <= end {
            // The usual versions, eight bytes in one word.
            let word = bytes.bytes.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self).bigEndian
            if word == 0x48_54_54_50_2f_31_2e_31 { return 1 }
            if word == 0x48_54_54_50_2f_31_2e_30 { return 0 }
        }
        // "HTTP/" packed into one word, so that incomplete input can be checked byte by byte.
        let expected: UInt64 = 0x48_54_54_50_2f
        var offset = 0
        while offset < 5 {
            guard start + offset < end else { return nil }
            guard UInt64(bytes[start + offset]) == expected >> UInt64(32 - offset * 8) & 0xff else { throw malformed }
            offset += 1
        }
        guard start + 5 < end else { return nil }
        guard let major = Byte.decimal(bytes[start + 5]) else { throw malformed }
        guard major == 1 else { throw .version }
        guard start + 6 < end else { return nil }
        guard bytes[start + 6] == Byte.period else { throw malformed }
        guard start + 7 < end else { return nil }
        guard let minor = Byte.decimal(bytes[start + 7]) else { throw malformed }
        return minor == 0 ? 0 : 1
    }

    /// Whether CR LF is at the given position; `false` if there are not enough bytes yet.
    @inline(__always)
    private func hasLineEnd(
        _ bytes: Span<UInt8>, at index: Int, to end: Int, or malformed: WireError
    ) throws(WireError) -> Bool {
        guard index < end else { return false }
        guard bytes[index] == Byte.cr else { throw bytes[index] == Byte.lf ? .lineEnd : malformed }
        guard index + 1 < end else { return false }
        guard bytes[index + 1] == Byte.lf else { throw .lineEnd }
        return true
    }

    /// Requests more bytes, unless the limit is reached.
    @inline(__always)
    private func incomplete(_ bytes: Span<UInt8>) throws(WireError) -> Bool {
        if bytes.count >= limits.head { throw .headTooLarge }
        return false
    }
}

// MARK: - Fields

extension HeadParser {
    /// Parses field lines up to the empty line.
    /// - Returns: The length of the head; `nil` if it is not complete.
    private mutating func parseFields(
        _ bytes: Span<UInt8>, into fields: inout [FieldSlice]
    ) throws(WireError) -> Int? {
        let end = min(bytes.count, limits.head)
        // An incomplete line continues where parsing stopped.
        var index = max(lineStart, scanned)
        var nameEnd = colon
        while true {
            guard index < end else { break }
            if nameEnd == 0 {
                if index == lineStart, bytes[index] == Byte.cr {
                    guard index + 1 < end else { break }
                    guard bytes[index + 1] == Byte.lf else { throw .lineEnd }
                    return index + 2
                }
                index = Byte.endOfToken(bytes, from: index, to: end)
                guard index < end else { break }
                guard bytes[index] == Byte.colon, index > lineStart else {
                    throw rejection(of: bytes[index], at: index - lineStart)
                }
                nameEnd = index
                index += 1
            }
            let nameCount = nameEnd - lineStart
            index = Byte.endOfFieldText(bytes, from: index, to: end)
            guard index < end else { break }
            var valueStart = nameEnd + 1
            while valueStart < index, Byte.isBlank(bytes[valueStart]) { valueStart += 1 }
            guard bytes[index] == Byte.cr else { throw bytes[index] == Byte.lf ? .lineEnd : .fieldValue }
            guard index + 1 < end else { break }
            guard bytes[index + 1] == Byte.lf else { throw .lineEnd }
            var valueEnd = index
            while valueEnd > valueStart, Byte.isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
            guard fields.count < limits.fields else { throw .tooManyFields }
            fields.append(
                FieldSlice(
                    nameStart: lineStart, nameCount: nameCount, valueStart: valueStart,
                    valueCount: valueEnd - valueStart,
                    name: names.field(bytes, from: lineStart, count: nameCount)))
            lineStart = index + 2
            index = lineStart
            nameEnd = 0
        }
        scanned = index
        colon = nameEnd
        _ = try incomplete(bytes)
        return nil
    }

    private func rejection(of byte: UInt8, at offset: Int) -> WireError {
        if offset == 0, Byte.isBlank(byte) { return .foldedLine }
        return byte == Byte.lf ? .lineEnd : .fieldName
    }
}

// MARK: - Input of a connection

extension ByteBuffer {
    /// Releases storage that the unread bytes do not need. To be called on the input of a connection after each read,
    /// because a buffer to which bytes are appended keeps everything read from it: the part before its reader index is
    /// never used again.
    ///
    /// Afterwards the storage has at most 4,096 bytes or four times the unread bytes, whichever is more, or none if
    /// there are no unread bytes. More bytes were read since the last copy than are copied: the cost is linear.
    public mutating func releaseReadStorage() {
        if readableBytes == 0 {
            self = ByteBuffer()
        } else if storageCapacity > max(4_096, 4 &* readableBytes) {
            self = ByteBuffer(buffer: self)
        }
    }
}
