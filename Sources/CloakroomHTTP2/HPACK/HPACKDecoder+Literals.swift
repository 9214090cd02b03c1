import CloakroomWire

extension HPACKDecoder {
    /// A string in a block that has not been decoded yet.
    private struct EncodedString {
        var start: Int
        var count: Int
        var isHuffman: Bool

        /// The maximum number of bytes of the string.
        var maxCount: Int { isHuffman ? Huffman.maxDecodedCount(count) : count }
    }

    private enum Name {
        case fixed(StaticTable.Entry)
        case dynamic(DynamicTable.Entry)
        case string(EncodedString)
    }

    /// Decodes a field whose value, and possibly name, is in the block (RFC 7541 §6.2).
    mutating func decodeLiteral(
        _ block: Span<UInt8>, at index: inout Int, _ assembly: inout RequestAssembly,
        in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]
    ) throws(HPACKError) -> Int {
        let isInserted = block[index] & 0x40 != 0
        let name = try readName(block, at: &index, prefix: isInserted ? 0x3f : 0x0f)
        let value = try readString(block, at: &index)

        // The strings are measured only if their maximum exceeds a limit.
        var lineCount = maxCount(of: name) + value.maxCount + 4
        if assembly.keepsLines, assembly.end + lineCount > assembly.maxEnd {
            lineCount = try exactCount(of: name, block) + exactCount(of: value, block) + 4
            if assembly.end + lineCount > assembly.maxEnd {
                let isLongTarget = lineCount > assembly.maxTarget + 9 && isPath(name, block)
                assembly.reject(.tooLarge(isLongTarget ? .targetTooLong : .headTooLarge))
            }
        }
        if !assembly.keepsLines {
            lineCount = try exactCount(of: name, block) + exactCount(of: value, block) + 4
            guard isInserted, lineCount + 28 <= table.limit else {
                // It is larger than the table (RFC 7541 §4.4), or does not change it.
                if isInserted { table.removeAll() }
                if let role = role(of: name) { assembly.takeDropped(role) }
                return 0
            }
        }
        let start = assembly.end
        guard start + lineCount <= room.count else { return start + lineCount }
        let line = try write(name, value, of: block, to: &room, at: start)
        if isInserted { table.insert(room.span, at: start, line) }
        assembly.takeOrDrop(line, in: &room, fields: &fields)
        return 0
    }

    @inline(__always)
    private func readName(
        _ block: Span<UInt8>, at index: inout Int, prefix: UInt8
    ) throws(HPACKError) -> Name {
        let number = try HPACKInteger.read(block, at: &index, prefix: prefix)
        if number == 0 { return .string(try readString(block, at: &index)) }
        return number <= StaticTable.count ? .fixed(fixed.entries[number]) : .dynamic(try dynamicEntry(number))
    }

    @inline(__always)
    private func readString(_ block: Span<UInt8>, at index: inout Int) throws(HPACKError) -> EncodedString {
        guard index < block.count else { throw .compression }
        let isHuffman = block[index] & 0x80 != 0
        let count = try HPACKInteger.read(block, at: &index, prefix: 0x7f)
        guard count <= block.count - index else { throw .compression }
        defer { index += count }
        return EncodedString(start: index, count: count, isHuffman: isHuffman)
    }

    private func maxCount(of name: Name) -> Int {
        switch name {
        case .fixed(let entry): Int(entry.line.nameCount)
        case .dynamic(let entry): Int(entry.line.nameCount)
        case .string(let string): string.maxCount
        }
    }

    private func exactCount(of name: Name, _ block: Span<UInt8>) throws(HPACKError) -> Int {
        if case .string(let string) = name { return try exactCount(of: string, block) }
        return maxCount(of: name)
    }

    private func exactCount(of string: EncodedString, _ block: Span<UInt8>) throws(HPACKError) -> Int {
        guard string.isHuffman else { return string.count }
        guard let count = huffman.decodedCount(block, from: string.start, count: string.count) else {
            throw .compression
        }
        return count
    }

    /// The role that the name alone determines; `nil` if it is not known.
    private func role(of name: Name) -> LineRole? {
        let line: FieldLine
        switch name {
        case .fixed(let entry): line = entry.line
        case .dynamic(let entry): line = entry.line
        case .string: return nil
        }
        // A malformed entry may be so because of its value.
        return line.role == .malformed ? nil : line.role
    }

    private func isPath(_ name: Name, _ block: Span<UInt8>) -> Bool {
        guard case .string(let string) = name else { return role(of: name) == .path }
        guard string.maxCount >= 5, string.count <= 5 else { return false }
        var text = [UInt8](repeating: 0, count: 8)
        var room = text.mutableSpan
        guard let count = try? write(string, of: block, to: &room, at: 0) else { return false }
        return text.span.matches(":path", at: 0, count: count)
    }

    /// Writes a line. The room is large enough.
    @inline(__always)
    private func write(
        _ name: Name, _ value: EncodedString, of block: Span<UInt8>, to room: inout MutableSpan<UInt8>, at start: Int
    ) throws(HPACKError) -> FieldLine {
        switch name {
        case .fixed(let entry):
            let nameCount = Int(entry.line.nameCount)
            // With the separator.
            room.copy(fixed.bytes.span, from: entry.start, count: nameCount + 2, to: start)
            let count = try writeValue(value, of: block, to: &room, at: start + nameCount + 2)
            return classifier.line(room.span, at: start, named: entry.line, valueCount: count)
        case .dynamic(let entry):
            let nameCount = Int(entry.line.nameCount)
            room.copy(table.bytes.span, from: Int(entry.start), count: nameCount + 2, to: start)
            let count = try writeValue(value, of: block, to: &room, at: start + nameCount + 2)
            return classifier.line(room.span, at: start, named: entry.line, valueCount: count)
        case .string(let string):
            let nameCount = try write(string, of: block, to: &room, at: start)
            room[start + nameCount] = UInt8(ascii: ":")
            room[start + nameCount + 1] = UInt8(ascii: " ")
            let count = try writeValue(value, of: block, to: &room, at: start + nameCount + 2)
            return classifier.line(room.span, at: start, nameCount: nameCount, valueCount: count)
        }
    }

    @inline(__always)
    private func writeValue(
        _ value: EncodedString, of block: Span<UInt8>, to room: inout MutableSpan<UInt8>, at start: Int
    ) throws(HPACKError) -> Int {
        let count = try write(value, of: block, to: &room, at: start)
        room[start + count] = 0x0d
        room[start + count + 1] = 0x0a
        return count
    }

    @inline(__always)
    private func write(
        _ string: EncodedString, of block: Span<UInt8>, to room: inout MutableSpan<UInt8>, at start: Int
    ) throws(HPACKError) -> Int {
        guard string.isHuffman else {
            room.copy(block, from: string.start, count: string.count, to: start)
            return string.count
        }
        guard
            let count = huffman.decode(block, from: string.start, count: string.count, into: &room, at: start)
        else { throw .compression }
        return count
    }
}
