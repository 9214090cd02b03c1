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
        // TRACE is never echoed to a client, even if a route lists it (RFC 9110 §9.3.8).
        if method == "TRACE" { return (.methodNotAllowed(allow: ""), path) }
        return (match, sent.isEmpty ? path : sent)
    }
}

/// What a request presents to be permitted.
enum Credential: Hashable {
    case none, cookie
    /// A verified access token of an identity.
    case token
    /// A name and a password, with which the gateway signs in.
    case basic
    /// `Authorization` that only the upstream verifies.
    case unverified
}

extension RouteCredentials {
    /// Whether a route reads a credential. One that it does not read is like none.
    func reads(_ credential: Credential) -> Bool {
        switch credential {
        case .none: true
        case .cookie: contains(.session)
        case .token: acceptsTokens
        case .basic: contains(.basic)
        case .unverified: self == .pass
        }
    }
}

/// The decisions of a configuration about requests that are not sent. Nothing is decided here: routes, hosts, sessions and
/// origins are judged by the code that serves requests.
///
/// Folder `Foresight/`: what a configuration does with all requests, and with those of a log.
final class DecisionTables {
    /// What a forwarded request gets. The token of a session is its own, or one that is exchanged for it.
    struct Tokens: OptionSet, Hashable {
        let rawValue: UInt8
        static let apiToken = Self(rawValue: 1)
        static let bearer = Self(rawValue: 2)
        static let own = Self(rawValue: 4)
        static let exchanged = Self(rawValue: 8)
    }

    /// What a route makes of a session, or of its absence.
    enum Admission: Hashable {
        case permitted(hasSession: Bool, tokens: Tokens)
        /// 401, or a redirect to a login.
        case unauthenticated
        /// 403.
        case forbidden

        var isPermitted: Bool { if case .permitted = self { true } else { false } }
    }

    /// The time of all requests.
    static let now = WallTime(seconds: 2_000_000_000)

    let configuration: GatewayConfiguration
    let table: RouteTable
    private let hosts: HostRules?
    private let rules: [SessionRules]
    /// By site, the sources of its sessions; empty if there is only one.
    private let sources: [[SessionSource]]
    /// By origin, the requests with a cookie that its pages cause and that are rejected.
    private let rejected: [String: [CrossSitePolicy.RequestKind]]

    /// - Parameter origins: Those whose pages are asked about.
    init(_ configuration: GatewayConfiguration, origins: [String] = []) {
        self.configuration = configuration
        table = RouteTable(configuration)
        hosts = HostRules(configuration, table.groups)
        rules = configuration.routes.map { route in
            let upstream = route.upstream.map { configuration.upstreams[$0] }
            return SessionRules(route, in: configuration, claimHeaders: upstream.flatMap { ClaimHeaders($0) })
        }
        sources = configuration.sites.indices.map { configuration.site($0).sessionSources }
        rejected = Dictionary(origins.map { ($0, Self.rejected(from: $0, configuration)) }) { first, _ in first }
    }

    // MARK: - Hosts

    /// What a host leads to, for each listener.
    /// - Parameter host: Folded; `nil` without one.
    func resolutions(of host: String?) -> [HostRules.Resolution] {
        guard let hosts else { return Array(repeating: .group(0), count: max(configuration.listeners.count, 1)) }
        return configuration.listeners.indices.map { hosts.resolve(host, on: $0) }
    }

    /// The group of a host, `nil` if no listener serves it, and whether one does without client certificates.
    func place(of host: String?) -> (group: Int?, isOpen: Bool) {
        var place: (group: Int?, isOpen: Bool) = (nil, false)
        let listeners = configuration.listeners
        for case (let index, .group(let group)) in resolutions(of: host).enumerated() {
            let isOpen = !listeners.indices.contains(index) || !listeners[index].requiresClientCertificates
            place = (group, place.isOpen || isOpen)
        }
        return place
    }

    // MARK: - Sessions

    /// What a route makes of each session.
    func admissions(to route: Int, group: Int, _ sessions: SessionClasses) -> [Admission] {
        let site = table.groups.site(of: group)
        return sessions.states.map { admission(to: route, site: site, $0) }
    }

