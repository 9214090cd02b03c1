public import NIOCore

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
