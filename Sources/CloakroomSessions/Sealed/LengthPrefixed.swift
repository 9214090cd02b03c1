import CloakroomCore

/// Encodes fields so that no two lists of fields give the same bytes: each field follows its length, four bytes in
/// network order.
struct LengthPrefixedWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ field: some Collection<UInt8>) {
        bytes += UInt64(field.count).bigEndianBytes.suffix(4)
        bytes += field
    }

    /// Appends a field of eight bytes in network order.
    mutating func append(_ word: UInt64) {
        append(word.bigEndianBytes)
    }

    mutating func append(_ time: Timestamp) {
        append(UInt64(bitPattern: time.milliseconds))
    }

    /// Appends four fields, one for each word.
    mutating func append(_ key: SessionKey) {
        for word in [key.word0, key.word1, key.word2, key.word3] { append(word) }
    }
}

/// Decodes the fields of ``LengthPrefixedWriter``. Malformed bytes give `nil`, never a trap.
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
