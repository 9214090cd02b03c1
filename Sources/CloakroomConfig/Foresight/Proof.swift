import CloakroomCore
import CloakroomWire

/// Decides statements about a configuration for all requests: for one request of each class.
///
/// A request is a host, a method, a path, a session or another credential, and the page that caused it. ``PathClasses`` and
/// ``SessionClasses`` explain why few paths and sessions represent all. Two hosts are alike if they have the same routes and
/// site and are in the same lists of statements; all methods that nothing names are alike. Queries and other fields decide
/// nothing but rejections: a request that is malformed, too large, too frequent or a CORS preflight may be rejected although
/// a request of its class is served.
struct Proof {
    enum Verdict {
        case holds
        case fails(Counterexample)
        /// The statement describes no request, or none that could break it.
        case vacuous(message: String, suggestion: String)
    }

    let statements: [Statement]
    private let configurations: [GatewayConfiguration]
    private let new: DecisionTables
    private let old: DecisionTables?
    private let paths: PathClasses
    private let hosts: [Host]
    private let methods: [String]
    /// `nil` is the user, or a page of the gateway.
    private let origins: [String?]

    /// A host, the groups that it leads to, and whether it is served without client certificates now, and was not before.
    private typealias Host = (name: String?, new: Int?, old: Int?, isOpened: Bool)

    /// - Parameter older: The configuration that is replaced.
    init(
        _ statements: [Statement], about configuration: GatewayConfiguration, since older: GatewayConfiguration? = nil
    ) throws(TooManyClasses) {
        self.statements = statements + (older == nil ? [] : [Statement(name: "opens nothing", kind: .opensNothing)])
        let configurations = [configuration] + (older.map { [$0] } ?? [])
        let conditions = statements.flatMap { [$0.scope] + ($0.unless.map { [$0] } ?? []) }
        let stated = conditions.flatMap(\.paths)
        var patterns = stated
        var steps = 0
        for configuration in configurations { patterns += try Self.patterns(configuration, stated, &steps) }
        paths = try PathClasses(patterns)
        let trusted = configurations.flatMap { configuration in
            configuration.crossSite.trustedOrigins + configuration.crossSite.corsOrigins
                + configuration.routes.flatMap(\.stream.origins)
        }
        let others = ["https://other.invalid"] + Set(trusted).sorted()
        origins = [nil] + others.map(Optional.some)
        let tables = (
            new: DecisionTables(configuration, origins: others), old: older.map { DecisionTables($0, origins: others) }
        )
        self.configurations = configurations
        (new, old) = tables
        let named = configurations.flatMap(\.routes).flatMap(\.methods) + conditions.flatMap(\.methods)
        let unnamed = ["PUT", "DELETE", "PATCH", "UNNAMED"].first { !named.contains($0) } ?? "UNNAMED"
        let standard = ["GET", "HEAD", "POST", unnamed, "OPTIONS"]
        methods = standard + Set(named).subtracting(standard + [Statement.unsafeMethods]).sorted()
        var seen: Set<[Int?]> = []
        hosts = Self.hostNames(configurations, conditions).compactMap { name in
            let (now, before) = (tables.new.place(of: name), tables.old?.place(of: name))
            let isOpened = now.isOpen && before.map { $0.group != nil && !$0.isOpen } ?? false
            let memberships = [isOpened ? 1 : 0] + conditions.map { Self.lists($0, name) ? 1 : 0 }
            guard seen.insert([now.group, before?.group] + memberships).inserted else { return nil }
            return (name, now.group, before?.group, isOpened)
        }
    }

    /// The patterns that a configuration compares paths with.
    /// - Parameter stated: Those of statements.
    private static func patterns(
        _ configuration: GatewayConfiguration, _ stated: [PathPattern], _ steps: inout Int
    ) throws(TooManyClasses) -> [PathPattern] {
        let calls = TokenCallPaths(configuration.upstreams).calls.compactMap { try? PathPattern($0.path) }
        var patterns = configuration.routes.map(\.pattern) + calls
        for route in configuration.routes {
            for path in calls + stated { patterns += try PathRewrite.received(by: route, becoming: path, &steps) }
        }
        let accounts = configuration.accounts
        guard accounts.isEnabled, let prefix = try? PathPattern(accounts.prefix) else { return patterns }
        // No path from the prefix on is forwarded, unless a route names it.
        let isNamed = configuration.routes.contains { $0.pattern.segments.starts(with: prefix.segments) }
        let own = (isNamed ? AccountEndpoint.templates(under: accounts.prefix) : []) + [accounts.prefix + "/*"]
        return patterns + [prefix] + own.compactMap { try? PathPattern($0) }
    }

