public import CloakroomWire
import NIOCore

/// Decodes the header blocks of one connection's requests (RFC 7541), directly to ``RequestHead``.
///
/// A request that is malformed or exceeds a limit is decoded to its end without keeping its lines, so that the dynamic
/// table is the same as the client's and the connection remains usable.
public struct HPACKDecoder: ~Copyable {
    var table: DynamicTable
    /// The limit of the table that the gateway announced.
    private let tableLimit: Int
    // Copies of globals, whose access would check each time whether they are initialized.
    let fixed = StaticTable.shared
    let huffman = Huffman.shared
    let classifier = FieldLineClassifier()

    /// Creates a decoder with an empty table.
    /// - Parameter tableLimit: The SETTINGS_HEADER_TABLE_SIZE that is announced to the client, 0...16,384. The table
    ///   has at most 4,096 bytes until the client changes it.
    public init(tableLimit: Int = 4_096) {
        self.tableLimit = min(max(tableLimit, 0), DynamicTable.maxLimit)
        table = DynamicTable(limit: min(self.tableLimit, 4_096))
    }

    /// Decodes the header block of a request.
    ///
    /// The lines are written to the head in their order, pseudo-fields included: method and target are ranges of their
    /// values, and the first field is `:authority`, as ``KnownField/host``. The other pseudo-fields are not fields of
    /// the head. An empty line ends the bytes.
    /// - Parameters:
    ///   - block: The block, complete: the fragments of HEADERS and all CONTINUATION frames.
    ///   - head: Its contents are replaced. Its storage is reused if it has no other owner.
    /// - Throws: ``HPACKError``, after which the decoder is unusable.
    public mutating func decodeRequest(
        _ block: Span<UInt8>, limits: HeadLimits, into head: inout RequestHead
    ) throws(HPACKError) -> RequestBlockResult {
        var assembly = RequestAssembly(limits: limits)
        do {
            try decode(block, &assembly, into: &head)
        } catch {
            Self.clear(&head)
            throw error
        }
        switch assembly.verdict {
        case .valid:
            head.method = assembly.method
            head.target = assembly.target
            head.minorVersion = 1
            if assembly.hasScatteredCookies { CookieJoining.join(&head) }
            head.bytes.writeStaticString("\r\n")
            return .request(assembly.request)
        case .malformed:
            Self.clear(&head)
            return .malformed
        case .tooLarge(let error):
            Self.clear(&head)
            return .tooLarge(error)
        }
    }

    /// Decodes the header block after a request's body.
    /// - Throws: ``HPACKError``, after which the decoder is unusable.
    public mutating func decodeTrailers(_ block: Span<UInt8>) throws(HPACKError) -> TrailerBlockResult {
        var assembly = RequestAssembly(limits: HeadLimits(head: 8_192, fields: 100), isTrailer: true)
        var lines = RequestHead()
        try decode(block, &assembly, into: &lines)
        guard assembly.verdict == .valid else { return .malformed }
        guard !lines.fields.isEmpty else { return .trailers(nil) }
        do throws(WireError) {
            return .trailers(try TrailerSection(lines: lines.bytes))
        } catch {
            return .malformed
        }
    }

    /// Frees memory that the entries of the table do not use: called when a connection becomes idle.
    public mutating func compact() {
        table.compact()
    }

    /// The lines of the dynamic table, the newest first: for tests.
    package var tableLines: [[UInt8]] { table.lines }

    /// The number of bytes allocated for the dynamic table.
    package var allocatedBytes: Int { table.allocatedBytes }

    private static func clear(_ head: inout RequestHead) {
        head.fields.removeAll(keepingCapacity: true)
        head.bytes.clear()
        head.method = ByteRange(start: 0, count: 0)
        head.target = ByteRange(start: 0, count: 0)
    }
}

// MARK: - Blocks

extension HPACKDecoder {
    /// Decodes a block and leaves the kept lines in the head.
    private mutating func decode(
        _ block: Span<UInt8>, _ assembly: inout RequestAssembly, into head: inout RequestHead
    ) throws(HPACKError) {
        Self.clear(&head)
        var index = 0
        try updateTableLimit(block, at: &index)
        // Taken out of the head, because a span of one of its parts would otherwise exclude access to the others.
        var bytes = ByteBuffer()
        swap(&bytes, &head.bytes)
        defer { swap(&bytes, &head.bytes) }
        bytes.reserveCapacity(1_024)
        while true {
            // The whole buffer is made accessible; the assembly limits what is meaningful.
            bytes.moveWriterIndex(to: bytes.capacity)
            var raw = bytes.mutableReadableBytesSpan
            var room = raw._unsafeMutableView(as: UInt8.self)
            let needed = try decodeFields(block, at: &index, &assembly, in: &room, fields: &head.fields)
            if needed == 0 { assembly.finish(in: &room, fields: &head.fields) }
            bytes.moveWriterIndex(to: assembly.end)
            guard needed > 0 else { return }
            bytes.reserveCapacity(needed)
        }
    }

