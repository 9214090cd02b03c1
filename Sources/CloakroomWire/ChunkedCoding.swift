public import NIOCore

/// Decodes the chunked transfer coding, strictly (RFC 9112 §7.1). Extensions are validated and dropped. White space
/// around their parts (bad whitespace in the grammar) is rejected.
struct ChunkDecoder: Sendable {
    /// The result of a decoding step.
    enum Step {
        case data(ByteBuffer)
        /// The body is complete, with trailers or without.
        case end(TrailerSection?)
        case needMoreData
    }

    private enum State {
        /// In a chunk size of which `digits` digits have been read.
        case size(value: UInt64, digits: Int)
        /// After the size, before the end of the line.
        case extensions(size: UInt64, ChunkExtensionScan)
        /// The line feed of a size line is expected.
        case sizeLineFeed(size: UInt64)
        case data(remaining: UInt64)
        case dataCarriageReturn
        case dataLineFeed
        /// After the last chunk. The section stays in the buffer until it is complete.
        case trailers(TrailerScan)
    }

    /// The maximum number of bytes of extensions in all chunks of a body; no legitimate use needs more.
    private static let extensionLimit = 4_096

    private var state = State.size(value: 0, digits: 0)
    private var extensionBytes = 0

    mutating func next(_ buffer: inout ByteBuffer) throws(WireError) -> Step {
        while true {
            switch state {
            case .data(let remaining):
                let count = Int(min(remaining, UInt64(buffer.readableBytes)))
                guard count > 0, let slice = buffer.readSlice(length: count) else { return .needMoreData }
                let left = remaining - UInt64(count)
                state = left == 0 ? .dataCarriageReturn : .data(remaining: left)
                return .data(slice)
            case .trailers(let scan):
                return try takeTrailers(scan, from: &buffer)
            default:
                guard let byte = buffer.readInteger(as: UInt8.self) else { return .needMoreData }
                try take(byte)
            }
        }
    }

    private mutating func takeTrailers(
        _ scan: TrailerScan, from buffer: inout ByteBuffer
    ) throws(WireError) -> Step {
        var scan = scan
        guard let count = try scan.advance(buffer.readableBytesUInt8Span), let lines = buffer.readSlice(length: count)
        else {
            state = .trailers(scan)
            return .needMoreData
        }
        // The empty line.
        buffer.moveReaderIndex(forwardBy: 2)
        return .end(count == 0 ? nil : TrailerSection(bytes: lines, count: scan.count))
    }

    /// Handles a byte of the framing.
    private mutating func take(_ byte: UInt8) throws(WireError) {
        switch state {
        case .size(let value, let digits):
            if let digit = Byte.hexadecimal(byte) {
                guard digits < 16, value <= UInt64(Int64.max) >> 4 else { throw .chunkSize }
                state = .size(value: value << 4 | digit, digits: digits + 1)
            } else if digits == 0 {
                throw .chunkSize
            } else if byte == Byte.cr {
                state = .sizeLineFeed(size: value)
            } else if byte == Byte.semicolon {
                state = .extensions(size: value, .nameStart)
                try countExtensionByte()
            } else {
                throw byte == Byte.lf ? .lineEnd : .chunkSize
            }
        case .extensions(let size, let scan):
            guard byte != Byte.lf else { throw .lineEnd }
            if byte == Byte.cr {
                guard scan.mayEnd else { throw .chunkExtension }
                state = .sizeLineFeed(size: size)
            } else {
                guard let next = scan.next(byte) else { throw .chunkExtension }
                state = .extensions(size: size, next)
                try countExtensionByte()
            }
        case .sizeLineFeed(let size):
            guard byte == Byte.lf else { throw .lineEnd }
            state = size == 0 ? .trailers(TrailerScan()) : .data(remaining: size)
        case .dataCarriageReturn:
            guard byte == Byte.cr else { throw .chunkEnd }
            state = .dataLineFeed
        case .dataLineFeed:
            guard byte == Byte.lf else { throw .chunkEnd }
            state = .size(value: 0, digits: 0)
        case .data, .trailers:
            throw .chunkEnd
        }
    }

    private mutating func countExtensionByte() throws(WireError) {
        extensionBytes += 1
        guard extensionBytes <= Self.extensionLimit else { throw .chunkExtension }
    }
}

/// Encodes the chunked transfer coding (RFC 9112 §7.1).
public enum ChunkEncoder {
    /// Writes the line that begins a chunk of the given size, which must not be 0.
    public static func writeChunkStart(_ count: Int, into buffer: inout ByteBuffer) {
        var shift = (UInt64.bitWidth - UInt64(count).leadingZeroBitCount + 3) / 4 * 4 - 4
        while shift >= 0 {
            let digit = UInt8(truncatingIfNeeded: UInt64(count) >> UInt64(shift) & 0xf)
            buffer.writeInteger(digit < 10 ? 0x30 + digit : 0x61 + digit - 10)
            shift -= 4
        }
        buffer.writeInteger(UInt16(0x0d0a))
    }

    /// Writes the line end after a chunk's data.
    public static func writeChunkEnd(into buffer: inout ByteBuffer) {
        buffer.writeInteger(UInt16(0x0d0a))
    }

    /// Writes the last chunk, without trailers.
    public static func writeLastChunk(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("0\r\n\r\n")
    }

    /// Writes the last chunk, followed by the trailers.
    /// - Parameter trailers: Field lines, each with its line end, that the trailer policy allows; `nil` or empty for
    ///   none.
    public static func writeLastChunk(trailers: ByteBuffer?, into buffer: inout ByteBuffer) {
        guard let trailers, trailers.readableBytes > 0 else { return writeLastChunk(into: &buffer) }
        buffer.writeStaticString("0\r\n")
        buffer.writeImmutableBuffer(trailers)
        buffer.writeStaticString("\r\n")
    }
}

/// The position of a parser in the extensions of a chunk: `*( ";" token [ "=" ( token / quoted-string ) ] )` (RFC 9112
/// §7.1.1).
enum ChunkExtensionScan: Sendable {
    case nameStart
    case name
    case valueStart
    case value
    /// Within a quoted string.
    case quoted
    /// After a backslash in a quoted string.
    case escaped
    /// After the end of a quoted string.
    case quotedEnd

    /// Whether the line may end here.
    var mayEnd: Bool {
        switch self {
        case .name, .value, .quotedEnd: true
        case .nameStart, .valueStart, .quoted, .escaped: false
        }
    }

    /// Handles one byte that is not part of a line end.
    /// - Returns: `nil` if the byte is not allowed at this position.
    func next(_ byte: UInt8) -> ChunkExtensionScan? {
        switch self {
        case .nameStart: return Byte.isToken(byte) ? .name : nil
        case .name:
            if byte == UInt8(ascii: "=") { return .valueStart }
            return byte == Byte.semicolon ? .nameStart : Byte.isToken(byte) ? .name : nil
        case .valueStart:
            return byte == UInt8(ascii: "\"") ? .quoted : Byte.isToken(byte) ? .value : nil
        case .value:
            return byte == Byte.semicolon ? .nameStart : Byte.isToken(byte) ? .value : nil
        case .quoted:
            if byte == UInt8(ascii: "\"") { return .quotedEnd }
            if byte == UInt8(ascii: "\\") { return .escaped }
            return Byte.isFieldText(byte) ? .quoted : nil
        case .escaped: return Byte.isFieldText(byte) ? .quoted : nil
        case .quotedEnd: return byte == Byte.semicolon ? .nameStart : nil
        }
    }
}
