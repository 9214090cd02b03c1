import CloakroomCore

/// Decides logged requests again with another configuration.
///
/// The log does not state everything: whether a request to a public route had a session, the claims of a session, the
/// origin of the page that caused a request, and how far a rate limit was exhausted. For what is not stated, all
/// possibilities are decided. A request counts as decided otherwise only if none of them leads to the logged decision, and
/// as unknown if that depends on a session. Claims, origins and rate limits are assumed to have been as the logged decision
/// shows, as far as that is possible. A line that the configuration itself has made is therefore never reported.
struct Replay {
    /// Requests with the same route, and the same decisions.
    struct Key: Hashable {
        let route: String
        let was: String
        let now: String
        let isUnknown: Bool
    }

    struct Group {
        let key: Key
        var count = 0
        /// The first request, and the number of its line.
        let example: String
        let line: Int
    }

    /// The maximum number of groups; requests of further ones are counted together.
    static let mostGroups = 1_000
    /// The maximum number of line numbers that are kept.
    private static let mostNumbers = 10

    private(set) var lines = 0
    private(set) var requests = 0
    /// Lines that are no lines of an access log, and the numbers of the first ones.
    private(set) var foreign = (count: 0, lines: [Int]())
    /// Requests that the log does not state completely, or that were rejected before a decision.
    private(set) var incomplete = 0
    /// By route, permitted requests whose claims decide now: whether they meet them is not stated.
    private(set) var claims: [String: Int] = [:]
    /// Requests of groups beyond ``mostGroups``.
    private(set) var ungrouped = 0
    private var groups: [Key: Group] = [:]

    private let tables: DecisionTables
    private let sessions: SessionClasses
    private var hosts: [String: [HostRules.Resolution]] = [:]
    private var admissions: [[Int]: (without: DecisionTables.Admission, with: Set<DecisionTables.Admission>)] = [:]

    init(_ configuration: GatewayConfiguration) throws(TooManyClasses) {
        tables = DecisionTables(configuration)
        sessions = try SessionClasses([configuration], claims: [])
    }

    /// The groups, the largest first.
    var ordered: [Group] { groups.values.sorted { ($1.count, $0.line) < ($0.count, $1.line) } }

    /// Reads the next line, without its line feed.
    mutating func read(_ line: [UInt8]) {
        lines += 1
        let request: LoggedRequest
        do throws(LoggedRequest.Defect) {
            request = try LoggedRequest(line: line)
        } catch {
            switch error {
            case .event: return
            case .incomplete: incomplete += 1
            case .foreign: skip()
            }
            return
        }
        guard let verdict = verdict(about: request) else {
            incomplete += 1
            return
        }
        requests += 1
        guard case .differs(let now, let isUnknown) = verdict else { return }
        let was = request.decision == .undecided ? "\(request.status)" : request.decision.rawValue
        let target = request.upstream.map { " to \($0)" } ?? ""
        let key = Key(route: request.route.escaped, was: (was + target).escaped, now: now, isUnknown: isUnknown)
        if groups[key] == nil, groups.count == Self.mostGroups {
            ungrouped += 1
        } else {
            groups[key, default: Group(key: key, example: request.title, line: lines)].count += 1
        }
    }

    /// Counts a line that is too long.
    mutating func readTooLong() {
        lines += 1
        skip()
    }

    private mutating func skip() {
        foreign.count += 1
        if foreign.lines.count < Self.mostNumbers { foreign.lines.append(lines) }
    }

    // MARK: - Deciding

    private enum Verdict {
        case same
        case differs(String, isUnknown: Bool)

        /// The decision is certainly another one.
        static func now(_ text: String) -> Self { .differs(text, isUnknown: false) }
    }

    /// - Returns: `nil` if the request was not decided by routes, hosts or sessions.
    private mutating func verdict(about request: LoggedRequest) -> Verdict? {
        let decision = request.decision
        if decision == .undecided, request.status != 404, request.status != 405 { return nil }
        // Preflights and exhausted Max-Forwards depend on fields.
        if decision == .local, request.route != "(accounts)" { return nil }
        if request.method == "OPTIONS", decision == .csrfRejected { return nil }
        let resolutions = resolutions(of: request.host)
        var group: Int?
        for case .group(let found) in resolutions { group = found }
        let redirects = resolutions.contains { if case .redirect = $0 { true } else { false } }
        let misdirects = resolutions.contains { if case .misdirected = $0 { true } else { false } }
        // The log does not name the listener.
        if decision == .misdirected, misdirects { return .same }
        if decision == .redirected, redirects { return .same }
        guard let group else {
            return .differs(redirects ? "redirected to https" : "421, the host is not served", isUnknown: false)
        }
        let (match, sent) = tables.table.match(request.method, request.path, group: group)
        switch match {
        case .notFound: return request.status == 404 && decision == .undecided ? .same : .now("404, no route")
        case .methodNotAllowed:
            return request.status == 405 && decision == .undecided ? .same : .now("405, no route with the method")
        case .accountEndpoint:
            let isLimited = decision == .rateLimited && limits(nil)
            return isLimited || decision == .local || decision == .csrfRejected && request.route == "(accounts)"
                ? .same : .now("a response of the gateway")
        case .route(let index): return verdict(about: request, route: index, group, sent)
        }
    }

