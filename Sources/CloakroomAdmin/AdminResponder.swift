import CloakroomCore
import CloakroomTelemetry
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore

/// The endpoints of the admin listener. Other paths return 404.
struct AdminResponder: HTTPResponder {
    typealias Context = AdminRequestContext

    let registry: PrometheusRegistry
    let probes: [ReadinessProbe]
    let revocation: RevokeSessionsHandler?
    /// `nil` disables the status page.
    let status: StatusReporter?
    let access: AdminAccess
    /// Whether a connection has a verified client certificate; `nil` without TLS.
    let hasClientCertificate: (@Sendable (any Channel) async -> Bool)?
    let rejections: RejectionLog
    let now: @Sendable () -> Timestamp
    let logger: Logger
    private let pages = AdminPageLimit()

    init(
        registry: PrometheusRegistry, probes: [ReadinessProbe], revocation: RevokeSessionsHandler?,
        status: StatusReporter?, access: AdminAccess, rejections: RejectionLog,
        hasClientCertificate: (@Sendable (any Channel) async -> Bool)?, now: @escaping @Sendable () -> Timestamp,
        logger: Logger
    ) {
        self.registry = registry
        self.probes = probes
        self.revocation = revocation
        self.status = status
        self.access = access
        self.rejections = rejections
        self.hasClientCertificate = hasClientCertificate
        self.now = now
        self.logger = logger
    }

    func respond(to request: Request, context: AdminRequestContext) async throws -> Response {
        if let rejection = await rejection(of: request, context: context) { return rejection }
        if let revocation, request.uri.path == RevokeSessionsHandler.path {
            // The only endpoint that changes state.
            guard request.method == .post else { return Self.methodNotAllowed(allow: "POST") }
            return await revocation.respond(request, peer: context.peer, logger: logger)
        }
        guard let page = Page(path: request.uri.path) else { return Self.notFound }
        switch request.method {
        case .get: return await bounded(page, to: request)
        case .head: return await bounded(page, to: request).createHeadResponse()
        default: return Self.methodNotAllowed(allow: "GET, HEAD")
        }
    }

    /// The response to a request that is not served because of its host name, its client certificate or its token.
    private func rejection(of request: Request, context: AdminRequestContext) async -> Response? {
        guard access.hosts.allows(request.head.authority) else {
            rejections.note(.host, peer: context.peer, now: now(), logger: logger)
            return AdminResponse.problem(
                .badRequest, status: 421,
                "This host name is not allowed. Use the IP address, or list the name in admin.allowedHosts.")
        }
        // Orchestrators probe without credentials.
        if let page = Page(path: request.uri.path), page.isProbe { return nil }
        if access.requiresClientCertificate, await hasClientCertificate?(context.channel) != true {
            rejections.note(.certificate, peer: context.peer, now: now(), logger: logger)
            return AdminResponse.problem(.unauthorized, status: 403, "Connect with a client certificate.")
        }
        // The endpoint that ends sessions checks the token itself.
        guard access.tokenScope == .everything, request.uri.path != RevokeSessionsHandler.path else { return nil }
        guard let tokens = revocation?.tokens else {
            return AdminResponse.problem(.unauthorized, status: 403, "The listener has no admin token.")
        }
        return tokens.rejectionOfPage(request.headers, peer: context.peer, logger: logger)
    }

    private func bounded(_ page: Page, to request: Request) async -> Response {
        // Probes must get a response even if many clients load pages.
        guard !page.isProbe else { return await respond(page, to: request) }
        if let response = await pages.run({ await respond(page, to: request) }) { return response }
        var response = AdminResponse.problem(.overloaded, "Too many requests at the same time. Try again.")
        response.headers[.retryAfter] = "1"
        return response
    }

    private enum Page {
        case live
        case ready
        case metrics
        case statusDocument
        case status(StatusPage)

        init?(path: String) {
            switch path {
            case "/live": self = .live
            case "/ready": self = .ready
            case "/metrics": self = .metrics
            case "/status.json": self = .statusDocument
            default:
                guard let page = StatusPage(rawValue: path) else { return nil }
                self = .status(page)
            }
        }

        /// Whether orchestrators request the page.
        var isProbe: Bool {
            switch self {
            case .live, .ready: true
            case .metrics, .statusDocument, .status: false
            }
        }
    }

    private func respond(_ page: Page, to request: Request) async -> Response {
        switch page {
        case .live:
            return AdminResponse.text(.ok, "live\n")
        case .ready:
            let report = await ReadinessReport.make(probes)
            return AdminResponse.json(report.isReady ? .ok : .serviceUnavailable, report)
        case .metrics:
            return AdminResponse.make(.ok, PrometheusRegistry.contentType, registry.exposition())
        case .statusDocument:
            guard let status else { return Self.notFound }
            return await AdminResponse.json(.ok, document(status, request))
        case .status(let page):
            return status == nil ? Self.notFound : page.response
        }
    }

    /// The state of the gateway is in the document: status 200 only means that the document was created.
    private func document(_ status: StatusReporter, _ request: Request) async -> StatusDocument {
        let (readiness, instant) = (await ReadinessReport.make(probes), ContinuousClock.now)
        var document = status.document(readiness: readiness, now: now(), instant: instant)
        let query = request.uri.queryParameters
        document.trends = status.trends.documents(all: query["trends"] == "all")
        if let route = query["route"] {
            document.details = status.details(ofRoute: String(route), instant: instant)
        } else if let upstream = query["upstream"], let address = query["target"] {
            document.details = status.details(
                upstream: String(upstream), address: String(address), of: document.upstreams, instant: instant)
        }
        return document
    }

    private static var notFound: Response { AdminResponse.text(.notFound, "not found\n") }

    private static func methodNotAllowed(allow: String) -> Response {
        var response = AdminResponse.text(.methodNotAllowed, "method not allowed\n")
        response.headers[.allow] = allow
        return response
    }
}

/// Creates the responses of the admin listener. They forbid caching, framing and sniffing, and may not load anything.
enum AdminResponse {
    static func json(_ status: HTTPResponse.Status, _ document: some Encodable) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let body = try? encoder.encode(document) else { return text(.internalServerError, "not encodable\n") }
        return make(status, "application/json", Array(body))
    }

    static func text(_ status: HTTPResponse.Status, _ body: String) -> Response {
        make(status, "text/plain; charset=utf-8", Array(body.utf8))
    }

    /// A problem document (RFC 9457).
    static func problem(_ code: ProblemCode, status: Int? = nil, _ detail: String) -> Response {
        let problem = Problem(code, status: status, detail: detail)
        return make(
            HTTPResponse.Status(code: problem.status, reasonPhrase: problem.title), "application/problem+json",
            ProblemDocument.withoutRequestID(problem))
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
