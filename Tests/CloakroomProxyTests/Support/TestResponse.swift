import NIOCore

/// A response as a client read it.
struct TestResponse: Sendable {
    var version: String
    var status: Int
    var reason: String
    var fields: [(name: String, value: String)]
    var body = ByteBuffer()
    /// The framing of the body: `none`, `length`, `chunked` or `close`.
    var framing = ""

    /// The values of a field, in order.
    func values(_ name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    /// The value of a field that appears once.
    subscript(name: String) -> String? {
        let values = values(name)
        return values.count == 1 ? values[0] : nil
    }

    var text: String { String(buffer: body) }

    /// The `code` of a problem document.
    var code: String? { member("code") }
    /// The status, and the `code` of a problem document.
    var problem: String { "\(status) \(code ?? "")" }
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

/// The connection ended before the response did.
struct ResponseTruncated: Error {
    /// The partial response.
    var response: TestResponse?
}

extension TestResponse {
    /// Removes a response from the front of a buffer.
    /// - Returns: `nil` if it is not complete yet.
    static func read(_ buffer: inout ByteBuffer, isToHead: Bool, isClosed: Bool) throws -> TestResponse? {
        var rest = buffer
        guard var response = readHead(&rest) else {
            if isClosed { throw ResponseTruncated() }
            return nil
        }
        let length = response["Content-Length"].flatMap { Int($0) }
        var isComplete = true
        if isToHead || response.status < 200 || response.status == 204 || response.status == 304 {
            response.framing = "none"
        } else if response["Transfer-Encoding"] == "chunked" {
            response.framing = "chunked"
            isComplete = readChunks(&rest, into: &response.body)
        } else if let length {
            response.framing = "length"
            isComplete = rest.readableBytes >= length
            response.body = rest.readSlice(length: min(length, rest.readableBytes)) ?? ByteBuffer()
        } else {
            response.framing = "close"
            isComplete = isClosed
            if isClosed { response.body = rest.readSlice(length: rest.readableBytes) ?? ByteBuffer() }
        }
        guard isComplete else {
            if isClosed { throw ResponseTruncated(response: response) }
            return nil
        }
        buffer = rest
        return response
    }

    private static func readHead(_ buffer: inout ByteBuffer) -> TestResponse? {
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
        return TestResponse(version: String(parts[0]), status: status, reason: String(parts[2]), fields: Array(fields))
    }

    /// - Returns: Whether the last chunk was present.
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
