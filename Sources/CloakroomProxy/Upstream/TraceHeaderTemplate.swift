import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Template of the lines `X-Request-Id` and `traceparent`, filled in per request: formatting both lines anew took 5 %
/// of a request's instructions.
struct TraceHeaderTemplate {
    private static let requestIDStart = 14
    /// Offset of the second line.
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

    /// Writes only `traceparent`.
    mutating func write(_ context: TraceContext, into buffer: inout ByteBuffer) {
        fill(context)
        buffer.writeBytes(lines[Self.contextStart...])
    }

    private mutating func fill(_ context: TraceContext) {
        fill(context.traceID, at: Self.traceIDStart)
        fill(context.spanID, at: Self.spanIDStart)
        // Only two flags are defined, so the first digit is always 0 (W3C Trace Context §3.2.2.5).
        lines[Self.flagsStart] = UInt8(ascii: "0") + (context.flags & 0x03)
    }

    private mutating func fill(_ id: ID128, at start: Int) {
        fill(id.high, at: start)
        fill(id.low, at: start + 16)
    }

    private mutating func fill(_ value: UInt64, at start: Int) {
        // Writes eight digits at a time, within the bounds of `lines`; the pointer does not escape the closure.
        lines.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(
                of: Byte.hexDigits(UInt32(truncatingIfNeeded: value >> 32)).bigEndian, toByteOffset: start,
                as: UInt64.self)
            bytes.storeBytes(
                of: Byte.hexDigits(UInt32(truncatingIfNeeded: value)).bigEndian, toByteOffset: start + 8,
                as: UInt64.self)
        }
    }
}
