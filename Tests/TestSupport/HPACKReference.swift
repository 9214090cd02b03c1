/// A plain decoder of header blocks (RFC 7541) with arrays, as the oracle of the fast one. Its tables are those of the
/// RFC; the decoder itself shares no code with the one that it checks.
package struct HPACKReference {
    package struct Field: Equatable {
        package var name: [UInt8]
        package var value: [UInt8]

        /// Creates a field.
        package init(_ name: String, _ value: String) {
            self.name = Array(name.utf8)
            self.value = Array(value.utf8)
        }

        fileprivate init(name: [UInt8], value: [UInt8]) {
            self.name = name
            self.value = value
        }

        /// The line in HTTP/1.1 syntax.
        package var line: [UInt8] { name + Array(": ".utf8) + value + Array("\r\n".utf8) }
        fileprivate var size: Int { name.count + value.count + 32 }
    }

    /// A block that is not valid.
    package struct Invalid: Error {}

    /// The dynamic table, the newest entry first.
    package private(set) var table: [Field] = []
    private let fixed: [Field]
    private let huffman: HuffmanReference
    private let maxLimit: Int
    private var limit: Int

    /// Creates a decoder.
    /// - Parameters:
    ///   - lengths: The lengths of the Huffman codes.
    ///   - fixed: The static table.
    ///   - maxLimit: The limit of the table that has been announced.
    package init(lengths: [UInt8], fixed: [(name: String, value: String)], maxLimit: Int = 4_096) {
        self.fixed = fixed.map { Field($0.name, $0.value) }
        self.maxLimit = maxLimit
        huffman = HuffmanReference(lengths: lengths)
        limit = min(maxLimit, 4_096)
    }

    package mutating func decode(_ block: [UInt8]) throws(Invalid) -> [Field] {
        var rest = block[...]
        var fields: [Field] = []
        var updates = 0
        while let first = rest.first {
            if first & 0x80 != 0 {
                fields.append(try entry(integer(&rest, bits: 7)))
            } else if first & 0xe0 == 0x20 {
                limit = try integer(&rest, bits: 5)
                updates += 1
                guard fields.isEmpty, limit <= maxLimit, updates <= 2 else { throw Invalid() }
                evict()
            } else {
                let isInserted = first & 0x40 != 0
                let index = try integer(&rest, bits: isInserted ? 6 : 4)
                let name = index == 0 ? try string(&rest) : try entry(index).name
                let field = Field(name: name, value: try string(&rest))
                fields.append(field)
                guard isInserted else { continue }
                table.insert(field, at: 0)
                evict()
            }
        }
        return fields
    }

    private mutating func evict() {
        while table.reduce(0, { $0 + $1.size }) > limit { table.removeLast() }
    }

    private func entry(_ index: Int) throws(Invalid) -> Field {
        guard index > 0 else { throw Invalid() }
        if index <= fixed.count { return fixed[index - 1] }
        guard index - fixed.count <= table.count else { throw Invalid() }
        return table[index - fixed.count - 1]
    }

    private func integer(_ rest: inout ArraySlice<UInt8>, bits: Int) throws(Invalid) -> Int {
        guard let first = rest.popFirst() else { throw Invalid() }
        let mask = 1 << bits - 1
        var value = Int(first) & mask
        guard value == mask else { return value }
        for shift in [0, 7, 14, 21] {
            guard let byte = rest.popFirst() else { throw Invalid() }
            value += Int(byte & 0x7f) << shift
            if byte & 0x80 == 0 { return value }
        }
        throw Invalid()
    }

    private func string(_ rest: inout ArraySlice<UInt8>) throws(Invalid) -> [UInt8] {
        let isHuffman = (rest.first ?? 0) & 0x80 != 0
        let count = try integer(&rest, bits: 7)
        guard count <= rest.count else { throw Invalid() }
        let bytes = Array(rest.prefix(count))
        rest = rest.dropFirst(count)
        guard isHuffman else { return bytes }
        guard let text = huffman.decode(bytes) else { throw Invalid() }
        return text
    }
}

/// The Huffman code of RFC 7541, decoded bit by bit.
package struct HuffmanReference {
    private struct Code: Hashable {
        var length: Int
        var bits: UInt32
    }

    private var symbols: [Code: Int] = [:]

    /// Creates the code. It is canonical: the lengths of the codes determine it.
    package init(lengths: [UInt8]) {
        var bits: UInt32 = 0
        for length in 1...30 {
            for (symbol, other) in lengths.enumerated() where Int(other) == length {
                symbols[Code(length: length, bits: bits)] = symbol
                bits += 1
            }
            bits <<= 1
        }
    }

    /// Decodes a string; `nil` if it is not valid.
    package func decode(_ bytes: [UInt8]) -> [UInt8]? {
        var result: [UInt8] = []
        var code = Code(length: 0, bits: 0)
        for index in 0..<(8 * bytes.count) {
            code.bits = code.bits << 1 | UInt32(bytes[index / 8] >> (7 - index % 8) & 1)
            code.length += 1
            guard let symbol = symbols[code] else { continue }
            guard symbol < 256 else { return nil }
            result.append(UInt8(symbol))
            code = Code(length: 0, bits: 0)
        }
        return code.length < 8 && code.bits == 1 << UInt32(code.length) - 1 ? result : nil
    }
}