    private func limits(_ route: Route?) -> Bool {
        tables.configuration.rateLimits(of: route).contains(where: \.isEnforced)
    }

    /// Whether a request was permitted.
    private static func isPermitted(_ admission: DecisionTables.Admission) -> Bool {
        if case .permitted = admission { true } else { false }
    }

    private mutating func verdict(about request: LoggedRequest, route index: Int, _ group: Int, _ sent: [UInt8])
        -> Verdict
    {
        let route = tables.configuration.routes[index]
        let (without, with) = admissions(of: index, group)
        let now = { [tables] (admission: DecisionTables.Admission) -> String in
            switch admission {
            case .unauthenticated: return "401, route \(route.name) requires a session"
            case .forbidden: return "403, route \(route.name) requires claims or another identity"
            case .permitted:
                if route.redirect != nil { return "redirected by route \(route.name)" }
                let verb = route.files == nil ? "forwarded to" : "a file of"
                return "\(verb) \(route.target(in: tables.configuration)) by route \(route.name)"
            }
        }
        switch request.decision {
        case .rateLimited where limits(route), .csrfRejected where route.usesSession: return .same
        case .unauthenticated where request.hasReason:
            return without == .unauthenticated ? .same : .now(now(without))
        case .unauthenticated:
            return with.union([without]).contains(.unauthenticated) ? .same : .now(now(without))
        case .forbidden:
            return with.contains(.forbidden) ? .same : .now(with.sorted { now($0) < now($1) }.first.map(now) ?? "")
        case .forwarded, .public, .file, .redirected:
            // A session is logged with requests that were forwarded with it.
            let known = request.hasSession || request.decision == .forwarded ? with : [without]
            guard known.contains(where: Self.isPermitted) else {
                let mayHaveSession = !request.hasSession && with.contains(where: Self.isPermitted)
                return .differs(now(known.contains(.forbidden) ? .forbidden : without), isUnknown: mayHaveSession)
            }
            if known.contains(.forbidden), !route.require.isEmpty { claims[route.name, default: 0] += 1 }
            return isServedAlike(request, route, sent)
                ? .same : .now(now(.permitted(hasSession: false, tokens: [])))
        case .undecided, .local, .misdirected, .rateLimited, .csrfRejected:
            // Whether it had a session is not stated.
            let depends = with.contains { $0 != without } && with != []
            let permitted = DecisionTables.Admission.permitted(hasSession: false, tokens: [])
            return .differs(
                Self.isPermitted(without) ? now(permitted) : now(without),
                isUnknown: depends && !Self.isPermitted(without))
        }
    }

    /// Whether a permitted request gets what the log states, as far as it does.
    private func isServedAlike(_ request: LoggedRequest, _ route: Route, _ sent: [UInt8]) -> Bool {
        switch route.action {
        case .redirect: return request.decision == .redirected
        case .files: return request.decision == .file
        case .forward:
            guard request.decision == .forwarded || request.decision == .public else { return false }
            // Requests that no connection was found for have no upstream.
            guard let upstream = request.upstream else { return true }
            return upstream == route.upstreamName(in: tables.configuration)
                && sent == request.sentPath ?? request.path
        }
    }

    private mutating func resolutions(of host: String?) -> [HostRules.Resolution] {
        if let known = hosts[host ?? ""] { return known }
        // Clients choose hosts.
        if hosts.count == 4_096 { hosts = [:] }
        let found = tables.resolutions(of: host)
        hosts[host ?? ""] = found
        return found
    }

    private mutating func admissions(of route: Int, _ group: Int)
        -> (without: DecisionTables.Admission, with: Set<DecisionTables.Admission>)
    {
        let key = [route, tables.table.groups.site(of: group)]
        if let known = admissions[key] { return known }
        let all = sessions.states.map { tables.admission(to: route, group: group, session: $0.lookup) }
        let found = (without: all[0], with: Set(all.dropFirst()))
        admissions[key] = found
        return found
    }
}
