@testable import CloakroomHTTP2

/// Writes header blocks field by field, so that tests determine each representation.
struct BlockWriter {
    enum Form: CaseIterable {
        case inserted, plain, neverIndexed
    }

    private(set) var bytes: [UInt8] = []

    init() {}

    /// Creates a block of literals with literal names.
    init(_ fields: [(name: String, value: String)], _ form: Form = .plain, huffman: Bool = false) {
        for (name, value) in fields { literal(name, value, form, huffman: huffman) }
    }

    mutating func tableSize(_ size: Int) {
        integer(size, prefix: 0x1f, flags: 0x20)
    }

    mutating func indexed(_ index: Int) {
        integer(index, prefix: 0x7f, flags: 0x80)
    }

    mutating func literal(_ name: String, _ value: String, _ form: Form = .plain, huffman: Bool = false) {
        literal(name: Array(name.utf8), value: Array(value.utf8), form, huffman: huffman)
    }

    mutating func literal(name: [UInt8], value: [UInt8], _ form: Form = .plain, huffman: Bool = false) {
        literal(nameIndex: 0, form)
        string(name, huffman: huffman)
        string(value, huffman: huffman)
    }

    mutating func literal(nameIndex: Int, _ value: String, _ form: Form = .plain, huffman: Bool = false) {
        literal(nameIndex: nameIndex, form)
        string(Array(value.utf8), huffman: huffman)
    }

    private mutating func literal(nameIndex: Int, _ form: Form) {
        switch form {
        case .inserted: integer(nameIndex, prefix: 0x3f, flags: 0x40)
        case .plain: integer(nameIndex, prefix: 0x0f, flags: 0)
        case .neverIndexed: integer(nameIndex, prefix: 0x0f, flags: 0x10)
        }
    }

    mutating func string(_ text: [UInt8], huffman: Bool) {
        guard huffman else {
            integer(text.count, prefix: 0x7f, flags: 0)
            bytes += text
            return
        }
        let encoded = HuffmanText.encode(text)
        integer(encoded.count, prefix: 0x7f, flags: 0x80)
        bytes += encoded
    }

    mutating func integer(_ value: Int, prefix: Int, flags: UInt8) {
        guard value >= prefix else { return bytes.append(flags | UInt8(value)) }
        bytes.append(flags | UInt8(prefix))
        var rest = value - prefix
        while rest >= 128 {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func append(_ more: [UInt8]) {
        bytes += more
    }
}

/// The Huffman code with arrays.
enum HuffmanText {
    static func encode(_ text: [UInt8]) -> [UInt8] {
        let huffman = Huffman.shared
        var result = [UInt8](repeating: 0, count: huffman.encodedCount(text.span, from: 0, count: text.count))
        var room = result.mutableSpan
        huffman.encode(text.span, from: 0, count: text.count, into: &room, at: 0)
        return result
    }

    static func decode(_ bytes: [UInt8], room size: Int? = nil) -> [UInt8]? {
        var result = [UInt8](repeating: 0, count: size ?? Huffman.maxDecodedCount(bytes.count))
        var room = result.mutableSpan
        let count = Huffman.shared.decode(bytes.span, from: 0, count: bytes.count, into: &room, at: 0)
        return count.map { Array(result[..<$0]) }
    }
}

/// Hexadecimal digits, as in the examples of RFCs; other characters are ignored.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
}
