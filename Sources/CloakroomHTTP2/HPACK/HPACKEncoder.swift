public import CloakroomWire
public import NIOCore

/// Encodes the header blocks of one connection's responses (RFC 7541).
///
/// The dynamic table has at most 4,096 bytes, whatever the client allows, and is searched by hash: the cost of a field
/// does not depend on it. A line is inserted when it recurs on the connection, so that unique values never evict
/// entries. Only inserted lines are Huffman-encoded, and only if that is shorter.
///
/// A block that has been encoded must be sent, before any later one: the client's table would otherwise differ, and the
/// client would decode later responses to other fields.
public struct HPACKEncoder: ~Copyable {
    /// Which line of the dynamic table, or which line sent before, has a hash.
    private struct Slot {
        /// The number of the insertion, modulo 2^16. The entry is compared in full.
        var insertion: UInt16 = 0
        /// Part of the hash of the line that was sent last.
        var tag: UInt16 = 0
    }

    /// The maximum size of the dynamic table (RFC 7541 §4.1).
    public static let maxTableLimit = 4_096
    private static let slotCount = 256

    var table = DynamicTable(limit: maxTableLimit)
    /// Direct-mapped by hash; empty until a line can be inserted.
    private var slots: [Slot] = []
    /// The limit of the table that applies from the next block on.
    var nextLimit = maxTableLimit
    /// The lowest limit since the last block.
    var lowestLimit = maxTableLimit
    // Copies of globals, whose access would check each time whether they are initialized.
    let huffman = Huffman.shared
    private let names = ResponseFieldNames.shared
    private let knownFields = KnownFieldTable.shared

    /// Creates an encoder with an empty table.
    public init() {}

    /// Applies the client's SETTINGS_HEADER_TABLE_SIZE, capped at ``maxTableLimit``. The next block begins with the
    /// change, after the lowest size in between (RFC 7541 §4.2).
    public mutating func setPeerTableLimit(_ limit: Int) {
        nextLimit = min(max(limit, 0), Self.maxTableLimit)
        lowestLimit = min(lowestLimit, nextLimit)
    }

    /// Frees memory that is not needed: called when a connection becomes idle.
    public mutating func compact() {
        table.compact()
        // Lines that recur are inserted again.
        slots = []
    }

    /// The lines of the dynamic table, the newest first: for tests.
    package var tableLines: [[UInt8]] { table.lines }

    /// The number of bytes allocated for the dynamic table and its index.
    package var allocatedBytes: Int { table.allocatedBytes + slots.capacity * MemoryLayout<Slot>.stride }

    // MARK: - Blocks

    /// Starts a block.
    /// - Parameter status: The value of `:status`, 100...999; `nil` for trailers, which have no pseudo-field.
    public mutating func begin(status: Int?, into out: inout ByteBuffer) {
        Self.write(upTo: 16, to: &out) { room in
            var end = 0
            writeTableLimits(to: &room, at: &end)
            if let status { Self.write(status: status, to: &room, at: &end) }
            return end
        }
    }

    /// Adds the fields of a response that are not stripped, with names in lower case.
    /// - Parameter except: The name of a field that is omitted, in lower case.
    public mutating func add(
        _ head: borrowing ResponseHead, except: StaticString? = nil, cache: ResponseLineCache,
        into out: inout ByteBuffer
    ) {
        let bytes = head.bytes.readableBytesUInt8Span
        var count = 0
        for field in head.fields { count += Int(field.nameCount) + Int(field.valueCount) + 16 }
        Self.write(upTo: count, to: &out) { room in
            var end = 0
            for field in head.fields where !field.isStripped {
                let line = ReceivedLine(
                    start: Int(field.nameStart), nameCount: Int(field.nameCount), valueStart: Int(field.valueStart),
                    valueCount: Int(field.valueCount))
                if let except,
                    ResponseFieldNames.equals(bytes, from: line.start, count: line.nameCount, except)
                {
                    continue
                }
                encode(bytes, line, field.name, &cache.lines, to: &room, at: &end)
            }
            return end
        }
    }

