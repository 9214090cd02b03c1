import CloakroomCore
import CloakroomWire

/// The fields of a form (`application/x-www-form-urlencoded`, WHATWG URL §5.1).
enum FormURLEncodedBody {
    /// The maximum number of fields. Each costs as much as 20 bytes of a value.
    static let maxFields = 128

    /// Parses a form.
    /// - Returns: `nil` for an invalid escape, for invalid UTF-8, for too many fields, and for a duplicate name, whose
    ///   meaning would be ambiguous.
    static func read(_ body: [UInt8]) -> [JSONMemberName: String]? {
        // Names are compared by their bytes, see ``JSONMemberName``.
        var fields: [JSONMemberName: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            guard fields.count < maxFields else { return nil }
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let first = halves.first, let name = decode(first) else { return nil }
            guard let value = halves.count == 2 ? decode(halves[1]) : "" else { return nil }
            guard fields.updateValue(value, forKey: JSONMemberName(name)) == nil else { return nil }
        }
        return fields
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"):
                bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(Byte.hexadecimal),
                    let low = rest.popFirst().flatMap(Byte.hexadecimal)
                else { return nil }
                bytes.append(UInt8(high << 4 | low))
            default:
                bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
