import CloakroomWire
import NIOCore

/// A slow reference parser for an accepted head: splits it into lines, and lines at the first colon.
struct PlainHead {
    let startLine: [UInt8]
    private(set) var fields: [(name: String, value: [UInt8])] = []

    /// - Throws: ``Violation`` if the head should have been rejected.
    init(_ head: ByteBuffer) throws(Violation) {
        let bytes = Array(head.readableBytesView)
        var lines = try Self.lines(bytes)
        try require(lines.count >= 3 && lines.suffix(2).allSatisfy(\.isEmpty), "a head does not end in an empty line")
        startLine = lines.removeFirst()
        fields = try Self.fields(lines.dropLast(2))
    }

    /// - Parameter section: Field lines, each with its line end.
    static func fields(ofTrailers section: ByteBuffer) throws(Violation) -> [(name: String, value: [UInt8])] {
        let lines = try lines(Array(section.readableBytesView))
        try require(lines.last?.isEmpty == true, "a trailer section ends within a line")
        return try fields(lines.dropLast())
    }

    private static func fields(_ lines: some Sequence<[UInt8]>) throws(Violation) -> [(name: String, value: [UInt8])] {
        var fields: [(name: String, value: [UInt8])] = []
        for line in lines {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw Violation("a line without colon") }
            try require(colon > 0 && line[..<colon].allSatisfy(isToken), "a field name that is not a token")
            let value = trimmed(line[(colon + 1)...])
            try require(!value.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f }, "a control in a field value")
            fields.append((String(decoding: line[..<colon], as: UTF8.self).lowercased(), value))
        }
        return fields
    }

    /// Lines without their ends. Bytes after the last line end count as a line.
    private static func lines(_ bytes: [UInt8]) throws(Violation) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var start = 0
        for index in bytes.indices {
            let byte = bytes[index]
            if byte == 0x0a {
                try require(index > start && bytes[index - 1] == 0x0d, "a bare LF was accepted")
                lines.append(Array(bytes[start..<(index - 1)]))
                start = index + 1
            } else if byte == 0x0d {
                try require(index + 1 < bytes.count && bytes[index + 1] == 0x0a, "a bare CR was accepted")
            } else {
                try require(byte != 0, "a NUL was accepted")
            }
        }
        lines.append(Array(bytes[start...]))
        return lines
    }

    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    static func trimmed(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var bytes = bytes
        while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
        while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
        return Array(bytes)
    }

    /// The values of all fields with a name, which is given in lower case.
    func values(_ name: String) -> [String] {
        fields.filter { $0.name == name }.map { String(decoding: $0.value, as: UTF8.self) }
    }

    /// Checks that the parsed fields equal those of the reference parser.
    func check(_ index: [FieldSlice], in head: ByteBuffer) throws(Violation) {
        try Self.check(index, in: head, are: fields)
    }

    static func check(
        _ index: [FieldSlice], in bytes: ByteBuffer, are fields: [(name: String, value: [UInt8])]
    ) throws(Violation) {
        try require(index.count == fields.count, "\(index.count) fields were parsed, \(fields.count) are present")
        for (entry, field) in zip(index, fields) {
            let name = text(entry.nameRange, bytes).lowercased()
            try require(name == field.name, "a name was parsed as \(name) and is \(field.name)")
            try require(
                bytes.getBytes(at: bytes.readerIndex + entry.valueRange.start, length: entry.valueRange.count)
                    == field.value, "the value of \(name) was parsed differently")
            try require(entry.name == known[name] ?? .other, "\(name) was identified as \(entry.name)")
        }
    }

    private static let known = Dictionary(
        uniqueKeysWithValues: KnownField.allCases.filter { $0 != .other }.map { ($0.text, $0) })

    static func text(_ range: ByteRange, _ bytes: ByteBuffer) -> String {
        let slice = bytes.getBytes(at: bytes.readerIndex + range.start, length: range.count) ?? []
        return String(decoding: slice, as: UTF8.self)
    }
}
