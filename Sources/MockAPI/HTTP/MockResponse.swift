import FoundationEssentials
import NIOCore
import NIOHTTP1

struct MockResponse {
    var status: HTTPResponseStatus
    /// Without `Content-Length` and `Date`, which are added.
    var fields: HTTPHeaders
    var body: ByteBuffer
    /// Sends a chunked body instead, part by part.
    var stream: ((_ send: (ByteBuffer) async throws -> Void) async throws -> Void)?

    init(_ status: HTTPResponseStatus, _ fields: HTTPHeaders = [:], body: ByteBuffer = ByteBuffer()) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    init(_ status: HTTPResponseStatus, _ fields: HTTPHeaders, text: String) {
        self.init(status, fields, body: ByteBuffer(string: text))
    }

    /// JSON with dates in ISO 8601.
    static func json(_ value: some Encodable) throws -> MockResponse {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return MockResponse(.ok, jsonFields, body: ByteBuffer(bytes: try encoder.encode(value)))
    }

    /// For tokens and user data: the response must not be cached (RFC 9111 §5.2.2.5).
    static func noStore(_ value: some Encodable) throws -> MockResponse {
        var response = try json(value)
        response.fields.add(name: "Cache-Control", value: "no-store")
        return response
    }

    /// `{"error": "…"}`. The message is a literal, so it needs no escaping and contains no client data.
    static func error(_ status: HTTPResponseStatus, _ message: StaticString) -> MockResponse {
        MockResponse(status, jsonFields, text: #"{"error":"\#(message)"}"#)
    }

    /// A 401 response with the required challenge (RFC 9110 §11.6.1).
    static func unauthorized(_ challenge: Challenge, _ message: StaticString) -> MockResponse {
        var response = error(.unauthorized, message)
        response.fields.add(name: "WWW-Authenticate", value: challenge.rawValue)
        return response
    }

    enum Challenge: String {
        case basic = #"Basic realm="mock-api", charset="UTF-8""#
        case bearer = #"Bearer realm="mock-api""#
    }

    static let jsonFields: HTTPHeaders = ["Content-Type": "application/json; charset=utf-8"]
}
