/// Writes the fields of a protobuf message in order (protobuf.dev, "Encoding").
///
/// Fields with default values are written too; the caller decides which fields to omit.
struct ProtobufWriter {
    private enum WireType: UInt64 {
        case varint = 0
        case fixed64 = 1
        case lengthDelimited = 2
        case fixed32 = 5
    }

    private(set) var bytes: [UInt8] = []

    /// A field of type `int32`, `int64`, `uint32`, `uint64`, `bool` or an enumeration; negative numbers as their two's
    /// complement in 64 bits.
    mutating func varint(_ field: UInt64, _ value: UInt64) {
        key(field, .varint)
        append(varint: value)
    }

    /// A field of type `fixed64`, or of type `double` by its bit pattern.
    mutating func fixed64(_ field: UInt64, _ value: UInt64) {
        key(field, .fixed64)
        append(littleEndian: value, count: 8)
    }

    /// A field of type `fixed32`.
    mutating func fixed32(_ field: UInt64, _ value: UInt32) {
        key(field, .fixed32)
        append(littleEndian: UInt64(value), count: 4)
    }

    /// A field of type `string`.
    mutating func string(_ field: UInt64, _ value: String) {
        self.bytes(field, value.utf8)
    }

    /// A field of type `bytes`.
    mutating func bytes(_ field: UInt64, _ value: some Collection<UInt8>) {
        key(field, .lengthDelimited)
        append(varint: UInt64(value.count))
        bytes.append(contentsOf: value)
    }

    /// An embedded message.
    mutating func message(_ field: UInt64, _ body: (inout ProtobufWriter) -> Void) {
        var message = ProtobufWriter()
        body(&message)
        bytes(field, message.bytes)
    }

    private mutating func key(_ field: UInt64, _ type: WireType) {
        append(varint: field << 3 | type.rawValue)
    }

    /// Seven bits per byte, least significant first; all bytes except the last have their highest bit set.
    private mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    private mutating func append(littleEndian value: UInt64, count: Int) {
        for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index))) }
    }
}
