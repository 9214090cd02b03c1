import CloakroomCore

/// Decides logged requests again with another configuration.
///
/// The log does not state everything: whether a request to a public route had a session, the claims of a session, the
/// origin of the page that caused a request, and how far a rate limit was exhausted. For what is not stated, all
/// possibilities are decided. A request counts as decided otherwise only if none of them leads to the logged decision, and
/// as unknown if that depends on a session or on a token. Claims, origins and rate limits are assumed to have been as the
/// logged decision shows, as far as that is possible. A line that the configuration itself has made is therefore never
/// reported.
struct Replay {
    /// The maximum number of groups; requests of further ones are counted together.
    static let mostGroups = 1_000
    /// The maximum number of line numbers that are kept.
    private static let mostNumbers = 10

    private var document: ReplayDocument
    private var groups: [[String]: ReplayDocument.Group] = [:]
    private let tables: DecisionTables
    /// By route and site, what the route makes of a credential.
    private var known: [[Int]: [Credential: Set<DecisionTables.Admission>]] = [:]
    private let listeners: [(address: String, isSecure: Bool)]

    /// - Parameter name: That of the configuration.
    init(_ configuration: GatewayConfiguration, name: String) throws(TooManyClasses) {
        tables = DecisionTables(configuration)
        var requirements: Set<SessionRequirement> = []
        // Whether there are too many. They are not kept: a log usually has requests of few routes.
        for route in configuration.routes where requirements.insert(route.require).inserted {
            _ = try SessionClasses([configuration], for: [route])
        }
        document = ReplayDocument(configuration: name)
        listeners = configuration.listeners.map { ($0.address.description, $0.tls != nil) }
    }

    /// The number of lines.
    var lines: Int { document.lines }

    /// The result, with the largest groups first.
    var result: ReplayDocument {
        var result = document
        result.groups = groups.values.sorted { ($1.count, $0.line) < ($0.count, $1.line) }
        return result
    }

    /// The rest of the log cannot be read.
    mutating func stop(_ reason: String) { document.defect = reason }

    /// Reads the next line, without its line feed.
    mutating func read(_ line: [UInt8]) {
        document.lines += 1
        let request: LoggedRequest
        do throws(LoggedRequest.Defect) {
            request = try LoggedRequest(line: line)
        } catch {
            switch error {
            case .event: return
            case .incomplete: document.incomplete += 1
            case .foreign:
                document.skipped += 1
                if document.skippedLines.count < Self.mostNumbers { document.skippedLines.append(lines) }
            }
            return
        }
        guard let verdict = verdict(about: request) else {
            document.incomplete += 1
            return
        }
        document.requests += 1
        guard case .differs(let now, let isUnknown) = verdict else { return }
        let was = request.decision == .undecided ? "\(request.status)" : request.decision.rawValue
        let target = request.upstream.map { " to \($0)" } ?? ""
        let group = ReplayDocument.Group(
            route: request.route.shortened.escaped, was: (was + target).shortened.escaped, now: now, unknown: isUnknown,
            example: request.title, line: lines)
        let key = [group.route, group.was, group.now, isUnknown ? "unknown" : "differs"]
        if groups[key] == nil, groups.count == Self.mostGroups {
            document.ungrouped += 1
        } else {
            groups[key, default: group].count += 1
        }
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
        if decision == .undecided, request.isAsked || ![403, 404, 405].contains(request.status) { return nil }
        // Preflights and exhausted Max-Forwards depend on fields.
        if decision == .local, request.route != "(accounts)" { return nil }
        if request.method == "OPTIONS", decision == .csrfRejected { return nil }
        // Limits of every request precede all that follows.
        if decision == .rateLimited, limits(nil) { return .same }
        let resolutions = resolutions(of: request)
        if resolutions.isEmpty { return .now("not received, no listener has the address") }
        var group: Int?
        for case .group(let found) in resolutions { group = found }
        let redirects = resolutions.contains { if case .redirect = $0 { true } else { false } }
        let misdirects = resolutions.contains { if case .misdirected = $0 { true } else { false } }
        if decision == .misdirected && misdirects || request.isOfRedirectingListener && redirects { return .same }
        guard let group else {
            guard redirects else { return .now("421, the host is not served") }
            return .now(["GET", "HEAD"].contains(request.method) ? "redirected to https" : "403, https is required")
        }
        let (match, sent) = tables.table.match(request.method, request.path, group: group)
        switch match {
        case .notFound:
            return request.status == 404 && decision == .undecided ? .same : .now("404, no route")
        case .methodNotAllowed:
            return request.status == 405 && decision == .undecided ? .same : .now("405, no route with the method")
        case .accountEndpoint:
            return decision == .local || decision == .csrfRejected && request.route == "(accounts)"
                ? .same : .now("a response of the gateway")
        case .route(let index): return verdict(about: request, route: index, group, sent)
        }
    }

    private mutating func admissions(to route: Int, _ group: Int) -> [Credential: Set<DecisionTables.Admission>] {
        let key = [route, tables.table.groups.site(of: group)]
        if let found = known[key] { return found }
        var found: [Credential: Set<DecisionTables.Admission>] = [:]
        let configuration = tables.configuration
        if let sessions = try? SessionClasses([configuration], for: [configuration.routes[route]]) {
            for (state, admission) in zip(sessions.states, tables.admissions(to: route, group: group, sessions)) {
                found[state.credential, default: []].insert(admission)
            }
        }
        known[key] = found
        return found
    }

