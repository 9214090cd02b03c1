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
    /// Those of the configuration, and of the older one.
    private let tables: [DecisionTables]
    private let paths: PathClasses
    private let hosts: [Host]
    private let methods: [Method]
    /// `nil` is the user, or a page of the gateway.
    private let origins: [String?]

    /// The patterns of ``statements``, and those of `never` as lenient servers read them.
    private let patterns: [(scope: [PathPattern], lenient: [PathPattern], unless: [PathPattern])]
    /// For each statement, the first one with the same claims.
    private let claims: [Int]

    /// A host; by configuration the groups that it leads to and their sites, -1 for none; and whether it is served without
    /// client certificates now, and was not before. Conditions are those of each statement, and those of its `unless`.
    private typealias Host = (name: String?, groups: [Int?], sites: [Int], isOpened: Bool, conditions: [Bool])
    private typealias Method = (name: String, isSafe: Bool, conditions: [Bool])

    /// - Parameter older: The configuration that is replaced.
    init(
        _ statements: [Statement], about configuration: GatewayConfiguration, since older: GatewayConfiguration? = nil
    ) throws(TooManyClasses) {
        self.statements = statements + (older == nil ? [] : [Statement(name: "opens nothing", kind: .opensNothing)])
        let configurations = [configuration] + (older.map { [$0] } ?? [])
        let conditions = self.statements.flatMap { [$0.scope, $0.unless ?? Statement.Conditions()] }
        patterns = self.statements.map { statement in
            let scope = statement.scope.paths
            return (scope, statement.kind == .never ? scope.map(\.lenient) : [], statement.unless?.paths ?? [])
        }
        claims = Self.firsts(self.statements.map(Self.claims))
        let stated = conditions.flatMap(\.paths)
        var (compared, steps) = (stated, 0)
        for configuration in configurations { compared += try Self.patterns(configuration, stated, &steps) }
        paths = try PathClasses(compared)
        let trusted = configurations.flatMap { configuration in
            configuration.crossSite.trustedOrigins + configuration.crossSite.corsOrigins
                + configuration.routes.flatMap(\.stream.origins)
        }
        let others = ["https://other.invalid"] + Set(trusted).sorted()
        origins = [nil] + others.map(Optional.some)
        let tables = configurations.map { DecisionTables($0, origins: others) }
        self.tables = tables
        let named = configurations.flatMap(\.routes).flatMap(\.methods) + conditions.flatMap(\.methods)
        let unnamed = ["PUT", "DELETE", "PATCH", "UNNAMED"].first { !named.contains($0) } ?? "UNNAMED"
        let standard = ["GET", "HEAD", "POST", unnamed, "OPTIONS"]
        methods = (standard + Set(named).subtracting(standard + [Statement.unsafeMethods]).sorted()).map { name in
            let isSafe = RequestMethod(Array(name.utf8).span).isSafe
            let listed = conditions.map(\.methods).map { methods in
                methods.isEmpty || methods.contains(name) || !isSafe && methods.contains(Statement.unsafeMethods)
            }
            return (name, isSafe, listed)
        }
        let lists = conditions.map { $0.hosts.isEmpty ? nil : HostNames([$0.hosts]) }
        var seen: Set<[Int?]> = []
        hosts = Self.hostNames(configurations, conditions).compactMap { name in
            let places = tables.map { $0.place(of: name) }
            let groups = places.map { $0.group }
            let isOpened = places[0].isOpen && places.dropFirst().contains { $0.group != nil && !$0.isOpen }
            let listed = lists.map { list in
                list.map { list in name.map { list.value(of: $0) != nil } ?? false } ?? true
            }
            guard seen.insert(groups + ([isOpened] + listed).map { $0 ? 1 : 0 }).inserted else { return nil }
            let sites = zip(tables, groups).map { own, group in group.map { own.table.groups.site(of: $0) } ?? -1 }
            return (name, groups, sites, isOpened, listed)
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

    private static func claims(of statement: Statement) -> [RequiredClaim] {
        statement.scope.claims + (statement.unless?.claims ?? [])
    }

    /// For each element, the index of the first one that is equal.
    private static func firsts<Element: Hashable>(_ all: [Element]) -> [Int] {
        let first = Dictionary(zip(all, all.indices)) { first, _ in first }
        return all.map { first[$0] ?? 0 }
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
        let method: Method
        let path: String
        /// By configuration; `nil` if the host is not served.
        let found: [(match: RouteTable.Match, sent: [UInt8])?]
        /// By configuration, the index of the route, -1 without one.
        var routes: [Int] { found.map { if case .route(let index)? = $0?.match { index } else { -1 } } }

        /// What decides about it: requests with the same are decided alike. Of a host the site is enough, because the route
        /// is known.
        var key: [Int] {
            let isSentAlike = found[0]?.sent == found[found.count - 1]?.sent
            let flags = [method.name == "GET", method.isSafe, host.isOpened, isSentAlike]
            return routes + host.sites + flags.map { $0 ? 1 : 0 }
        }

        /// Whether its host and method are those of the conditions with an index.
        func isDescribed(by conditions: Int) -> Bool { host.conditions[conditions] && method.conditions[conditions] }
    }

    /// The maximum of what is done, in requests that are decided: about 20 seconds.
    static let mostDecisions = 10_000_000
    /// The maximum number of sessions that are kept for further requests.
    private static let mostKept = 200_000

    /// The verdict about each statement.
    func verdicts(atMost limit: Int = mostDecisions) throws(TooManyClasses) -> [Verdict] {
        var decisions = 0
        var known = KnownSessions(requirements: tables.map { Self.firsts($0.configuration.routes.map(\.require)) })
        var failures: [Counterexample?] = statements.map { _ in nil }
        var matched = statements.map { $0.kind == .opensNothing }
        var seen: [Set<Int>] = statements.map { _ in [] }
        var numbers: [[Int]: Int] = [:]
        // To compare a path with a pattern, or a request with a statement, takes a fraction of a decision.
        let comparisons = 1 + patterns.reduce(0) { $0 + $1.scope.count + $1.lenient.count + $1.unless.count } / 8
        let turn = 1 + statements.count / 16
        for sample in paths.samples {
            let bytes = Array(sample.path.utf8)
            let path = PathReadings(bytes)
            decisions += comparisons
            let scopes = patterns.map { path.meets($0.scope, $0.lenient) }
            let exceptions = patterns.map { path.meets($0.unless) }
            // By route: whether the path that the upstream would receive is one of which nothing may be served.
            var rewritten: [Int: [Bool]] = [:]
            for host in hosts {
                for method in methods {
                    decisions += turn
                    let found = zip(tables, host.groups).map { tables, group in
                        group.map { tables.table.match(method.name, bytes, group: $0) }
                    }
                    let place = Place(host: host, method: method, path: sample.path, found: found)
                    let route = place.routes[0]
                    if let sent = found[0]?.sent, route >= 0, rewritten[route] == nil,
                        tables[0].configuration.routes[route].rewrite != nil
                    {
                        decisions += comparisons
                        let path = PathReadings(sent)
                        rewritten[route] = patterns.map { path.meets($0.scope, $0.lenient) }
                    }
                    let sent = rewritten[route]
                    let key = place.key
                    let number = numbers[key] ?? numbers.count
                    if number == numbers.count { numbers[key] = number }
                    for (index, statement) in statements.enumerated() where failures[index] == nil {
                        guard scopes[index] || statement.kind == .never && sent?[index] == true,
                            place.isDescribed(by: 2 * index), isMeant(statement, sample, host)
                        else { continue }
                        let isExcusable =
                            statement.unless != nil && exceptions[index] && place.isDescribed(by: 2 * index + 1)
                        guard seen[index].insert(2 * number + (isExcusable ? 1 : 0)).inserted else { continue }
                        let sessions = try sessions(of: place, index, &known, &decisions)
                        decisions += 1 + sessions.states.count * origins.count
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

    /// By what routes require, and by claims of statements: most require the same as others.
    private struct KnownSessions {
        /// For each route of both configurations, the first one that requires the same.
        let requirements: [[Int]]
        var classes: [[Int]: SessionClasses] = [:]
        var count = 0
    }

    /// The sessions that the routes of a request and a statement distinguish.
    private func sessions(
        of place: Place, _ statement: Int, _ known: inout KnownSessions, _ decisions: inout Int
    ) throws(TooManyClasses) -> SessionClasses {
        let key = zip(place.routes, known.requirements).map { $0 < 0 ? -1 : $1[$0] } + [claims[statement]]
        if let found = known.classes[key] { return found }
        let configurations = tables.map(\.configuration)
        let made = try SessionClasses(
            configurations, for: zip(place.routes, configurations).compactMap { $0 < 0 ? nil : $1.routes[$0] },
            claims: Self.claims(of: statements[statement]))
        // To make one takes as long as ten decisions.
        decisions += made.states.count * 10
        // The others are made again: they would need much memory.
        if known.count + made.states.count <= Self.mostKept {
            known.classes[key] = made
            known.count += made.states.count
        }
        return made
    }

    /// Not every spelling has to be served, nor at hosts that the gateway does not have.
    private func isMeant(_ statement: Statement, _ sample: PathClasses.Sample, _ host: Host) -> Bool {
        statement.kind != .always || sample.isPlain && (host.groups[0] != nil || !statement.scope.hosts.isEmpty)
    }

    /// The first session and page with which a request breaks a statement.
    /// - Parameter hasMatch: Set if the statement concerns the request.
    private func violation(
        of statement: Statement, _ place: Place, _ sessions: SessionClasses, _ isExcusable: Bool,
        _ hasMatch: inout Bool
    ) -> Counterexample? {
        let isBare = statement.unless == nil && statement.scope.dependsOnRequestAlone
        if statement.kind == .never, isBare, place.host.groups[0] != nil { hasMatch = true }
        let new = tables[0]
        let route = place.routes[0] < 0 ? nil : new.configuration.routes[place.routes[0]]
        var kinds: [CrossSitePolicy.RequestKind] = [place.method.isSafe ? .safe : .unsafe]
        // That a request opens a WebSocket is its client's choice.
        if place.method.name == "GET", route?.allowsWebSocket == true, statement.kind != .always {
            kinds.append(.tunnel)
        }
        let pages = origins.flatMap { origin in kinds.map { (origin, $0) } }
        // What each route makes of each session; empty without one.
        let admissions = zip(tables, zip(place.routes, place.host.groups)).map { tables, place in
            place.0 < 0 ? [] : place.1.map { tables.admissions(to: place.0, group: $0, sessions) } ?? []
        }
        for (index, state) in sessions.states.enumerated() {
            // A field that is not read is like none.
            let isField = state.credential != .none && state.credential != .cookie
            guard !isField || route?.credentials.reads(state.credential) == true else { continue }
            for (origin, kind) in pages {
                if let origin, !new.canSend(state.credential, from: origin, kind) { continue }
                let service = service(place, 0, admissions[0], index, state.credential, origin, kind)
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
                    guard let service else { continue }
                    let before = self.service(place, 1, admissions[1], index, state.credential, origin, kind)
                    isBroken =
                        place.host.isOpened || before?.target != service.target
                        || !service.tokens.isSubset(of: before?.tokens ?? [])
                }
                guard isBroken else { continue }
                return Counterexample(
                    method: place.method.name, host: place.host.name, path: place.path, state, origin, kind,
                    outcome: outcome(place, service), service, new)
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
        _ place: Place, _ index: Int, _ admissions: [DecisionTables.Admission], _ state: Int,
        _ credential: Credential, _ origin: String?, _ kind: CrossSitePolicy.RequestKind
    ) -> Service? {
        guard let sent = place.found[index]?.sent, !admissions.isEmpty else { return nil }
        let tables = self.tables[index]
        let route = tables.configuration.routes[place.routes[index]]
        guard route.redirect == nil, case .permitted(let hasSession, let tokens) = admissions[state] else { return nil }
        // Other routes ignore an upgrade.
        let isTunnel = kind == .tunnel && route.allowsWebSocket
        let kind = kind == .tunnel && !isTunnel ? .safe : kind
        if let origin, tables.rejects(kind, credential, from: origin, for: route) { return nil }
        let upstream = route.upstreamName(in: tables.configuration)
        return Service(
            route: route, upstream: upstream, hasSession: hasSession, tokens: tokens,
            target: Array((upstream ?? route.target(in: tables.configuration)).utf8) + [isTunnel ? 0x09 : 0x20]
                + (upstream == nil ? [] : sent))
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

    private func outcome(_ place: Place, _ service: Service?) -> String {
        let (found, configuration) = (place.found[0], tables[0].configuration)
        if let service, case let route = service.route {
            // What the upstream receives, if the path is rewritten.
            let sent = found.map { String(decoding: $0.sent, as: UTF8.self) } ?? place.path
            let target =
                (service.upstream ?? route.target(in: configuration)) + (sent == place.path ? "" : " as \(sent)")
            return "\(service.upstream == nil ? "gets" : "is forwarded to") \(target) by route \(route.name)"
        }
        return switch found?.match {
        case nil: "is not served at this host"
        case .route(let index)?: "is rejected by route \(configuration.routes[index].name)"
        case .accountEndpoint?: "gets a response of the gateway"
        case .notFound?: "gets 404"
        case .methodNotAllowed?: "gets 405"
        }
    }
}
