import CloakroomWire
import NIOCore

/// An incremental parser of RESP3 (and RESP2), for pieces of any size.
///
/// Incomplete aggregates are kept on a stack, so nothing is parsed twice. The first error is final: ``next()`` throws
/// it again from then on.
///
/// Folder `RESP/`: the wire format of commands and replies; knows no session.
struct RESPParser {
    /// An aggregate with missing members.
    private struct Aggregate {
        enum Kind { case array, map, set, push, attribute }

        let kind: Kind
        var missing: Int
        var members: [RESPValue] = []
    }

    private let limits: RESPLimits
    private var buffer = ByteBuffer()
    /// The number of bytes from the reader index without a line end.
    private var scanned = 0
    private var rows: [Aggregate] = []
    /// The number of members of the current value.
    private var members = 0
    private var bytes = 0
    private var failure: RESPProtocolError?

    init(limits: RESPLimits = RESPLimits()) {
        self.limits = limits
    }

    mutating func append(_ piece: ByteBuffer) {
        guard buffer.readableBytes > 0 else {
            buffer = piece
            return
        }
        // Strings are slices of the buffer. Without a new one, each string of a message in many pieces would keep a
        // copy of everything before it. While one long string is incomplete, nothing is read, so nothing is copied again.
        if buffer.readerIndex > 0 {
            var unread = ByteBuffer()
            unread.reserveCapacity(buffer.readableBytes + piece.readableBytes)
            unread.writeImmutableBuffer(buffer)
            buffer = unread
        }
        buffer.writeImmutableBuffer(piece)
    }

    /// The next value.
    /// - Returns: `nil` if the value is incomplete.
    mutating func next() throws(RESPProtocolError) -> RESPValue? {
        if let failure { throw failure }
        do {
            while let value = try scalarOrAggregate() {
                if let whole = try close(value) {
                    (members, bytes) = (0, 0)
                    return whole
                }
            }
            buffer.releaseReadStorage()
            return nil
        } catch {
            failure = error
            rows = []
            buffer = ByteBuffer()
            throw error
        }
    }

    /// Storage of what is kept between two calls, in bytes, without that of complete members.
    var storage: Int {
        rows.reduce(buffer.storageCapacity) { $0 + $1.members.capacity * MemoryLayout<RESPValue>.stride }
    }

    /// Adds a value to the innermost open aggregate, and closes the aggregates that it completes.
    /// - Returns: The value, if no aggregate is open any more.
    private mutating func close(_ value: RESPValue?) throws(RESPProtocolError) -> RESPValue? {
        var value = value
        while var row = rows.popLast() {
            if let member = value {
                row.members.append(member)
                row.missing -= 1
            }
            guard row.missing == 0 else {
                rows.append(row)
                return nil
            }
            // Attributes describe the value that follows. They are ignored.
            value = row.kind == .attribute ? nil : Self.value(of: row)
            if value == nil { return nil }
        }
        return value
    }

    private static func value(of row: Aggregate) -> RESPValue {
        switch row.kind {
        case .array, .attribute: .array(row.members)
        case .set: .set(row.members)
        case .push: .push(row.members)
        case .map: .map(row.members)
        }
    }

