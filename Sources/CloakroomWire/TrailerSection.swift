public import NIOCore

/// The trailer fields of a chunked message (RFC 9110 §6.5, RFC 9112 §7.1.2), as strictly read as those of a head.
public struct TrailerSection: Sendable, Equatable {
    /// The field lines, each with its line end; not the empty line behind them.
    public private(set) var bytes: ByteBuffer
    /// Where in the bytes each field stands, in order; never empty.
    public var fields: [FieldSlice]

    /// The most bytes of a section, the empty line behind it included.
    static let byteLimit = 8_192
    /// The most fields of a section.
    static let fieldLimit = 100

    /// Reads field lines, each with its line end, without the empty line behind them.
    /// - Throws: ``WireError`` for what would be refused on the wire, and if there is no field.
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

    /// Takes lines that were scanned.
    init(bytes: ByteBuffer, count: Int) {
        self.bytes = bytes
        self.fields = Self.index(bytes.readableBytesUInt8Span, count: count)
    }

    /// Where the fields stand in lines that are known to be well formed.
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

/// How far a trailer section has been read. It is shown the same bytes, grown at their end, until the empty line is there;
/// lines that are done are not read again.
struct TrailerScan: Sendable {
    /// Offset of the line that is read next.
    private(set) var lineStart: UInt16 = 0
    /// Offset of the byte that is read next in a line that is not complete; 0 if none of it has been read.
    private var scanned: UInt16 = 0
    /// Offset of the colon of such a line; 0 if it has not been found.
    private var colon: UInt16 = 0
    /// How many fields have been read.
    private(set) var fieldCount: UInt8 = 0

    /// How many fields have been read.
    var count: Int { Int(fieldCount) }

    /// Reads on.
    /// - Returns: Where the empty line begins; `nil` if there are not enough bytes yet.
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

    /// Reads the field line that is next, from where reading it stopped.
    /// - Returns: Where the one behind it begins; `nil` if there are not enough bytes yet.
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
