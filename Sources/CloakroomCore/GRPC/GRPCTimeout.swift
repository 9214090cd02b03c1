import CloakroomWire

/// The field `grpc-timeout` (gRPC over HTTP/2, "Requests"): the time that the client waits for the whole call.
public enum GRPCTimeout {
    /// Parses a value: 1 to 8 digits and a unit.
    /// - Returns: Nanoseconds; at most about 11,400 years fit the syntax, which are limited to `UInt64.max / 2`. `nil`
    ///   if the value is malformed.
    public static func nanoseconds(_ value: Span<UInt8>) -> UInt64? {
        guard (2...9).contains(value.count),
            let number = Byte.number(value.extracting(0..<(value.count - 1)), atMost: 99_999_999),
            let unit = unit(value[value.count - 1])
        else { return nil }
        let (product, overflow) = UInt64(number).multipliedReportingOverflow(by: unit)
        return overflow ? .max / 2 : min(product, .max / 2)
    }

    private static func unit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case UInt8(ascii: "H"): 3_600_000_000_000
        case UInt8(ascii: "M"): 60_000_000_000
        case UInt8(ascii: "S"): 1_000_000_000
        case UInt8(ascii: "m"): 1_000_000
        case UInt8(ascii: "u"): 1_000
        case UInt8(ascii: "n"): 1
        default: nil
        }
    }
}

/// The media type of gRPC messages, `application/grpc` with or without a suffix such as `+proto`.
public enum GRPCContentType {
    private static let name = Array("application/grpc".utf8)

    /// Whether the value of a `Content-Type` is one of gRPC. Media types are case-insensitive (RFC 9110 §8.3.1).
    public static func matches(_ value: Span<UInt8>) -> Bool {
        guard value.count >= name.count else { return false }
        for index in name.indices where value[index] | 0x20 != name[index] | 0x20 { return false }
        guard value.count > name.count else { return true }
        switch value[name.count] {
        case UInt8(ascii: "+"), UInt8(ascii: ";"), UInt8(ascii: " "), 0x09: return true
        default: return false
        }
    }
}