    /// Parses a scalar value, or opens an aggregate.
    /// - Returns: `nil` if data is missing; `.some(nil)` if an aggregate was opened or closed without a value.
    private mutating func scalarOrAggregate() throws(RESPProtocolError) -> RESPValue?? {
        guard let type = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self) else { return nil }
        switch type {
        case UInt8(ascii: "$"), UInt8(ascii: "!"), UInt8(ascii: "="): return try string(type).map { .some($0) }
        case UInt8(ascii: "*"): return try open(.array)
        case UInt8(ascii: "%"): return try open(.map)
        case UInt8(ascii: "~"): return try open(.set)
        case UInt8(ascii: ">"): return try open(.push)
        case UInt8(ascii: "|"): return try open(.attribute)
        case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: ":"), UInt8(ascii: "_"), UInt8(ascii: "#"),
            UInt8(ascii: ","), UInt8(ascii: "("):
            guard let line = try readLine() else { return nil }
            guard bytes + line.utf8.count <= limits.bytes else { throw .tooLong }
            bytes += line.utf8.count
            return .some(try Self.scalar(type, line))
        case UInt8(ascii: ";"), UInt8(ascii: "."): throw .streamed
        default: throw .unknownType
        }
    }

    private mutating func open(_ kind: Aggregate.Kind) throws(RESPProtocolError) -> RESPValue?? {
        guard let line = try readLine() else { return nil }
        if kind == .array, line == "-1" { return .some(.null) }
        guard line != "?" else { throw .streamed }
        // A push is a message of its own. Inside a reply its receiver would be ambiguous.
        guard kind != .push || rows.isEmpty else { throw .nestedPush }
        let count = try Self.count(line)
        // Checked before doubling, which could otherwise overflow.
        guard count <= limits.members else { throw .tooMany }
        let missing = kind == .map || kind == .attribute ? 2 * count : count
        // An empty attribute counts too: bytes that are kept by nothing else could follow without end.
        members += kind == .attribute ? max(1, missing) : missing
        guard members <= limits.members else { throw .tooMany }
        if missing == 0 { return .some(kind == .attribute ? nil : Self.value(of: Aggregate(kind: kind, missing: 0))) }
        guard rows.count < limits.depth else { throw .tooDeep }
        var row = Aggregate(kind: kind, missing: missing)
        // The announced length is trusted up to this number before any member has arrived.
        row.members.reserveCapacity(min(missing, 64))
        rows.append(row)
        return .some(nil)
    }

    /// Parses a string with a length prefix. Consumes nothing until the string is complete.
    private mutating func string(_ type: UInt8) throws(RESPProtocolError) -> RESPValue? {
        let start = buffer.readerIndex
        guard let line = try readLine() else { return nil }
        if type == UInt8(ascii: "$"), line == "-1" { return .null }
        guard line != "?" else { throw .streamed }
        let count = try Self.count(line)
        // An error is a line in another form.
        let limit = type == UInt8(ascii: "!") ? limits.line : limits.blob
        guard count <= limit, bytes + count <= limits.bytes else { throw .tooLong }
        guard buffer.readableBytes >= count + 2 else {
            buffer.moveReaderIndex(to: start)
            return nil
        }
        guard var contents = buffer.readSlice(length: count),
            buffer.readInteger(as: UInt16.self) == 0x0d0a
        else { throw .malformedString }
        // A slice keeps the whole buffer of its read, which may contain little else that is kept.
        contents.releaseReadStorage()
        bytes += count
        switch type {
        case UInt8(ascii: "$"): return .blob(contents)
        case UInt8(ascii: "!"): return .error(RESPError(line: String(ascii: contents.readableBytesView)))
        default:
            var text = contents
            guard let format = text.readString(length: 3), text.readInteger(as: UInt8.self) == UInt8(ascii: ":") else {
                throw .malformedString
            }
            return .verbatim(format: format, text)
        }
    }

    /// Parses a line, without its first byte and its end.
    private mutating func readLine() throws(RESPProtocolError) -> String? {
        let view = buffer.readableBytesView
        let from = view.index(view.startIndex, offsetBy: min(scanned, view.count))
        guard let end = view[from...].firstIndex(of: 0x0a) else {
            scanned = view.count
            guard view.count <= limits.line else { throw .tooLong }
            return nil
        }
        scanned = 0
        let length = end - view.startIndex
        guard length <= limits.line else { throw .tooLong }
        guard length >= 2, view[end - 1] == 0x0d else { throw .malformedLine }
        let contents = view[(view.startIndex + 1)..<(end - 1)]
        guard !contents.contains(0x0d) else { throw .malformedLine }
        let line = String(ascii: contents)
        buffer.moveReaderIndex(forwardBy: length + 1)
        return line
    }

    private static func scalar(_ type: UInt8, _ line: String) throws(RESPProtocolError) -> RESPValue {
        switch type {
        case UInt8(ascii: "+"): return .simple(line)
        case UInt8(ascii: "-"): return .error(RESPError(line: line))
        case UInt8(ascii: "_"): if line.isEmpty { return .null }
        case UInt8(ascii: "#"): if line == "t" || line == "f" { return .boolean(line == "t") }
        case UInt8(ascii: ":"): if let number = Int64(line) { return .integer(number) }
        case UInt8(ascii: ","):
            // Only the characters of RESP3: Swift would parse hexadecimal digits too.
            let isPlain = line.utf8.allSatisfy { (0x30...0x39).contains($0) || "+-.eE".utf8.contains($0) }
            if isPlain || ["inf", "-inf", "nan"].contains(line), let number = Double(line) { return .double(number) }
        default:
            let digits = line.hasPrefix("-") || line.hasPrefix("+") ? line.dropFirst() : line[...]
            if !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return .bigNumber(line) }
        }
        throw type == UInt8(ascii: "_") ? RESPProtocolError.malformedLine : .malformedNumber
    }

    /// Parses a length: digits only, and not more than the largest number has. The length of an incomplete string is
    /// parsed again with each piece.
    private static func count(_ line: String) throws(RESPProtocolError) -> Int {
        guard line.utf8.count <= 19, line.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(line) else {
            throw .malformedNumber
        }
        return count
    }
}

/// Limits for the memory that one value of a server may use. A larger value is a protocol error: stored values are
/// small.
struct RESPLimits: Sendable {
    /// The maximum length of a line or an error, in bytes.
    var line = 64 * 1024
    /// The maximum length of a string, in bytes. The longest is a sealed session: its tokens, documents and claims have at
    /// most 16 KiB each.
    var blob = 128 * 1024
    /// The maximum length of all strings and lines of one value, in bytes. The longest is the index of an account.
    var bytes = 16 * 1024 * 1024
    /// The maximum number of members of one value, including nested members.
    var members = 1_000_000
    /// The maximum nesting depth of values.
    var depth = 16
}

/// The server sent invalid RESP. The data after it cannot be parsed.
enum RESPProtocolError: Error {
    case unknownType, malformedLine, malformedNumber, malformedString, tooLong, tooMany, tooDeep
    /// Strings and aggregates without a length. No server sends them.
    case streamed
    /// A push inside another value.
    case nestedPush
}