    /// The hosts that anything names, one of each wildcard, those that only listeners of this machine serve, one that
    /// nothing names, and none.
    private static func hostNames(_ configurations: [GatewayConfiguration], _ conditions: [Statement.Conditions])
        -> [String?]
    {
        var all = Set(conditions.flatMap(\.hosts))
        for configuration in configurations {
            all.formUnion(configuration.routes.flatMap(\.hosts))
            all.formUnion(configuration.listeners.flatMap { $0.hosts + ($0.forwardAuth?.hosts ?? []) })
            for site in configuration.sites { all.formUnion(site.hosts + [site.publicHost].compactMap(\.self)) }
            if let host = configuration.accounts.publicHost { all.insert(host) }
        }
        let wildcards = all.filter { $0.hasPrefix("*.") }.map { (wildcard: String) -> String in
            var host = "any" + wildcard.dropFirst()
            while all.contains(host) { host = "x" + host }
            return host
        }
        let names = all.filter { !$0.hasPrefix("*.") }.sorted() + wildcards.sorted()
        return names + ["localhost", "other.invalid", "127.0.0.1", "any.localhost", nil]
    }

    private static func lists(_ conditions: Statement.Conditions, _ host: String?) -> Bool {
        conditions.hosts.isEmpty || host.map { HostNames([conditions.hosts]).value(of: $0) != nil } ?? false
    }

    // MARK: - Deciding

    /// What a request gets.
    struct Service {
        let route: Route
        /// `nil` for a file.
        let upstream: String?
        let hasSession: Bool
        let tokens: DecisionTables.Tokens
        /// The upstream and the path that it receives, or the folder, and whether it is a WebSocket.
        let target: [UInt8]
    }

    /// A request up to its session.
    private struct Place {
        let host: Host
        let method: String
        let path: String
        let isSafe: Bool
        let new: (match: RouteTable.Match, sent: [UInt8])?
        let old: (match: RouteTable.Match, sent: [UInt8])?

        /// What decides about it: requests with the same are decided alike. Of a host the site is enough, because the route
        /// is known.
        func key(_ isExcusable: Bool, _ sites: (new: Int?, old: Int?)) -> [Int] {
            let number = { (match: RouteTable.Match?) in if case .route(let index)? = match { index } else { -1 } }
            let flags = [method == "GET", isSafe, host.isOpened, isExcusable, new?.sent == old?.sent]
            return [number(new?.match), number(old?.match), sites.new ?? -1, sites.old ?? -1] + flags.map { $0 ? 1 : 0 }
        }
    }

    /// The maximum number of requests that are decided: about 30 seconds.
    static let mostDecisions = 15_000_000
    /// The maximum number of sessions that are kept for further requests.
    private static let mostKept = 200_000

    /// The verdict about each statement.
    func verdicts(atMost limit: Int = mostDecisions) throws(TooManyClasses) -> [Verdict] {
        var decisions = 0
        var known = KnownSessions()
        var failures: [Counterexample?] = statements.map { _ in nil }
        var matched = statements.map { $0.kind == .opensNothing }
        var seen: [Set<[Int]>] = statements.map { _ in [] }
        for sample in paths.samples {
            let bytes = Array(sample.path.utf8)
            let scopes = statements.map { Self.holds($0.scope.paths, bytes, leniently: $0.kind == .never) }
            let exceptions = statements.map { Self.holds($0.unless?.paths ?? [], bytes, leniently: false) }
            for host in hosts {
                let sites = (
                    new: host.new.map { new.table.groups.site(of: $0) },
                    old: host.old.flatMap { group in old.map { $0.table.groups.site(of: group) } }
                )
                for method in methods {
                    decisions += 1
                    let place = Place(
                        host: host, method: method, path: sample.path,
                        isSafe: RequestMethod(Array(method.utf8).span).isSafe,
                        new: host.new.map { new.table.match(method, bytes, group: $0) },
                        old: host.old.flatMap { group in old.map { $0.table.match(method, bytes, group: group) } })
                    for (index, statement) in statements.enumerated() where failures[index] == nil {
                        guard scopes[index] || isRewritten(place, into: statement), isMeant(statement, sample, host),
                            Self.describes(statement.scope, place)
                        else { continue }
                        let isExcusable =
                            statement.unless.map { exceptions[index] && Self.describes($0, place) } ?? false
                        guard seen[index].insert(place.key(isExcusable, sites)).inserted else { continue }
                        let sessions = try sessions(of: place, index, &known, &decisions)
                        decisions += sessions.states.count * origins.count
                        failures[index] = violation(of: statement, place, sessions, isExcusable, &matched[index])
                    }
                    guard decisions <= limit else { throw .decisions }
                }
            }
        }
        return statements.indices.map { index in
            if let failure = failures[index] { return .fails(failure) }
            return matched[index] ? .holds : Self.vacuous(statements[index])
        }
    }