    private func admission(to index: Int, site: Int, _ state: SessionClasses.State) -> Admission {
        let (credentials, rules) = (configuration.routes[index].credentials, rules[index])
        var lookup = credentials.reads(state.credential) ? state.lookup : .missing(.noSession)
        if case .active(let session) = lookup, sources.indices.contains(site), !sources[site].contains(session.source) {
            lookup = .missing(.noSession)
        }
        let decide = { (lookup: SessionLookup) -> AuthDecision in
            if state.credential == .unverified, credentials == .pass {
                return .decide(rules.access.passing, at: index, now: Self.now, session: lookup)
            }
            if state.credential == .token || state.credential == .basic, case .active(let session) = lookup {
                return .decide(rules.access, at: index, refreshed: session, rules: rules, now: Self.now)
            }
            return .decide(rules.access, at: index, now: Self.now, rules: rules, session: lookup)
        }
        var decision = decide(lookup)
        if case .endSession = decision { decision = decide(.missing(.noSession)) }
        switch decision {
        case .forward(let permit), .forwardAndRefresh(let permit, _): return Self.permitted(permit)
        case .exchange(let pending): return Self.permitted(pending.permit(with: Secret("")))
        case .missingClaim, .wrongIdentity, .unbound: return .forbidden
        case .unauthorized, .stepUp, .refresh, .loadSession, .endSession: return .unauthenticated
        }
    }

    private static func permitted(_ permit: UpstreamPermit) -> Admission {
        var tokens: Tokens = permit.includesAPIToken ? .apiToken : []
        if permit.hasBearer {
            tokens.formUnion(permit.exchangedToken == nil ? [.bearer, .own] : [.bearer, .exchanged])
        }
        return .permitted(hasSession: permit.hasSession, tokens: tokens)
    }

    // MARK: - Pages of other origins

    /// Whether a page can cause a request with a credential. Only CORS permits it to add `Authorization`; that of the
    /// scheme Basic is added by browsers.
    func canSend(_ credential: Credential, from origin: String, _ kind: CrossSitePolicy.RequestKind) -> Bool {
        credential != .token || addsFields(origin, kind)
    }

    /// Whether a page may add `Authorization` of any scheme: not to a WebSocket.
    func addsFields(_ origin: String, _ kind: CrossSitePolicy.RequestKind) -> Bool {
        kind != .tunnel && Self.contains(configuration.crossSite.corsOrigins, origin)
    }

    /// Whether a request for a route is rejected because a page of another origin causes it.
    func rejects(
        _ kind: CrossSitePolicy.RequestKind, _ credential: Credential, from origin: String, for route: Route
    ) -> Bool {
        let origins = route.stream.origins
        if kind == .tunnel, !origins.isEmpty, !Self.contains(origins, origin) { return true }
        let isSentByBrowser =
            credential == .cookie || credential == .basic || credential == .unverified && !addsFields(origin, kind)
        guard route.credentials.reads(credential) else { return false }
        let isChecked = route.usesSession || credential == .unverified
        // One that may cause a sign-in is rejected whatever its method is.
        let checkedKind = credential == .basic && kind == .safe ? .unsafe : kind
        return isSentByBrowser && isChecked && rejected[origin]?.contains(checkedKind) == true
    }

    private static func contains(_ origins: [String], _ origin: String) -> Bool {
        origins.contains { WebOrigin($0) == WebOrigin(origin) }
    }

    /// Pages that CORS permits add the required field, others cannot.
    private static func rejected(
        from origin: String, _ configuration: GatewayConfiguration
    ) -> [CrossSitePolicy.RequestKind] {
        let (settings, policy) = (configuration.crossSite, CrossSitePolicy(configuration.crossSite))
        let required = settings.requiredField.map { "\($0.name): \($0.value)\r\n" } ?? ""
        let field = contains(settings.corsOrigins, origin) ? required : ""
        var bytes = ByteBuffer(
            string: "POST / HTTP/1.1\r\nHost: a\r\nOrigin: \(origin)\r\nSec-Fetch-Site: cross-site\r\n\(field)\r\n")
        var head = RequestHead()
        var parser = HeadParser(limits: HeadLimits())
        // Otherwise it would not be a request.
        guard (try? parser.parse(&bytes, into: &head)) == true else { return [] }
        let marks = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(configuration.session.cookie))
        let summary = marks.apply(&head, isTrusted: false)
        var kinds: [CrossSitePolicy.RequestKind] = []
        for kind in [CrossSitePolicy.RequestKind.safe, .unsafe, .tunnel]
        where kind != .safe || policy.checksSafeRequests {
            let place = CrossSitePolicy.TargetOrigin(isSecure: true, authority: nil)
            if policy.rejects(kind, head, summary: summary, at: place) { kinds.append(kind) }
        }
        return kinds
    }
}
