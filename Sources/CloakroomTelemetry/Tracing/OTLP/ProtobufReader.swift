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
