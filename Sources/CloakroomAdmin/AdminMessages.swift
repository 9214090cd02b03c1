import CloakroomCore
import CloakroomWire
import FoundationEssentials
import NIOCore

/// A complete request to the admin listener.
struct AdminRequest: Sendable {
    let head: RequestHead
    let body: [UInt8]
    /// The client's address, without port; empty if unknown.
    let peer: String

    var method: String { text(head.method) }

    /// The request target without its query, as received.
    var path: String { String(decoding: text(head.target).utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self) }

    /// The decoded value of the first parameter of the query with this name; `nil` if it is longer than 512 bytes, as no name
    /// and no address is.
    func parameter(_ name: String) -> String? {
        let query = String(decoding: text(head.target).utf8.drop { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        let item = URLComponents(string: query)?.queryItems?.first { $0.name.utf8.elementsEqual(name.utf8) }
        return item?.value.flatMap { $0.utf8.count <= 512 ? $0 : nil }
    }

    /// The values of all fields with this name.
    func values(_ name: KnownField) -> [String] {
        head.fields.filter { $0.name == name }.map { text($0.valueRange) }
    }

    private func text(_ range: ByteRange) -> String {
        head.bytes.getString(at: head.bytes.readerIndex + range.start, length: range.count) ?? ""
    }
}

/// A response of the admin listener. It forbids caching, framing and sniffing, and may not load anything.
struct AdminResponse: Sendable {
    typealias Field = (name: String, value: String)

    let status: Int
    let contentType: String
    let body: [UInt8]
    /// A further field.
    var field: Field?
    var contentSecurityPolicy = "default-src 'none'; frame-ancestors 'none'"

    static func json(_ status: Int, _ document: some Encodable) -> AdminResponse {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let body = try? encoder.encode(document) else { return text(500, "not encodable\n") }
        return AdminResponse(status: status, contentType: "application/json", body: Array(body))
    }

    static func text(_ status: Int, _ body: String, _ field: Field? = nil) -> AdminResponse {
        AdminResponse(status: status, contentType: "text/plain; charset=utf-8", body: Array(body.utf8), field: field)
    }

    /// A problem document (RFC 9457).
    static func problem(
        _ code: ProblemCode, status: Int? = nil, _ detail: String? = nil, _ field: Field? = nil
    ) -> AdminResponse {
        let problem = Problem(code, status: status, detail: detail)
        return AdminResponse(
            status: problem.status, contentType: "application/problem+json",
            body: ProblemDocument.withoutRequestID(problem), field: field)
    }

    /// The bytes of the response.
    /// - Parameters:
    ///   - isToHead: Whether the body is omitted.
    ///   - isLast: Whether the connection is closed afterwards.
    func encoded(isToHead: Bool, isLast: Bool) -> ByteBuffer {
        let date = HTTPDate.render(secondsSinceEpoch: Int64(Date().timeIntervalSince1970))
        let fields: [Field?] = [
            ("Date", String(decoding: date, as: UTF8.self)), ("Content-Type", contentType),
            ("Content-Length", "\(body.count)"), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", contentSecurityPolicy), ("Referrer-Policy", "no-referrer"), field,
            isLast ? ("Connection", "close") : nil,
        ]
        let lines = fields.compactMap { $0.map { "\($0.name): \($0.value)\r\n" } }.joined()
        var bytes = ByteBuffer(string: "HTTP/1.1 \(status) \(Problem.title(of: status))\r\n\(lines)\r\n")
        if !isToHead { bytes.writeBytes(body) }
        return bytes
    }
}
