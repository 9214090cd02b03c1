import CloakroomWire
import NIOCore

/// Evaluates `Retry-After` of a response (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The delay in nanoseconds, if the response has one in seconds; `nil` for a date, which depends on two clocks, and
    /// for a field that is invalid or repeated. Saturated at the greatest value.
    static func nanoseconds(of head: borrowing ResponseHead) -> UInt64? {
        var delay: Int?
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .retryAfter {
            guard delay == nil else { return nil }
            // More than any limit, and far from an overflow.
            delay = Byte.number(
                bytes.extracting(field.valueRange.start..<field.valueRange.end), atMost: 1 << 40)
            if delay == nil { return nil }
        }
        guard let delay else { return nil }
        let (time, isOverflow) = UInt64(delay).multipliedReportingOverflow(by: 1_000_000_000)
        return isOverflow ? .max : time
    }
}
