import CloakroomWire
import NIOCore
import TestSupport
import Testing

extension RequestHead {
    /// Creates a request with the given field lines.
    static func with(_ lines: String..., start: String = "GET / HTTP/1.1") throws -> RequestHead {
        try with(lines: lines, start: start)
    }

    /// Creates a request from an array of field lines.
    static func with(lines: [String], start: String = "GET / HTTP/1.1") throws -> RequestHead {
        var head = RequestHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: start + "\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        try require(isComplete)
        return head
    }

    /// The field lines that the policy kept.
    var kept: [String] { fields.keptLines(bytes) }
}

extension ResponseHead {
    /// Creates a response with the given field lines.
    static func with(_ lines: String...) throws -> ResponseHead {
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: "HTTP/1.1 200 OK\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        try require(isComplete)
        return head
    }

    /// The field lines that the policy kept.
    var kept: [String] { fields.keptLines(bytes) }
}

extension RequestHead {
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
