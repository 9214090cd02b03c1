import Foundation
import HTTPTypes
import Hummingbird

/// Creates the responses of the admin listener. They forbid caching, framing and sniffing, and may not load anything.
enum AdminResponse {
    static func json(
        _ status: HTTPResponse.Status, _ document: some Encodable, contentType: String = "application/json"
    ) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let body = try? encoder.encode(document) else { return text(.internalServerError, "not encodable\n") }
        return make(status, contentType, Array(body))
    }

    static func text(_ status: HTTPResponse.Status, _ body: String) -> Response {
        make(status, "text/plain; charset=utf-8", Array(body.utf8))
    }

    /// A page that may load only the style sheet of the gateway; images are embedded. Scripts are forbidden.
    static func page(_ html: String) -> Response {
        var response = make(.ok, "text/html; charset=utf-8", Array(html.utf8))
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none';"
            + " form-action 'none'"
        return response
    }

    static func make(_ status: HTTPResponse.Status, _ contentType: String, _ body: [UInt8]) -> Response {
        var headers = HTTPFields()
        headers[.contentType] = contentType
        headers[.cacheControl] = "no-store"
        headers[.xContentTypeOptions] = "nosniff"
        headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
        if let referrerPolicy = HTTPField.Name("Referrer-Policy") { headers[referrerPolicy] = "no-referrer" }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }
}