    /// By what routes require, and by statement: most routes require the same as others.
    private struct KnownSessions {
        var classes: [[Int]: SessionClasses] = [:]
        var count = 0
    }

    /// The sessions that the routes of a request and a statement distinguish.
    private func sessions(
        of place: Place, _ statement: Int, _ known: inout KnownSessions, _ decisions: inout Int
    ) throws(TooManyClasses) -> SessionClasses {
        let (route, older) = (Self.route(place.new?.match, new), old.flatMap { Self.route(place.old?.match, $0) })
        let first = { (route: Route?, routes: [Route]?) in
            route.flatMap { route in routes?.firstIndex { $0.require == route.require } } ?? -1
        }
        let key = [first(route, new.configuration.routes), first(older, old?.configuration.routes), statement]
        if let found = known.classes[key] { return found }
        let conditions = statements[statement]
        let made = try SessionClasses(
            configurations, for: [route, older].compactMap(\.self),
            claims: conditions.scope.claims + (conditions.unless?.claims ?? []))
        // To make one takes as long as ten decisions.
        decisions += made.states.count * 10
        // The others are made again: they would need much memory.
        if known.count + made.states.count <= Self.mostKept {
            known.classes[key] = made
            known.count += made.states.count
        }
        return made
    }

    /// What the route of a request makes of each session; empty without one.
    private static func admissions(
        _ match: RouteTable.Match?, _ group: Int?, _ tables: DecisionTables, _ sessions: SessionClasses
    ) -> [DecisionTables.Admission] {
        guard case .route(let index)? = match, let group else { return [] }
        return tables.admissions(to: index, group: group, sessions)
    }

    /// The route of a request.
    private static func route(_ match: RouteTable.Match?, _ tables: DecisionTables) -> Route? {
        if case .route(let index)? = match { tables.configuration.routes[index] } else { nil }
    }

    /// Whether the path that an upstream would receive is one of which nothing may be served.
    private func isRewritten(_ place: Place, into statement: Statement) -> Bool {
        // Without a copy of the route: most paths are asked about here.
        guard statement.kind == .never, let found = place.new, case .route(let index) = found.match,
            new.configuration.routes[index].rewrite != nil
        else { return false }
        return Self.holds(statement.scope.paths, found.sent, leniently: true)
    }

    /// Not every spelling has to be served, nor at hosts that the gateway does not have.
    private func isMeant(_ statement: Statement, _ sample: PathClasses.Sample, _ host: Host) -> Bool {
        statement.kind != .always || sample.isPlain && (host.new != nil || !statement.scope.hosts.isEmpty)
    }

    private static func holds(_ patterns: [PathPattern], _ path: [UInt8], leniently: Bool) -> Bool {
        let literal = PathPattern(ofPath: path.dropFirst())
        return patterns.isEmpty
            || patterns.contains { $0.covers(literal) || leniently && $0.coversLeniently(path) }
    }

    /// Whether method and host are among those of conditions.
    private static func describes(_ conditions: Statement.Conditions, _ place: Place) -> Bool {
        let (methods, method) = (conditions.methods, place.method)
        guard methods.isEmpty || methods.contains(method) || !place.isSafe && methods.contains(Statement.unsafeMethods)
        else { return false }
        return lists(conditions, place.host.name)
    }

