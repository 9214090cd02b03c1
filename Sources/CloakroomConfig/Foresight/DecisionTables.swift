import CloakroomCore
import CloakroomWire
import NIOCore

extension RouteTable {
    /// Matches a request that is not sent.
    /// - Parameter path: In the normal form of ``RequestTarget``, without the query.
    /// - Returns: As for a client, and the path that the upstream would receive.
    func match(_ method: String, _ path: [UInt8], group: Int) -> (match: Match, sent: [UInt8]) {
        var (scratch, sent): ([UInt8], [UInt8]) = ([], [])
        let match = match(
            method: Array(method.utf8).span, path: path.span, group: group, scratch: &scratch, sent: &sent)
        // TRACE is never echoed to a client (RFC 9110 §9.3.8).
        if match == .notFound, method == "TRACE" { return (.methodNotAllowed(allow: ""), path) }
        return (match, sent.isEmpty ? path : sent)
    }
}

/// The decisions of a configuration about requests that are not sent. Nothing is decided here: routes, hosts, sessions and
/// origins are judged by the code that serves requests.
///
/// Folder `Foresight/`: what a configuration does with all requests, and with those of a log.
struct DecisionTables: Sendable {
    /// What a route makes of a session, or of its absence.
    enum Admission: Hashable {
        case permitted(hasSession: Bool, tokens: Set<SentToken>)
        /// 401, or a redirect to a login.
        case unauthenticated
        /// 403.
        case forbidden
    }

    /// The time of all requests.
    static let now = WallTime(seconds: 2_000_000_000)

    let configuration: GatewayConfiguration
    let table: RouteTable
    private let hosts: HostRules?
    private let rules: [SessionRules]
    /// By site, the sources of its sessions; empty if there is only one.
    private let sources: [[SessionSource]]
    private let crossSite: CrossSitePolicy

    init(_ configuration: GatewayConfiguration) {
        self.configuration = configuration
        table = RouteTable(configuration)
        hosts = HostRules(configuration, table.groups)
        rules = configuration.routes.map { route in
            let upstream = route.upstream.map { configuration.upstreams[$0] }
            return SessionRules(route, in: configuration, claimHeaders: upstream.flatMap { ClaimHeaders($0) })
        }
        sources = configuration.sites.indices.map { configuration.site($0).sessionSources }
        crossSite = CrossSitePolicy(configuration.crossSite)
    }

    /// What a host leads to, for each listener.
    /// - Parameter host: Folded; `nil` without one.
    func resolutions(of host: String?) -> [HostRules.Resolution] {
        guard let hosts else { return [.group(0)] }
        return configuration.listeners.indices.map { hosts.resolve(host, on: $0) }
    }

    /// The group of a host; `nil` if no listener serves it.
    func group(of host: String?) -> Int? {
        for case .group(let group) in resolutions(of: host) { return group }
        return nil
    }

    /// Decides about a request for a route.
    func admission(to route: Int, group: Int, session: SessionLookup) -> Admission {
        var lookup = session
        let site = table.groups.site(of: group)
        if case .active(let session) = lookup, sources.indices.contains(site), !sources[site].contains(session.source) {
            lookup = .missing(.noSession)
        }
        let decision = AuthDecision.decide(
            rules[route].access, at: route, now: Self.now, rules: rules[route], session: lookup)
        switch decision {
        case .forward(let permit), .forwardAndRefresh(let permit, _): return Self.permitted(permit)
        case .exchange(let pending): return Self.permitted(pending.permit(with: Secret("")))
        case .endSession: return admission(to: route, group: group, session: .missing(.noSession))
        case .missingClaim, .wrongIdentity: return .forbidden
        case .unauthorized, .stepUp, .refresh, .loadSession: return .unauthenticated
        }
    }

    private static func permitted(_ permit: UpstreamPermit) -> Admission {
        var tokens: Set<SentToken> = []
        if permit.includesAPIToken { tokens.insert(.apiToken) }
        if permit.hasBearer { tokens.insert(.bearer) }
        return .permitted(hasSession: permit.hasSession, tokens: tokens)
    }

    /// Whether a request with a session cookie that a page of another origin causes is rejected. Pages that CORS permits
    /// add the required field, others cannot.
    func rejects(isSafe: Bool, from origin: String) -> Bool {
        guard !isSafe || crossSite.checksSafeRequests else { return false }
        let settings = configuration.crossSite
        let required = settings.requiredField.map { "\($0.name): \($0.value)\r\n" } ?? ""
        let field = settings.corsOrigins.contains(origin) ? required : ""
        var bytes = ByteBuffer(
            string: "POST / HTTP/1.1\r\nHost: a\r\nOrigin: \(origin)\r\nSec-Fetch-Site: cross-site\r\n\(field)\r\n")
        var head = RequestHead()
        var parser = HeadParser(limits: HeadLimits())
        // Otherwise it would not be a request.
        guard (try? parser.parse(&bytes, into: &head)) == true else { return false }
        let policy = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(configuration.session.cookie))
        let summary = policy.apply(&head, isTrusted: false, reading: .absent)
        return crossSite.rejects(
            isSafe ? .safe : .unsafe, head, summary: summary,
            at: CrossSitePolicy.TargetOrigin(isSecure: true, authority: nil))
    }
}