    /// Adds complete lines `name: value CR LF` that are known to be well formed, with names in lower case and without
    /// the white space around values. Lines that recur are inserted in the table, as those of upstreams.
    public mutating func add(lines bytes: Span<UInt8>, cache: ResponseLineCache, into out: inout ByteBuffer) {
        Self.write(upTo: Self.maxEncodedCount(bytes.count), to: &out) { room in
            var end = 0
            var index = 0
            while index < bytes.count {
                let line = Self.nextLine(bytes, at: &index)
                let field = knownFields.field(bytes, from: line.start, count: line.nameCount)
                encode(bytes, line, field, &cache.lines, to: &room, at: &end)
            }
            return end
        }
    }

    /// Adds a prepared line.
    public mutating func add(_ line: PreparedLine, into out: inout ByteBuffer) {
        Self.write(upTo: Self.maxEncodedCount(line.bytes.count), to: &out) { room in
            var end = 0
            encode(line.entry, line.bytes.span, at: 0, to: &room, at: &end)
            return end
        }
    }

    /// Adds a field that is not inserted in the table: for values that change with each response.
    /// - Parameters:
    ///   - name: The name in lower case.
    ///   - value: The value, without white space around it.
    public mutating func add(name: StaticString, value: Span<UInt8>, into out: inout ByteBuffer) {
        name.withUTF8Buffer { text in
            let nameBytes = Span(_unsafeElements: text)
            Self.write(upTo: Self.maxEncodedCount(nameBytes.count + value.count + 4), to: &out) { room in
                var end = 0
                let field = knownFields.field(nameBytes, from: 0, count: nameBytes.count)
                let name = names.name(nameBytes, from: 0, count: nameBytes.count, field)
                writeName(nameBytes, 0, nameBytes.count, name, to: &room, at: &end)
                Self.writeText(value, from: 0, count: value.count, to: &room, at: &end)
                return end
            }
        }
    }

    private static func nextLine(_ bytes: Span<UInt8>, at index: inout Int) -> ReceivedLine {
        let start = index
        while index < bytes.count, bytes[index] != UInt8(ascii: ":") { index += 1 }
        let nameCount = index - start
        index += 1
        while index < bytes.count, Byte.isBlank(bytes[index]) { index += 1 }
        let valueStart = min(index, bytes.count)
        while index < bytes.count, bytes[index] != 0x0d { index += 1 }
        var valueEnd = min(index, bytes.count)
        while valueEnd > valueStart, Byte.isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
        index += 2
        return ReceivedLine(
            start: start, nameCount: nameCount, valueStart: valueStart, valueCount: valueEnd - valueStart)
    }
}

// MARK: - Fields

extension HPACKEncoder {
    /// Encodes a line that has been received, or that is written as if it had been.
    @inline(__always)
    private mutating func encode(
        _ bytes: Span<UInt8>, _ line: ReceivedLine, _ field: KnownField, _ cache: inout CachedLines,
        to room: inout MutableSpan<UInt8>, at end: inout Int
    ) {
        let count = line.count
        var slot = 0
        // Frequent fields that are not inserted are not cached either.
        if count <= CachedLines.maxLineCount, field != .contentLength, field != .setCookie {
            let hash = LineHash.hash(bytes, from: line.start, count: count)
            slot = CachedLines.slot(hash)
            var entry = cache.entry(at: slot, bytes, from: line.start, count: count)
            if entry == nil {
                // Each line has two slots, so that two lines that recur rarely displace each other for ever.
                let second = CachedLines.slot(hash >> 8)
                entry = cache.entry(at: second, bytes, from: line.start, count: count)
                slot = entry == nil ? cache.freeSlot(slot, second) : second
            }
            if let entry {
                return encode(entry, cache.finished.span, at: CachedLines.finishedStart(slot), to: &room, at: &end)
            }
        }
        let name = names.name(bytes, from: line.start, count: line.nameCount, field)
        if name.indexing == .indexed, count <= CachedLines.maxLineCount {
            cache.insert(at: slot, bytes, line, nameIndex: name.index)
        }
        writeName(bytes, line.start, line.nameCount, name, to: &room, at: &end)
        Self.writeText(bytes, from: line.valueStart, count: line.valueCount, to: &room, at: &end)
    }