    /// The first session and page with which a request breaks a statement.
    /// - Parameter hasMatch: Set if the statement concerns the request.
    private func violation(
        of statement: Statement, _ place: Place, _ sessions: SessionClasses, _ isExcusable: Bool,
        _ hasMatch: inout Bool
    ) -> Counterexample? {
        let isBare = statement.unless == nil && statement.scope.dependsOnRequestAlone
        if statement.kind == .never, isBare, place.host.new != nil { hasMatch = true }
        let route = Self.route(place.new?.match, new)
        var kinds: [CrossSitePolicy.RequestKind] = [place.isSafe ? .safe : .unsafe]
        // That a request opens a WebSocket is its client's choice.
        if place.method == "GET", route?.allowsWebSocket == true, statement.kind != .always { kinds.append(.tunnel) }
        let admissions = Self.admissions(place.new?.match, place.host.new, new, sessions)
        let older = old.map { Self.admissions(place.old?.match, place.host.old, $0, sessions) } ?? []
        for (index, state) in sessions.states.enumerated() {
            // A field that is not read is like none.
            let isField = state.credential == .token || state.credential == .unverified
            guard !isField || route?.credentials.reads(state.credential) == true else { continue }
            for (origin, kind) in origins.flatMap({ origin in kinds.map { (origin, $0) } }) {
                if let origin, !new.canSend(state.credential, from: origin, kind) { continue }
                let service = service(place.new, admissions, new, index, state.credential, origin, kind)
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
                    let before = self.service(place.old, older, old, index, state.credential, origin, kind)
                    isBroken =
                        place.host.isOpened || before?.target != service.target
                        || !service.tokens.isSubset(of: before?.tokens ?? [])
                }
                guard isBroken else { continue }
                return Counterexample(
                    method: place.method, host: place.host.name, path: place.path, state, origin, kind,
                    outcome: outcome(place.new?.match, service), service, new)
            }
        }
        return nil
    }

    private static func names(_ conditions: Statement.Conditions, _ service: Service?) -> Bool {
        guard !conditions.upstreams.isEmpty || !conditions.sends.isEmpty else { return true }
        guard let service else { return false }
        return (conditions.upstreams.isEmpty || service.upstream.map(conditions.upstreams.contains) ?? false)
            && conditions.sends.allSatisfy { service.tokens.contains($0 == .bearer ? .bearer : .apiToken) }
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
        _ found: (match: RouteTable.Match, sent: [UInt8])?, _ admissions: [DecisionTables.Admission],
        _ tables: DecisionTables, _ state: Int, _ credential: Credential, _ origin: String?,
        _ kind: CrossSitePolicy.RequestKind
    ) -> Service? {
        guard let found, !admissions.isEmpty, case .route(let index) = found.match else { return nil }
        let route = tables.configuration.routes[index]
        guard route.redirect == nil, case .permitted(let hasSession, let tokens) = admissions[state] else { return nil }
        // Other routes ignore an upgrade.
        let isTunnel = kind == .tunnel && route.allowsWebSocket
        let kind = kind == .tunnel && !isTunnel ? .safe : kind
        if let origin, tables.rejects(kind, credential, from: origin, for: route) { return nil }
        let upstream = route.upstreamName(in: tables.configuration)
        return Service(
            route: route, upstream: upstream, hasSession: hasSession, tokens: tokens,
            target: Array((upstream ?? route.target(in: tables.configuration)).utf8) + [isTunnel ? 0x09 : 0x20]
                + (upstream == nil ? [] : found.sent))
    }

    private static func vacuous(_ statement: Statement) -> Verdict {
        let (message, suggestion): (String, String)
        if statement.kind == .always {
            message = "describes no request: unless excuses all of them"
            suggestion = "remove a condition, or write hosts that are served"
        } else if statement.unless == nil, statement.scope.dependsOnRequestAlone {
            message = "describes no request: no listener serves these hosts"
            suggestion = "write hosts of a route or listener"
        } else {
            message = "describes nothing: whatever the session, no such request is \(statement.service.rawValue)"
            suggestion = "compare paths, methods, hosts, upstreams and sends with the routes, or remove it"
        }
        return .vacuous(message: message, suggestion: suggestion)
    }

    private func outcome(_ match: RouteTable.Match?, _ service: Service?) -> String {
        if let service {
            let verb = service.upstream == nil ? "gets" : "is forwarded to"
            return "\(verb) \(service.route.target(in: new.configuration)) by route \(service.route.name)"
        }
        return switch match {
        case nil: "is not served at this host"
        case .route(let index)?: "is rejected by route \(new.configuration.routes[index].name)"
        case .accountEndpoint?: "gets a response of the gateway"
        case .notFound?: "gets 404"
        case .methodNotAllowed?: "gets 405"
        }
    }
}
