public import CloakroomWire
import NIOCore

/// How many more times an `OPTIONS` or `TRACE` request may be passed on (RFC 9110 §7.6.2).
public enum MaxForwards: Sendable, Equatable {
    /// It does not say.
    case absent
    /// So many times, 0...256: at 0 the recipient answers itself. What is more counts as 256, as a recipient may choose.
    case value(Int)
    /// No number, or several fields.
    case malformed

    /// Reads the `Max-Forwards` field of a request.
    public static func read(_ head: borrowing RequestHead) -> MaxForwards {
        var result = MaxForwards.absent
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .maxForwards {
            result.add(field.valueRange, bytes)
        }
        return result
    }

    private static let largest = 256

    /// Takes one more field into account.
    mutating func add(_ range: ByteRange, _ bytes: Span<UInt8>) {
        guard self == .absent, !range.isEmpty else {
            self = .malformed
            return
        }
        var value = 0
        for index in range.start..<range.end {
            let byte = bytes[index]
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else {
                self = .malformed
                return
            }
            value = min(value * 10 + Int(byte - UInt8(ascii: "0")), Self.largest)
        }
        self = .value(value)
    }
}