    /// Encodes a line that recurs on this event loop.
    @inline(__always)
    private mutating func encode(
        _ entry: CachedLines.Entry, _ lines: Span<UInt8>, at start: Int, to room: inout MutableSpan<UInt8>,
        at end: inout Int
    ) {
        let line = FieldLine(
            nameCount: UInt16(entry.nameCount), valueCount: UInt16(entry.valueCount), field: .other, role: .plain)
        // A table that a few lines fill is not used.
        guard line.tableSize <= table.limit / 8 else {
            return writeLiteral(entry, lines, at: start, to: &room, at: &end)
        }
        if slots.isEmpty { slots = Array(repeating: Slot(), count: Self.slotCount) }
        // The tag of a line that was sent is not 0, which is that of a free slot.
        let tag = UInt16(truncatingIfNeeded: entry.hash >> 48) | 1
        var index = Int(truncatingIfNeeded: entry.hash) & (Self.slotCount - 1)
        if slots[index].tag != tag, slots[index].tag != 0 {
            let second = Int(truncatingIfNeeded: entry.hash >> 8) & (Self.slotCount - 1)
            if slots[second].tag == tag || slots[second].tag == 0 { index = second }
        }
        let slot = slots[index]
        let age = Int(UInt16(truncatingIfNeeded: table.inserted) &- slot.insertion)
        if age < table.count, isEntry(age, line, lines, at: start) {
            return HPACKInteger.write(StaticTable.count + 1 + age, prefix: 0x7f, flags: 0x80, to: &room, at: &end)
        }
        // The loop's cache is shared by all connections. If it alone decided, the representation would reveal which
        // lines other clients received.
        guard slot.tag == tag else {
            slots[index].tag = tag
            return writeLiteral(entry, lines, at: start, to: &room, at: &end)
        }
        writeInsertion(entry, lines, at: start, to: &room, at: &end)
        table.insert(lines, at: start, line)
        // The number of the newest entry is the number of insertions.
        slots[index].insertion = UInt16(truncatingIfNeeded: table.inserted)
    }

    @inline(__always)
    private func isEntry(_ age: Int, _ line: FieldLine, _ lines: Span<UInt8>, at start: Int) -> Bool {
        let entry = table.entry(age)
        return entry.line.nameCount == line.nameCount && entry.line.valueCount == line.valueCount
            && lines.equals(table.bytes.span, at: start, otherStart: Int(entry.start), count: line.count)
    }

    private func writeInsertion(
        _ entry: CachedLines.Entry, _ lines: Span<UInt8>, at start: Int, to room: inout MutableSpan<UInt8>,
        at end: inout Int
    ) {
        HPACKInteger.write(Int(entry.nameIndex), prefix: 0x3f, flags: 0x40, to: &room, at: &end)
        let nameCount = Int(entry.nameCount)
        if entry.nameIndex == 0 { writeShorter(lines, from: start, count: nameCount, to: &room, at: &end) }
        writeShorter(lines, from: start + nameCount + 2, count: Int(entry.valueCount), to: &room, at: &end)
    }

    private func writeLiteral(
        _ entry: CachedLines.Entry, _ lines: Span<UInt8>, at start: Int, to room: inout MutableSpan<UInt8>,
        at end: inout Int
    ) {
        HPACKInteger.write(Int(entry.nameIndex), prefix: 0x0f, flags: 0, to: &room, at: &end)
        let nameCount = Int(entry.nameCount)
        if entry.nameIndex == 0 { Self.writeText(lines, from: start, count: nameCount, to: &room, at: &end) }
        Self.writeText(lines, from: start + nameCount + 2, count: Int(entry.valueCount), to: &room, at: &end)
    }
}
