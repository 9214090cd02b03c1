public import CloakroomWire
import NIOCore

/// The number of times that an `OPTIONS` or `TRACE` request may still be forwarded (RFC 9110 §7.6.2).
public enum MaxForwards: Sendable, Equatable {
    case absent
    /// The remaining number, 0...256: at 0 the recipient responds itself. Larger values count as 256, which RFC 9110
    /// permits.
    case value(Int)
    /// The value is not a number, or there are several fields.
    case malformed

    /// Parses the `Max-Forwards` field of a request.
    public static func read(_ head: borrowing RequestHead) -> MaxForwards {
        var result = MaxForwards.absent
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .maxForwards {
            result.add(field.valueRange, bytes)
        }
        return result
    }

    private static let largest = 256

    /// Adds another occurrence of the field.
    mutating func add(_ range: ByteRange, _ bytes: Span<UInt8>) {
        let value = Byte.number(bytes.extracting(range.start..<range.end), atMost: Self.largest)
        self = self == .absent ? value.map { .value($0) } ?? .malformed : .malformed
    }
}
