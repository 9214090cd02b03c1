import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

/// Creates JSON responses, with dates in ISO 8601.
enum JSONResponse {
    static func encode(_ value: some Encodable) throws -> ByteBuffer {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return ByteBuffer(bytes: try encoder.encode(value))
    }

    static func ok(_ json: ByteBuffer) -> Response {
        Response(
            status: .ok,
            headers: [.contentType: "application/json; charset=utf-8"],
            body: ResponseBody(byteBuffer: json))
    }

    /// For tokens and user data: the response must not be cached (RFC 9111 §5.2.2.5).
    static func noStore(_ value: some Encodable) throws -> Response {
        var response = ok(try encode(value))
        response.headers[.cacheControl] = "no-store"
        return response
    }

    /// `{"error": "…"}`. The message is a literal, so it needs no escaping and contains no client data.
    static func error(_ status: HTTPResponse.Status, _ message: StaticString) -> Response {
        Response(
            status: status,
            headers: [.contentType: "application/json; charset=utf-8"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: #"{"error":"\#(message)"}"#)))
    }

    /// A 401 response with the required challenge (RFC 9110 §11.6.1).
    static func unauthorized(_ challenge: Challenge, _ message: StaticString) -> Response {
        var response = error(.unauthorized, message)
        response.headers[.wwwAuthenticate] = challenge.rawValue
        return response
    }

    enum Challenge: String {
        case basic = #"Basic realm="mock-api", charset="UTF-8""#
        case bearer = #"Bearer realm="mock-api""#
    }
}
