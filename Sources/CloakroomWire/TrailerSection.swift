public import NIOCore

/// The trailer fields of a chunked message (RFC 9110 §6.5, RFC 9112 §7.1.2), parsed as strictly as those of a head.
public struct TrailerSection: Sendable, Equatable {
    /// The field lines, each with its line end, without the empty line after them.
    public private(set) var bytes: ByteBuffer
    /// The positions of the fields in the bytes, in order; never empty.
    public var fields: [FieldSlice]

    /// The maximum number of bytes of a section, including the empty line.
    static let byteLimit = 8_192
    /// The maximum number of fields of a section.
    static let fieldLimit = 100

    /// Parses field lines, each with its line end, without the empty line after them.
    /// - Throws: ``WireError`` if the lines are malformed or there is no field.
    public init(lines: ByteBuffer) throws(WireError) {
        var scan = TrailerScan()
        var closed = lines
        closed.writeStaticString("\r\n")
        guard let end = try scan.advance(closed.readableBytesUInt8Span), end == lines.readableBytes else {
            throw .trailer
        }
        guard end > 0 else { throw .trailer }
        self.init(bytes: lines, count: scan.count)
    }

    /// Creates a section from scanned lines.
    init(bytes: ByteBuffer, count: Int) {
        self.bytes = bytes
        self.fields = Self.index(bytes.readableBytesUInt8Span, count: count)
    }

    /// Returns the positions of the fields in lines that are known to be well formed.
    private static func index(_ bytes: Span<UInt8>, count: Int) -> [FieldSlice] {
        let names = KnownFieldTable.shared
        var fields: [FieldSlice] = []
        fields.reserveCapacity(count)
        var index = 0
        while index < bytes.count {
            let nameStart = index
            while index < bytes.count, bytes[index] != Byte.colon { index += 1 }
            let nameCount = index - nameStart
            index += 1
            while index < bytes.count, Byte.isBlank(bytes[index]) { index += 1 }
            let valueStart = index
            while index < bytes.count, bytes[index] != Byte.cr { index += 1 }
            var valueEnd = index
            while valueEnd > valueStart, Byte.isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
            fields.append(
                FieldSlice(
                    nameStart: nameStart, nameCount: nameCount, valueStart: valueStart,
                    valueCount: valueEnd - valueStart,
                    name: names.field(bytes, from: nameStart, count: nameCount)))
            index += 2
        }
        return fields
    }
}

/// The progress in a trailer section. The caller passes the same bytes, extended at their end, until the empty line is
/// complete; complete lines are not parsed again.
struct TrailerScan: Sendable {
    /// Offset of the next line.
    private(set) var lineStart: UInt16 = 0
    /// Offset of the next byte in an incomplete line; 0 at its start.
    private var scanned: UInt16 = 0
    /// Offset of the colon in such a line; 0 if it has not been found.
    private var colon: UInt16 = 0
    /// The number of fields parsed so far.
    private(set) var fieldCount: UInt8 = 0

    /// The number of fields parsed so far.
    var count: Int { Int(fieldCount) }

    /// Continues parsing.
    /// - Returns: The offset of the empty line; `nil` if there are not enough bytes yet.
    mutating func advance(_ bytes: Span<UInt8>) throws(WireError) -> Int? {
        let end = min(bytes.count, TrailerSection.byteLimit)
        while true {
            let start = Int(lineStart)
            guard start < end else { break }
            if bytes[start] == Byte.cr {
                guard start + 1 < end else { break }
                guard bytes[start + 1] == Byte.lf else { throw .lineEnd }
                return start
            }
            guard let next = try lineEnd(bytes, to: end) else { break }
            guard count < TrailerSection.fieldLimit else { throw .trailer }
            fieldCount += 1
            lineStart = UInt16(next)
            scanned = 0
            colon = 0
        }
        if bytes.count >= TrailerSection.byteLimit { throw .trailer }
        return nil
    }

    /// Parses the next field line from where parsing stopped.
    /// - Returns: The offset of the line after it; `nil` if there are not enough bytes yet.
    private mutating func lineEnd(_ bytes: Span<UInt8>, to end: Int) throws(WireError) -> Int? {
        let start = Int(lineStart)
        var index = max(start, Int(scanned))
        defer { scanned = UInt16(index) }
        if colon == 0 {
            while index < end, Byte.isToken(bytes[index]) { index += 1 }
            guard index < end else { return nil }
            guard index > start, bytes[index] == Byte.colon else {
                throw bytes[index] == Byte.lf ? .lineEnd : .trailer
            }
            colon = UInt16(index)
            index += 1
        }
        index = Byte.endOfFieldText(bytes, from: index, to: end)
        guard index < end else { return nil }
        guard bytes[index] == Byte.cr else { throw bytes[index] == Byte.lf ? .lineEnd : .trailer }
        guard index + 1 < end else { return nil }
        guard bytes[index + 1] == Byte.lf else { throw .lineEnd }
        return index + 2
    }
}
