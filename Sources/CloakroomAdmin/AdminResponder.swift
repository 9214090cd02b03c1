import CloakroomTelemetry
import Foundation
import HTTPTypes
import Hummingbird

/// The pages of the admin listener. What is not listed is not served; pages that an operator looks at will be listed
/// here, too.
struct AdminResponder: HTTPResponder {
    typealias Context = BasicRequestContext

    let registry: PrometheusRegistry
    let probes: [ReadinessProbe]

    func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
        guard let page = Page(rawValue: request.uri.path) else { return Self.text(.notFound, "not found\n") }
        switch request.method {
        case .get: return await answer(page)
        case .head: return await answer(page).createHeadResponse()
        default:
            var response = Self.text(.methodNotAllowed, "method not allowed\n")
            response.headers[.allow] = "GET, HEAD"
            return response
        }
    }

    private enum Page: String {
        case live = "/live"
        case ready = "/ready"
        case metrics = "/metrics"
    }

    private func answer(_ page: Page) async -> Response {
        switch page {
        case .live:
            return Self.text(.ok, "live\n")
        case .ready:
            return Self.json(await ReadinessReport.make(probes))
        case .metrics:
            return Self.response(.ok, PrometheusRegistry.textContentType, registry.exposition())
        }
    }

    private static func json(_ report: ReadinessReport) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let body = try? encoder.encode(report) else { return text(.internalServerError, "not encodable\n") }
        return response(report.isReady ? .ok : .serviceUnavailable, "application/json", Array(body))
    }

    private static func text(_ status: HTTPResponse.Status, _ body: String) -> Response {
        response(status, "text/plain; charset=utf-8", Array(body.utf8))
    }

    /// Nothing here may be stored, framed, sniffed or allowed to load anything.
    private static func response(_ status: HTTPResponse.Status, _ contentType: String, _ body: [UInt8]) -> Response {
        var headers = HTTPFields()
        headers[.contentType] = contentType
        headers[.cacheControl] = "no-store"
        headers[.xContentTypeOptions] = "nosniff"
        headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
        if let referrerPolicy = HTTPField.Name("Referrer-Policy") { headers[referrerPolicy] = "no-referrer" }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }
}
