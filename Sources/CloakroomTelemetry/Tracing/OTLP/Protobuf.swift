/// Reads the fields of a protobuf message in order. A malformed field ends the iteration.
struct ProtobufReader {
    /// The value of a field, by wire type.
    enum Value {
        case number(UInt64)
        case bytes(ArraySlice<UInt8>)
    }

    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    /// The number and value of the next field; `nil` at the end or if the message is malformed.
    mutating func next() -> (field: UInt64, value: Value)? {
        guard let key = varint() else { return nil }
        switch key & 7 {
        case 0: return varint().map { (key >> 3, .number($0)) }
        case 1: return littleEndian(count: 8).map { (key >> 3, .number($0)) }
        case 2: return lengthDelimited().map { (key >> 3, .bytes($0)) }
        case 5: return littleEndian(count: 4).map { (key >> 3, .number($0)) }
        default: return nil
        }
    }

    private mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard let byte = rest.popFirst() else { return nil }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }

    private mutating func littleEndian(count: Int) -> UInt64? {
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    private mutating func lengthDelimited() -> ArraySlice<UInt8>? {
        guard let length = varint(), length <= UInt64(rest.count) else { return nil }
        let count = Int(length)
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}

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
