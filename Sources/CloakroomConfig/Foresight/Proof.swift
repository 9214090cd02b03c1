import CloakroomCore
import CloakroomWire

/// Decides statements about a configuration for all requests: for one request of each class.
///
/// A request is a host, a method, a path, a session and the page that caused it. ``PathClasses`` and ``SessionClasses``
/// explain why few paths and sessions represent all. Two hosts are alike if they have the same routes and site and are in
/// the same lists of statements; all methods that nothing names are alike. Queries and other fields decide nothing but
/// rejections: a request that is malformed, too large, too frequent, a CORS preflight or a WebSocket of another origin may
/// be rejected although a request of its class is served.
struct Proof {
    enum Verdict {
        case holds
        case fails(Counterexample)
        /// The statement describes no request, or none that could break it.
        case vacuous(message: String, suggestion: String)
    }

    let statements: [Statement]
    private let new: DecisionTables
    private let old: DecisionTables?
    private let paths: PathClasses
    private let sessions: SessionClasses
    private let hosts: [Host]
    private let methods: [String]
    /// `nil` is the user, or a page of the gateway.
    private let origins: [String?]

    /// A host and the groups that it leads to.
    private struct Host {
        let name: String
        let new: Int?
        let old: Int?
    }

    /// - Parameter older: The configuration that is replaced.
    init(
        _ statements: [Statement], about configuration: GatewayConfiguration, since older: GatewayConfiguration? = nil
    ) throws(TooManyClasses) {
        self.statements = statements + (older == nil ? [] : [Statement(name: "opens nothing", kind: .opensNothing)])
        new = DecisionTables(configuration)
        old = older.map { DecisionTables($0) }
        let configurations = [configuration] + (older.map { [$0] } ?? [])
        let conditions = statements.flatMap { [$0.scope] + ($0.unless.map { [$0] } ?? []) }
        let stated = conditions.flatMap(\.paths)
        paths = try PathClasses(configurations.flatMap { Self.patterns($0, stated) } + stated)
        sessions = try SessionClasses(configurations, claims: conditions.flatMap(\.claims))
        let named = configurations.flatMap(\.routes).flatMap(\.methods) + conditions.flatMap(\.methods)
        let standard = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "UNNAMED"]
        methods = standard + Set(named).subtracting(standard + [Statement.unsafeMethods]).sorted()
        let trusted = configurations.flatMap { $0.crossSite.trustedOrigins + $0.crossSite.corsOrigins }
        origins = [nil, "https://other.invalid"] + Set(trusted).sorted().map(Optional.some)
        var seen: Set<[Int?]> = []
        let tables = (new, old)
        hosts = Self.hostNames(configurations, conditions).compactMap { name in
            let host = Host(name: name, new: tables.0.group(of: name), old: tables.1?.group(of: name))
            let memberships = conditions.map { Self.lists($0, name) ? 1 : 0 }
            return seen.insert([host.new, host.old] + memberships).inserted ? host : nil
        }
    }

    /// The patterns that a configuration compares paths with.
    /// - Parameter stated: Those of statements.
    private static func patterns(_ configuration: GatewayConfiguration, _ stated: [PathPattern]) -> [PathPattern] {
        let calls = TokenCallPaths(configuration.upstreams).calls.compactMap { try? PathPattern($0.path) }
        let rewritten = configuration.routes.flatMap { route in
            (calls + stated).compactMap { PathRewrite.received(by: route, becoming: $0) }
        }
        let accounts = configuration.accounts
        var own: [String] = []
        if accounts.isEnabled { own = AccountEndpoint.templates(under: accounts.prefix) + [accounts.prefix + "/*"] }
        return configuration.routes.map(\.pattern) + calls + rewritten + own.compactMap { try? PathPattern($0) }
    }

    /// The hosts that anything names, one of each wildcard, and one that nothing names.
    private static func hostNames(_ configurations: [GatewayConfiguration], _ conditions: [Statement.Conditions])
        -> [String]
    {
        var all = Set(conditions.flatMap(\.hosts))
        for configuration in configurations {
            all.formUnion(configuration.routes.flatMap(\.hosts))
            all.formUnion(configuration.listeners.flatMap(\.hosts))
            for site in configuration.sites { all.formUnion(site.hosts + [site.publicHost].compactMap(\.self)) }
            if let host = configuration.accounts.publicHost { all.insert(host) }
        }
        let wildcards = all.filter { $0.hasPrefix("*.") }.map { (wildcard: String) -> String in
            var host = "any" + wildcard.dropFirst()
            while all.contains(host) { host = "x" + host }
            return host
        }
        return all.filter { !$0.hasPrefix("*.") }.sorted() + wildcards.sorted() + ["localhost", "other.invalid"]
    }

    private static func lists(_ conditions: Statement.Conditions, _ host: String) -> Bool {
        conditions.hosts.isEmpty || HostNames([conditions.hosts]).value(of: host) != nil
    }

    // MARK: - Deciding

    /// What a request gets.
    private struct Service: Hashable {
        let route: Int
        /// `nil` for a file.
        let upstream: String?
        let hasSession: Bool
        let tokens: Set<SentToken>
        /// The upstream and the path that it receives, or the folder.
        let target: [UInt8]
    }

    /// A request up to its session.
    private struct Head {
        let host: Host
        let method: String
        let path: String
        let isSafe: Bool
        let new: (match: RouteTable.Match, sent: [UInt8])?
        let old: (match: RouteTable.Match, sent: [UInt8])?
    }

    /// What decides about a request besides session and page: requests with the same are decided alike.
    private struct Kind: Hashable {
        let new: Int
        let old: Int
        let newGroup: Int?
        let oldGroup: Int?
        let isSafe: Bool
        let isExcusable: Bool
        let isSentAlike: Bool
    }

    /// The verdict about each statement.
    func verdicts() -> [Verdict] {
        var failures: [Counterexample?] = statements.map { _ in nil }
        var matched = statements.map { $0.kind == .opensNothing }
        var seen: [Set<Kind>] = statements.map { _ in [] }
        var admissions = AdmissionCache()
        for sample in paths.samples {
            let bytes = Array(sample.path.utf8)
            let scopes = statements.map { Self.holds($0.scope.paths, bytes, leniently: $0.kind == .never) }
            let exceptions = statements.map { Self.holds($0.unless?.paths ?? [], bytes, leniently: false) }
            for host in hosts {
                for method in methods {
                    let head = Head(
                        host: host, method: method, path: sample.path,
                        isSafe: RequestMethod(Array(method.utf8).span).isSafe,
                        new: host.new.map { new.table.match(method, bytes, group: $0) },
                        old: host.old.flatMap { group in old.map { $0.table.match(method, bytes, group: group) } })
                    for (index, statement) in statements.enumerated() where failures[index] == nil {
                        guard scopes[index] || isRewritten(head, into: statement), isMeant(statement, sample, host),
                            Self.describes(statement.scope, head)
                        else { continue }
                        let isExcusable =
                            statement.unless.map { exceptions[index] && Self.describes($0, head) } ?? false
                        guard seen[index].insert(kind(of: head, isExcusable)).inserted else { continue }
                        failures[index] = violation(
                            of: statement, head, isExcusable, &matched[index], &admissions)
                    }
                }
            }
        }
        return statements.indices.map { index in
            if let failure = failures[index] { return .fails(failure) }
            return matched[index] ? .holds : Self.vacuous(statements[index])
        }
    }

    /// Whether the path that an upstream would receive is one of which nothing may be served.
    private func isRewritten(_ head: Head, into statement: Statement) -> Bool {
        guard statement.kind == .never, let place = head.new, case .route(let index) = place.match,
            new.configuration.routes[index].rewrite != nil
        else { return false }
        return Self.holds(statement.scope.paths, place.sent, leniently: true)
    }

    /// Not every spelling has to be served, nor at hosts that the gateway does not have.
    private func isMeant(_ statement: Statement, _ sample: PathClasses.Sample, _ host: Host) -> Bool {
        statement.kind != .always || sample.isPlain && (host.new != nil || !statement.scope.hosts.isEmpty)
    }

    private func kind(of head: Head, _ isExcusable: Bool) -> Kind {
        let number = { (match: RouteTable.Match?) in if case .route(let index)? = match { index } else { -1 } }
        return Kind(
            new: number(head.new?.match), old: number(head.old?.match), newGroup: head.host.new,
            oldGroup: head.host.old, isSafe: head.isSafe, isExcusable: isExcusable,
            isSentAlike: head.new?.sent == head.old?.sent)
    }

    private static func holds(_ patterns: [PathPattern], _ path: [UInt8], leniently: Bool) -> Bool {
        let literal = PathPattern(ofPath: path.dropFirst())
        return patterns.isEmpty
            || patterns.contains { $0.covers(literal) || leniently && $0.coversLeniently(path) }
    }

    /// Whether method and host are among those of conditions.
    private static func describes(_ conditions: Statement.Conditions, _ head: Head) -> Bool {
        let (methods, method) = (conditions.methods, head.method)
        guard methods.isEmpty || methods.contains(method) || !head.isSafe && methods.contains(Statement.unsafeMethods)
        else { return false }
        return lists(conditions, head.host.name)
    }

    /// The first session and page with which a request breaks a statement.
    /// - Parameter hasMatch: Set if the statement concerns the request.
    private func violation(
        of statement: Statement, _ head: Head, _ isExcusable: Bool, _ hasMatch: inout Bool,
        _ admissions: inout AdmissionCache
    ) -> Counterexample? {
        let isBare = statement.unless == nil && statement.scope.dependsOnRequestAlone
        if statement.kind == .never, isBare, head.host.new != nil { hasMatch = true }
        for (index, state) in sessions.states.enumerated() {
            for origin in origins {
                let service = service(head.new, head.host.new, new, index, origin, head, &admissions.new)
                let isOf = service.map { statement.service == .served || $0.upstream != nil } ?? false
                let isTarget = isOf && Self.names(statement.scope, service)
                let isDescribed = meets(statement.scope, service, state, origin)
                let isExcused =
                    isExcusable
                    && statement.unless.map { Self.names($0, service) && meets($0, service, state, origin) }
                        ?? false
                let isBroken: Bool
                switch statement.kind {
                case .never:
                    if isTarget { hasMatch = true }
                    isBroken = isTarget && isDescribed && !isExcused
                case .always:
                    // Requests of other origins are meant only if they are mentioned.
                    guard isDescribed, !isExcused, statement.scope.crossSite != nil || origin == nil else { continue }
                    hasMatch = true
                    isBroken = !isTarget
                case .opensNothing:
                    guard let service, let old else { continue }
                    let before = self.service(head.old, head.host.old, old, index, origin, head, &admissions.old)
                    isBroken = before?.target != service.target || !service.tokens.isSubset(of: before?.tokens ?? [])
                }
                if isBroken { return counterexample(head, service, state, origin) }
            }
        }
        return nil
    }

    private static func names(_ conditions: Statement.Conditions, _ service: Service?) -> Bool {
        guard !conditions.upstreams.isEmpty || !conditions.sends.isEmpty else { return true }
        guard let service else { return false }
        return (conditions.upstreams.isEmpty || service.upstream.map(conditions.upstreams.contains) ?? false)
            && service.tokens.isSuperset(of: conditions.sends)
    }

    private func meets(
        _ conditions: Statement.Conditions, _ service: Service?, _ state: SessionClasses.State, _ origin: String?
    ) -> Bool {
        let hasSession = service?.hasSession ?? state.hasSession
        guard conditions.session == nil || conditions.session == hasSession,
            conditions.crossSite == nil || conditions.crossSite == (origin != nil)
        else { return false }
        guard !conditions.claims.isEmpty else { return true }
        let verdict = SessionRequirement(claims: conditions.claims).judge(
            claims: state.claims ?? .object([:]), acr: nil, authenticatedAt: nil, now: DecisionTables.now)
        return hasSession && verdict == .permitted
    }

    /// What a request gets; `nil` if it is not served.
    private func service(
        _ place: (match: RouteTable.Match, sent: [UInt8])?, _ group: Int?, _ tables: DecisionTables, _ state: Int,
        _ origin: String?, _ head: Head, _ cache: inout [AdmissionCache.Key: [DecisionTables.Admission]]
    ) -> Service? {
        guard let place, let group, case .route(let index) = place.match else { return nil }
        let route = tables.configuration.routes[index]
        guard route.redirect == nil else { return nil }
        let key = AdmissionCache.Key(route: index, site: tables.table.groups.site(of: group))
        let known =
            cache[key]
            ?? sessions.states.map { tables.admission(to: index, group: group, session: $0.lookup) }
        cache[key] = known
        guard case .permitted(let hasSession, let tokens) = known[state] else { return nil }
        if let origin, sessions.states[state].hasSession, route.usesSession,
            tables.rejects(isSafe: head.isSafe, from: origin)
        {
            return nil
        }
        let upstream = route.upstreamName(in: tables.configuration)
        return Service(
            route: index, upstream: upstream, hasSession: hasSession, tokens: tokens,
            target: Array((upstream ?? route.target(in: tables.configuration)).utf8) + [0x20]
                + (upstream == nil ? [] : place.sent))
    }

    /// What routes make of each session.
    private struct AdmissionCache {
        struct Key: Hashable {
            let route: Int
            let site: Int
        }

        var new: [Key: [DecisionTables.Admission]] = [:]
        var old: [Key: [DecisionTables.Admission]] = [:]
    }

    private static func vacuous(_ statement: Statement) -> Verdict {
        switch statement.kind {
        case .always:
            .vacuous(
                message: "describes no request: unless excuses all of them",
                suggestion: "remove a condition, or write hosts that are served")
        case .never, .opensNothing:
            statement.unless == nil && statement.scope.dependsOnRequestAlone
                ? .vacuous(
                    message: "describes no request: no listener serves these hosts",
                    suggestion: "write hosts of a route or listener")
                : .vacuous(
                    message:
                        "describes nothing: whatever the session, no such request is \(statement.service.rawValue)",
                    suggestion: "compare paths, methods, hosts, upstreams and sends with the routes, or remove it")
        }
    }

    private func counterexample(_ head: Head, _ service: Service?, _ state: SessionClasses.State, _ origin: String?)
        -> Counterexample
    {
        let outcome: String
        if let service {
            let route = new.configuration.routes[service.route]
            let name = route.name
            let verb = service.upstream == nil ? "gets" : "is forwarded to"
            outcome = "\(verb) \(route.target(in: new.configuration)) by route \(name)"
        } else {
            outcome =
                switch head.new?.match {
                case nil: "is not served at this host"
                case .route(let index)?: "is rejected by route \(new.configuration.routes[index].name)"
                case .accountEndpoint?: "gets a response of the gateway"
                case .notFound?: "gets 404"
                case .methodNotAllowed?: "gets 405"
                }
        }
        return Counterexample(
            method: head.method, host: head.host.name, path: head.path, session: state.description, origin: origin,
            outcome: outcome, route: service.map { new.configuration.routes[$0.route].name },
            upstream: service?.upstream, configuration: new.configuration)
    }
}