    /// Reads the table size updates at the start of a block: at most two (RFC 7541 §4.2).
    private mutating func updateTableLimit(_ block: Span<UInt8>, at index: inout Int) throws(HPACKError) {
        var updates = 0
        while index < block.count, block[index] & 0xe0 == 0x20 {
            let limit = try HPACKInteger.read(block, at: &index, prefix: 0x1f)
            updates += 1
            guard limit <= tableLimit, updates <= 2 else { throw .compression }
            table.setLimit(limit)
        }
    }

    /// Decodes fields from a position on.
    /// - Returns: 0 at the end of the block; otherwise the size of the room that the field at the position needs.
    private mutating func decodeFields(
        _ block: Span<UInt8>, at index: inout Int, _ assembly: inout RequestAssembly,
        in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]
    ) throws(HPACKError) -> Int {
        while index < block.count {
            let first = block[index]
            let start = index
            let needed: Int
            if first & 0x80 != 0 {
                needed = try decodeIndexed(block, at: &index, &assembly, in: &room, fields: &fields)
            } else {
                // A table size update is only allowed at the start of a block.
                guard first & 0xe0 != 0x20 else { throw .compression }
                needed = try decodeLiteral(block, at: &index, &assembly, in: &room, fields: &fields)
            }
            if needed > 0 {
                index = start
                return needed
            }
        }
        return 0
    }

    /// Decodes a field that is an entry of a table (RFC 7541 §6.1).
    @inline(__always)
    private func decodeIndexed(
        _ block: Span<UInt8>, at index: inout Int, _ assembly: inout RequestAssembly,
        in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]
    ) throws(HPACKError) -> Int {
        let number = try HPACKInteger.read(block, at: &index, prefix: 0x7f)
        let line: FieldLine
        if number <= StaticTable.count {
            guard number > 0 else { throw .compression }
            let entry = fixed.entries[number]
            line = entry.line
            guard hasRoom(for: line, &assembly, in: room) else { return assembly.end + line.count }
            if assembly.keepsLines {
                room.copy(fixed.bytes.span, from: entry.start, count: line.count, to: assembly.end)
            }
        } else {
            let entry = try dynamicEntry(number)
            line = entry.line
            guard hasRoom(for: line, &assembly, in: room) else { return assembly.end + line.count }
            if assembly.keepsLines {
                room.copy(table.bytes.span, from: Int(entry.start), count: line.count, to: assembly.end)
            }
        }
        assembly.takeOrDrop(line, in: &room, fields: &fields)
        return 0
    }

    /// Rejects a line that exceeds the limit of the head.
    /// - Returns: Whether the room is large enough for it, if it is kept.
    @inline(__always)
    private func hasRoom(
        for line: FieldLine, _ assembly: inout RequestAssembly, in room: borrowing MutableSpan<UInt8>
    ) -> Bool {
        guard assembly.keepsLines else { return true }
        let end = assembly.end + line.count
        guard end <= assembly.maxEnd else {
            let isLongTarget = line.role == .path && Int(line.valueCount) > assembly.maxTarget
            assembly.reject(.tooLarge(isLongTarget ? .targetTooLong : .headTooLarge))
            return true
        }
        return end <= room.count
    }

    @inline(__always)
    func dynamicEntry(_ number: Int) throws(HPACKError) -> DynamicTable.Entry {
        let age = number - StaticTable.count - 1
        guard age < table.count else { throw .compression }
        return table.entry(age)
    }
}

/// A header block that cannot be decoded. It ends the connection with COMPRESSION_ERROR, because the dynamic table is
/// unknown afterwards (RFC 9113 §4.3).
public enum HPACKError: Error, Sendable, Hashable {
    /// An index beyond the tables, an integer or string that is invalid or does not end in the block, or a table size
    /// update that is not allowed (RFC 7541 §2.3.3, §4.2, §5.1, §5.2).
    case compression
}