    private func limits(_ route: Route?) -> Bool {
        tables.configuration.rateLimits(of: route).contains(where: \.isEnforced)
    }

    private mutating func verdict(about request: LoggedRequest, route index: Int, _ group: Int, _ sent: [UInt8])
        -> Verdict
    {
        let route = tables.configuration.routes[index]
        let admissions = admissions(to: index, group)
        let without = admissions[.none]?.first ?? .unauthenticated
        let with = admissions[request.credential ?? .cookie] ?? [without]
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
        if let verdict = verdict(aboutUnread: request, route, without) { return verdict }
        // Of a token, or of a name and a password.
        let isVerified = [.token, .basic].contains { request.credential == $0 && route.credentials.reads($0) }
        let isSame: Bool
        switch request.decision {
        case .rateLimited:
            // Also for many that are not valid.
            isSame = limits(route) || isVerified
        case .csrfRejected:
            isSame =
                route.usesSession || route.credentials == .pass
                || route.allowsWebSocket && !route.stream.origins.isEmpty
        case .unauthenticated where isVerified:
            // It is taken to be invalid: whatever the route, it is rejected then.
            isSame = true
        case .unauthenticated:
            isSame = without == .unauthenticated || !request.hasReason && with.contains(.unauthenticated)
            if !isSame { return .now(now(without)) }
        case .forbidden:
            isSame = with.contains(.forbidden)
            if !isSame { return .now(with.map(now).sorted().first ?? now(without)) }
        case .forwarded, .public, .file, .redirected:
            return verdict(aboutPermitted: request, route, sent, without: without, with: with, now)
        case .undecided, .local, .misdirected: isSame = false
        }
        if isSame { return .same }
        // Whether it had a session is not stated.
        let depends = !without.isPermitted && with.contains { $0 != without }
        return .differs(now(without), isUnknown: depends)
    }

    /// The verdict about a request that `Authorization` decided, if the route does not read the field, or otherwise;
    /// `nil` if its absence decides then.
    private func verdict(
        aboutUnread request: LoggedRequest, _ route: Route, _ without: DecisionTables.Admission
    ) -> Verdict? {
        guard let credential = request.credential, !route.credentials.reads(credential) else { return nil }
        if request.decision == .rateLimited, limits(route) { return .same }
        switch route.credentials {
        case .pass: return .now("forwarded with Authorization that is not verified, by route \(route.name)")
        case _ where route.credentials != .session && credential == .unverified:
            return .differs("401 unless route \(route.name) verifies the token", isUnknown: true)
        case _ where route.credentials != .session:
            return request.decision == .unauthenticated
                ? .same : .now("401, route \(route.name) accepts no such Authorization")
        default:
            guard request.decision == .unauthenticated, without == .unauthenticated else { return nil }
            return .differs("401 unless it has a session, by route \(route.name)", isUnknown: true)
        }
    }

    private mutating func verdict(
        aboutPermitted request: LoggedRequest, _ route: Route, _ sent: [UInt8], without: DecisionTables.Admission,
        with: Set<DecisionTables.Admission>, _ now: (DecisionTables.Admission) -> String
    ) -> Verdict {
        // A session is logged with requests that were forwarded with it.
        let hasCredential = request.hasSession || request.decision == .forwarded || request.credential != nil
        let known = hasCredential ? with : [without]
        guard known.contains(where: \.isPermitted) else {
            let mayHaveSession = !request.hasSession && request.credential == nil && with.contains(where: \.isPermitted)
            return .differs(now(known.contains(.forbidden) ? .forbidden : without), isUnknown: mayHaveSession)
        }
        if known.contains(.forbidden), !route.require.isEmpty { document.claimsUnknown[route.name, default: 0] += 1 }
        let served = now(.permitted(hasSession: false, tokens: []))
        if request.status == 101, !route.allowsWebSocket { return .now(served + ", not as a WebSocket") }
        return isServedAlike(request, route, sent) ? .same : .now(served)
    }

    /// Whether a permitted request gets what the log states, as far as it does.
    private func isServedAlike(_ request: LoggedRequest, _ route: Route, _ sent: [UInt8]) -> Bool {
        switch route.action {
        case .redirect:
            return request.decision == .redirected && !request.isOfRedirectingListener
                && [0, route.redirect?.status].contains(request.status)
        case .files: return request.decision == .file
        case .forward:
            guard request.decision == .forwarded || request.decision == .public else { return false }
            // Requests that no connection was found for have no upstream.
            guard let upstream = request.upstream else { return true }
            return upstream == route.upstreamName(in: tables.configuration)
                && sent == request.sentPath ?? request.path
        }
    }

    /// What the host of a request leads to, on the listener that the log names, or else on those with its scheme.
    private func resolutions(of request: LoggedRequest) -> [HostRules.Resolution] {
        let all = tables.resolutions(of: request.host)
        guard all.count == listeners.count else { return all }
        let own = zip(listeners, all).filter { listener, _ in
            request.listener.map { $0 == listener.address } ?? request.isSecure.map { $0 == listener.isSecure } ?? true
        }
        return own.isEmpty && request.listener == nil ? all : own.map(\.1)
    }
}
