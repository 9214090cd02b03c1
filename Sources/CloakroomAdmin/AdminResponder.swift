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
        guard let page = Page(rawValue: request.uri.path) else { return Self.notFound }
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
        if let page = Page(rawValue: request.uri.path), page.isProbe { return nil }
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

    private enum Page: String {
        case live = "/live"
        case ready = "/ready"
        case metrics = "/metrics"
        case status = "/"
        case statusDocument = "/status.json"
        case statusRoute = "/route"
        case statusTarget = "/target"
        case statusStyle = "/status.css"

        /// Whether orchestrators request the page.
        var isProbe: Bool {
            switch self {
            case .live, .ready: true
            case .metrics, .status, .statusDocument, .statusRoute, .statusTarget, .statusStyle: false
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
        case .status:
            guard let status else { return Self.notFound }
            let query = StatusQuery(request.uri.query)
            let page = await StatusPage(document(status), trend: status.trends.trend(of: .all), query: query)
            return Self.page(page, refresh: query.refresh)
        case .statusDocument:
            guard let status else { return Self.notFound }
            var document = await document(status)
            document.trends = status.trends.documents(
                all: StatusSubjectLink.value(of: "trends", in: request.uri.query) == "all")
            return AdminResponse.json(.ok, document)
        case .statusRoute:
            guard let status else { return Self.notFound }
            return await routePage(status, request.uri.query)
        case .statusTarget:
            guard let status else { return Self.notFound }
            return await targetPage(status, request.uri.query)
        case .statusStyle:
            guard status != nil else { return Self.notFound }
            return AdminResponse.make(.ok, "text/css; charset=utf-8", Array(StatusStyle.css.utf8))
        }
    }

    /// The state of the gateway is in the document: status 200 only means that the document was created.
    private func document(_ status: StatusReporter) async -> StatusDocument {
        let readiness = await ReadinessReport.make(probes)
        return status.document(readiness: readiness, now: now(), instant: .now)
    }

    private func routePage(_ status: StatusReporter, _ query: String?) async -> Response {
        guard let name = StatusSubjectLink.value(of: "name", in: query),
            let details = status.details(ofRoute: name, instant: .now)
        else { return Self.notFound }
        let refresh = StatusQuery(query).refresh
        return await Self.page(
            StatusPage(route: name, details, in: document(status), refresh: refresh), refresh: refresh)
    }

    /// Only configured targets have a page.
    private func targetPage(_ status: StatusReporter, _ query: String?) async -> Response {
        guard let upstream = StatusSubjectLink.value(of: "upstream", in: query),
            let address = StatusSubjectLink.value(of: "address", in: query)
        else { return Self.notFound }
        let document = await document(status)
        let targets = document.upstreams.filter { $0.name == upstream }.flatMap(\.targets)
            .filter { $0.address == address }
        guard !targets.isEmpty else { return Self.notFound }
        let refresh = StatusQuery(query).refresh
        let page = StatusPage(
            upstream: upstream, targets, address: address,
            status.details(upstream: upstream, address: address, instant: .now), in: document, refresh: refresh)
        return Self.page(page, refresh: refresh)
    }

    /// `?refresh=10` makes the page reload itself, which browsers do without a script.
    private static func page(_ page: StatusPage, refresh: Int?) -> Response {
        guard let html = page.html() else {
            return AdminResponse.text(.internalServerError, "the page cannot be rendered; use /status.json\n")
        }
        var response = AdminResponse.page(html)
        if let refresh, let name = HTTPField.Name("Refresh") { response.headers[name] = "\(refresh)" }
        return response
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

    /// A page that may load only the style sheet of the gateway; images are embedded. Scripts are forbidden.
    static func page(_ html: String) -> Response {
        var response = make(.ok, "text/html; charset=utf-8", Array(html.utf8))
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none';"
            + " form-action 'none'"
        return response
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
