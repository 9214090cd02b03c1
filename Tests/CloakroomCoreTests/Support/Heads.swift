import CloakroomWire
import NIOCore
import Testing

extension RequestHead {
    /// A request with the given field lines.
    static func with(_ lines: String..., start: String = "GET / HTTP/1.1") throws -> RequestHead {
        try with(lines: lines, start: start)
    }

    /// The same with lines that are a list already.
    static func with(lines: [String], start: String = "GET / HTTP/1.1") throws -> RequestHead {
        var head = RequestHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: start + "\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        try #require(isComplete)
        return head
    }

    /// The field lines that policy left.
    var kept: [String] { fields.keptLines(bytes) }
}

extension ResponseHead {
    /// A response with the given field lines.
    static func with(_ lines: String...) throws -> ResponseHead {
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: "HTTP/1.1 200 OK\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        try #require(isComplete)
        return head
    }

    /// The field lines that policy left.
    var kept: [String] { fields.keptLines(bytes) }
}

extension RequestHead {
    /// The bytes at a range as text.
    func text(_ range: ByteRange?) -> String? {
        range.flatMap { bytes.getString(at: bytes.readerIndex + $0.start, length: $0.count) }
    }
}

extension [FieldSlice] {
    fileprivate func keptLines(_ bytes: ByteBuffer) -> [String] {
        let start = bytes.readerIndex
        return filter { !$0.isStripped }.map { field in
            let name = bytes.getString(at: start + field.nameRange.start, length: field.nameRange.count) ?? "?"
            let value = bytes.getString(at: start + field.valueRange.start, length: field.valueRange.count) ?? "?"
            return "\(name): \(value)"
        }
    }
}
