import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Logging

/// The endpoints of the admin listener. Other paths return 404.
struct AdminResponder: Sendable {
    let registry: PrometheusRegistry
    let probes: [ReadinessProbe]
    let revocation: RevokeSessionsHandler?
    /// `nil` disables the status page.
    let status: StatusReporter?
    let access: AdminAccess
    let rejectedRequests: RejectedRequests
    let rejections: RejectionLog
    let now: @Sendable () -> WallTime
    let logger: Logger
    let pageLimit = AdminPageLimit()

    /// The paths that orchestrators request. They get a response even if many clients load pages.
    private static let probePaths = ["/live", "/ready"]
    /// One of the last rejected requests. Requires the token in any case: it has the address of a client and a path.
    private static let whyPath = "/why"
    private static let pagePaths = ["/metrics", "/status.json", whyPath] + StatusPage.allCases.map(\.rawValue)

    /// - Parameter hasClientCertificate: Whether the client has a verified certificate.
    func respond(to request: AdminRequest, hasClientCertificate: Bool) async -> AdminResponse {
        if let rejection = rejection(of: request, hasClientCertificate) { return rejection }
        if let revocation, request.path == RevokeSessionsHandler.path {
            // The only endpoint that changes state.
            guard request.method == "POST" else { return Self.methodNotAllowed(allow: "POST") }
            return await revocation.respond(request, logger: logger)
        }
        guard (Self.probePaths + Self.pagePaths).contains(request.path) else { return Self.notFound }
        guard ["GET", "HEAD"].contains(request.method) else { return Self.methodNotAllowed(allow: "GET, HEAD") }
        switch request.path {
        case "/live": return .text(200, "live\n")
        case "/ready":
            let report = await ReadinessReport.make(probes)
            return .json(report.isReady ? 200 : 503, report)
        default:
            return await pageLimit.run { await page(request) }
                ?? .problem(.overloaded, "Too many requests at the same time. Try again.", ("Retry-After", "1"))
        }
    }

    /// The response to a request that is not served because of its host name, its client certificate or its token.
    private func rejection(of request: AdminRequest, _ hasClientCertificate: Bool) -> AdminResponse? {
        guard access.hosts.allows(request.values(.host).first) else {
            rejections.note(.host, peer: request.peer, now: now(), logger: logger)
            return .problem(
                .badRequest, status: 421,
                "This host name is not allowed. Use the IP address, or list the name in admin.allowedHosts.")
        }
        // Orchestrators probe without credentials.
        if Self.probePaths.contains(request.path) { return nil }
        if access.requiresClientCertificate, !hasClientCertificate {
            rejections.note(.certificate, peer: request.peer, now: now(), logger: logger)
            return .problem(.unauthorized, status: 403, "Connect with a client certificate.")
        }
        // The endpoint that ends sessions checks the token itself.
        let isOpen = access.tokenScope != .everything && request.path != Self.whyPath
        guard !isOpen, request.path != RevokeSessionsHandler.path else { return nil }
        guard let tokens = revocation?.tokens else {
            return .problem(.unauthorized, status: 403, "The listener has no admin token.")
        }
        return tokens.rejectionOfPage(request, logger: logger)
    }

    private func page(_ request: AdminRequest) async -> AdminResponse {
        guard request.path != "/metrics" else {
            return AdminResponse(
                status: 200, contentType: PrometheusRegistry.contentType, body: registry.exposition())
        }
        if request.path == Self.whyPath {
            guard let id = request.parameter("id").flatMap({ ID128($0) }) else {
                return .problem(.badRequest, "id must be the 32 hexadecimal digits of a request id.")
            }
            return AdminResponse(status: 200, contentType: "application/json", body: rejectedRequests.document(of: id))
        }
        guard let status else { return Self.notFound }
        if let file = StatusPage(rawValue: request.path) { return file.response }
        return .json(200, await document(status, request))
    }

    /// The state of the gateway is in the document: status 200 only means that the document was created.
    private func document(_ status: StatusReporter, _ request: AdminRequest) async -> StatusDocument {
        let (readiness, instant) = (await ReadinessReport.make(probes), ContinuousClock.now)
        var document = status.document(readiness: readiness, now: now(), instant: instant)
        document.trends = status.trends.documents(all: request.parameter("trends") == "all")
        if let route = request.parameter("route") {
            document.details = status.details(ofRoute: route, instant: instant)
        } else if let upstream = request.parameter("upstream"), let address = request.parameter("target") {
            document.details = status.details(
                upstream: upstream, address: address, of: document.upstreams, instant: instant)
        }
        return document
    }

    private static var notFound: AdminResponse { .text(404, "not found\n") }

    private static func methodNotAllowed(allow: String) -> AdminResponse {
        .text(405, "method not allowed\n", ("Allow", allow))
    }
}
