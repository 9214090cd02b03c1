import CloakroomWire
import NIOCore

/// Evaluates `Retry-After` of a response (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The delay in nanoseconds, if the response has one in seconds; `nil` for a date, which depends on two clocks, and
    /// for a field that is invalid or repeated. Saturated at the greatest value.
    static func nanoseconds(of head: borrowing ResponseHead) -> UInt64? {
        var delay: UInt64?
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .retryAfter {
            guard delay == nil else { return nil }
            delay = seconds(bytes.extracting(field.valueRange.start..<field.valueRange.end))
            if delay == nil { return nil }
        }
        guard let delay else { return nil }
        let (time, isOverflow) = delay.multipliedReportingOverflow(by: 1_000_000_000)
        return isOverflow ? .max : time
    }

    private static func seconds(_ value: Span<UInt8>) -> UInt64? {
        guard value.count > 0 else { return nil }
        var seconds: UInt64 = 0
        for index in value.indices {
            let digit = value[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            // More than any limit, and far from an overflow.
            seconds = min(seconds * 10 + UInt64(digit), 1 << 40)
        }
        return seconds
    }
}
