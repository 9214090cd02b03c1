import CloakroomTelemetry
import NIOCore

/// The two lines that tell the upstream which request and which trace this is, made once and filled in for every request:
/// written digit by digit they were a twentieth of a request's instructions.
struct TraceHeaderTemplate {
    private static let requestIDStart = 14
    /// Where the second line begins.
    private static let contextStart = requestIDStart + 34
    private static let traceIDStart = 64
    private static let spanIDStart = 97
    private static let flagsStart = 115

    private var lines = Array(
        """
        X-Request-Id: 00000000000000000000000000000000\r
        traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r

        """.utf8)

    /// Writes `X-Request-Id`, and `traceparent` if there is a context (W3C Trace Context §3.2).
    mutating func write(requestID: ID128, context: TraceContext?, into buffer: inout ByteBuffer) {
        fill(requestID, at: Self.requestIDStart)
        guard let context else {
            buffer.writeBytes(lines[..<Self.contextStart])
            return
        }
        fill(context)
        buffer.writeBytes(lines)
    }

    /// Writes `traceparent` alone.
    mutating func write(_ context: TraceContext, into buffer: inout ByteBuffer) {
        fill(context)
        buffer.writeBytes(lines[Self.contextStart...])
    }

    private mutating func fill(_ context: TraceContext) {
        fill(context.traceID, at: Self.traceIDStart)
        fill(context.spanID, at: Self.spanIDStart)
        // Two flags are known, so the second digit says it all (W3C Trace Context §3.2.2.5).
        lines[Self.flagsStart] = UInt8(ascii: "0") + (context.flags & 0x03)
    }

    private mutating func fill(_ id: ID128, at start: Int) {
        fill(id.high, at: start)
        fill(id.low, at: start + 16)
    }

    private mutating func fill(_ value: UInt64, at start: Int) {
        // Eight digits at a time, within the room that the lines have; the pointer does not leave the closure.
        lines.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(
                of: HexDigits.eight(UInt32(truncatingIfNeeded: value >> 32)).bigEndian, toByteOffset: start,
                as: UInt64.self)
            bytes.storeBytes(
                of: HexDigits.eight(UInt32(truncatingIfNeeded: value)).bigEndian, toByteOffset: start + 8,
                as: UInt64.self)
        }
    }
}
