import NIOCore

/// One answer as a client read it.
struct Answer: Sendable {
    var version: String
    var status: Int
    var reason: String
    var fields: [(name: String, value: String)]
    var body = ByteBuffer()
    /// What the body came in: `none`, `length`, `chunked` or `close`.
    var framing = ""

    /// The values of a field, in order.
    func values(_ name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    /// The value of a field that stands once.
    subscript(name: String) -> String? {
        let values = values(name)
        return values.count == 1 ? values[0] : nil
    }

    var text: String { String(buffer: body) }

    /// The `code` of a problem document.
    var code: String? { member("code") }
    /// The `reason` of a problem document.
    var problemReason: String? { member("reason") }

    private func member(_ name: String) -> String? {
        guard self["Content-Type"] == "application/problem+json",
            let start = text.firstRange(of: "\"\(name)\":\"")?.upperBound,
            let end = text[start...].firstIndex(of: "\"")
        else { return nil }
        return String(text[start..<end])
    }
}

/// The connection ended before the answer did.
struct AnswerCut: Error {
    /// What came of it.
    var answer: Answer?
}

extension Answer {
    /// Takes an answer from the front of a buffer.
    /// - Returns: `nil` if it is not complete yet.
    static func read(_ buffer: inout ByteBuffer, isToHead: Bool, isClosed: Bool) throws -> Answer? {
        var rest = buffer
        guard var answer = readHead(&rest) else {
            if isClosed { throw AnswerCut() }
            return nil
        }
        let length = answer["Content-Length"].flatMap { Int($0) }
        var isComplete = true
        if isToHead || answer.status < 200 || answer.status == 204 || answer.status == 304 {
            answer.framing = "none"
        } else if answer["Transfer-Encoding"] == "chunked" {
            answer.framing = "chunked"
            isComplete = readChunks(&rest, into: &answer.body)
        } else if let length {
            answer.framing = "length"
            isComplete = rest.readableBytes >= length
            answer.body = rest.readSlice(length: min(length, rest.readableBytes)) ?? ByteBuffer()
        } else {
            answer.framing = "close"
            isComplete = isClosed
            if isClosed { answer.body = rest.readSlice(length: rest.readableBytes) ?? ByteBuffer() }
        }
        guard isComplete else {
            if isClosed { throw AnswerCut(answer: answer) }
            return nil
        }
        buffer = rest
        return answer
    }

    private static func readHead(_ buffer: inout ByteBuffer) -> Answer? {
        let start = buffer.getString(at: buffer.readerIndex, length: min(buffer.readableBytes, 32_768)) ?? ""
        guard let end = start.firstRange(of: "\r\n\r\n") else { return nil }
        let head = String(start[..<end.lowerBound])
        buffer.moveReaderIndex(forwardBy: head.utf8.count + 4)
        let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
        let parts = lines[0].split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let status = Int(parts[1]) else { return nil }
        let fields = lines.dropFirst().map { line in
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            let value = line[colon...].dropFirst().drop { $0 == " " }
            return (name: String(line[..<colon]), value: String(value))
        }
        return Answer(version: String(parts[0]), status: status, reason: String(parts[2]), fields: Array(fields))
    }

    /// - Returns: Whether the last chunk was there.
    private static func readChunks(_ buffer: inout ByteBuffer, into body: inout ByteBuffer) -> Bool {
        while true {
            let start = buffer.getString(at: buffer.readerIndex, length: min(buffer.readableBytes, 20)) ?? ""
            guard let end = start.firstRange(of: "\r\n"), let size = Int(start[..<end.lowerBound], radix: 16) else {
                return false
            }
            let sizeLine = start[..<end.upperBound].utf8.count
            guard buffer.readableBytes >= sizeLine + size + 2 else { return false }
            buffer.moveReaderIndex(forwardBy: sizeLine)
            if var chunk = buffer.readSlice(length: size) { body.writeBuffer(&chunk) }
            buffer.moveReaderIndex(forwardBy: 2)
            if size == 0 { return true }
        }
    }
}
