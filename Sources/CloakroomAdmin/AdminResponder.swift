import CloakroomTelemetry
import Foundation
import HTTPTypes
import Hummingbird
import Logging

/// The pages of the admin listener. What is not listed is not served; pages that an operator looks at will be listed
/// here, too.
struct AdminResponder: HTTPResponder {
    typealias Context = AdminRequestContext

    let registry: PrometheusRegistry
    let probes: [ReadinessProbe]
    let revocation: SessionRevocation?
    let logger: Logger

    func respond(to request: Request, context: AdminRequestContext) async throws -> Response {
        if let revocation, request.uri.path == SessionRevocation.path {
            // The one page that changes something.
            guard request.method == .post else { return Self.methodNotAllowed(allow: "POST") }
            return await revocation.answer(request, peer: context.peer, logger: logger)
        }
        guard let page = Page(rawValue: request.uri.path) else { return AdminResponse.text(.notFound, "not found\n") }
        switch request.method {
        case .get: return await answer(page)
        case .head: return await answer(page).createHeadResponse()
        default: return Self.methodNotAllowed(allow: "GET, HEAD")
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
            return AdminResponse.text(.ok, "live\n")
        case .ready:
            let report = await ReadinessReport.make(probes)
            return AdminResponse.json(report.isReady ? .ok : .serviceUnavailable, report)
        case .metrics:
            return AdminResponse.make(.ok, PrometheusRegistry.textContentType, registry.exposition())
        }
    }

    private static func methodNotAllowed(allow: String) -> Response {
        var response = AdminResponse.text(.methodNotAllowed, "method not allowed\n")
        response.headers[.allow] = allow
        return response
    }
}
