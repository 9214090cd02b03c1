import CloakroomCore

/// Puts fields together so that no two lists of fields give the same bytes: each one stands behind its length, four bytes
/// in network order.
struct LengthPrefixedWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ field: some Collection<UInt8>) {
        appendWord(UInt64(UInt32(truncatingIfNeeded: field.count)), bytes: 4)
        bytes += field
    }

    /// A field of eight bytes in network order.
    mutating func append(_ word: UInt64) {
        appendWord(8, bytes: 4)
        appendWord(word, bytes: 8)
    }

    mutating func append(_ time: Timestamp) {
        append(UInt64(bitPattern: time.milliseconds))
    }

    private mutating func appendWord(_ word: UInt64, bytes count: Int) {
        for shift in stride(from: 8 * (count - 1), through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
        }
    }
}

/// Takes apart what ``LengthPrefixedWriter`` put together. Bytes of any other kind give `nil`, never a trap.
struct LengthPrefixedReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    /// Whether everything was read.
    var isAtEnd: Bool { rest.isEmpty }

    mutating func field() -> ArraySlice<UInt8>? {
        guard rest.count >= 4 else { return nil }
        let length = Int(rest.prefix(4).reduce(0) { $0 << 8 | UInt32($1) })
        guard rest.count - 4 >= length else { return nil }
        let start = rest.startIndex + 4
        defer { rest = rest[(start + length)...] }
        return rest[start..<(start + length)]
    }

    mutating func word() -> UInt64? {
        guard let field = field(), field.count == 8 else { return nil }
        return field.reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func time() -> Timestamp? {
        word().map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }
}
