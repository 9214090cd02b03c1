import CloakroomCore

/// Validates routes against each other and against their upstreams.
///
/// Folder `Validation/`: rules over several sections, and which keys require a restart.
enum RouteValidation {
    static func check(
        _ routes: [RouteSection], accounts: AccountsSection, upstreams: UpstreamsSection, identities: IdentitiesSection,
        rateLimits: [RateLimit]
    ) {
        checkNames(routes)
        checkConflicts(routes, accounts: accounts.configuration)
        // Compared only if all routes and what they refer to are valid.
        let isValid = routes.allSatisfy {
            $0.route != nil && $0.scope.reading.problems.isEmpty && $0.scope.reading.missing.isEmpty
                && $0.scope.reading.consequences.isEmpty
        }
        var configuration = GatewayConfiguration.defaults
        configuration.upstreams = upstreams.configurations
        configuration.routes = isValid ? routes.compactMap(\.route) : []
        configuration.accounts = accounts.configuration
        configuration.identities = identities.configurations
        configuration.rateLimits = rateLimits
        if isValid { RedirectRules.checkLoops(routes, configuration) }
        WideRouteRules.check(routes, configuration, isValid: isValid, upstreams: upstreams)
        let variables = (routes.first?.scope.reading.locations.origins ?? [:]).compactMap { key, origin in
            if case .environment = origin { key } else { nil }
        }
        for route in routes {
            checkAPIToken(route, upstreams: upstreams)
            checkPassed(route, upstreams: upstreams)
            checkVariables(route, variables)
            if accounts.isUnambiguous {
                RouteSessionRules(
                    route: route, accounts: accounts.configuration, upstreams: upstreams, identities: identities
                ).check()
            }
        }
    }

    private static func checkNames(_ routes: [RouteSection]) {
        var seen: Set<String> = []
        for route in routes {
            guard let name = route.name, !seen.insert(name).inserted else { continue }
            route.scope.report(
                "must be unique: another route is named \(name.quoted)", "rename one of them", at: "name")
        }
    }

    private static func checkConflicts(_ routes: [RouteSection], accounts: AccountsConfiguration) {
        let comparable = routes.filter { $0.route != nil }
        // One error per route: a route that conflicts with one of two equal routes conflicts with both.
        var told: Set<Int> = []
        for conflict in RouteTable.conflicts(in: comparable.compactMap(\.route), accounts: accounts) {
            guard told.insert(conflict.route).inserted else { continue }
            comparable[conflict.route].scope.report(conflict.message, "", at: "path")
        }
    }

    private static func checkAPIToken(_ route: RouteSection, upstreams: UpstreamsSection) {
        guard route.options.inject.contains(.apiToken), let upstream = route.upstream else { return }
        let scope = upstreams.scopes[upstream]
        guard !scope.reading.isSectionSet(scope.path + ["apiToken"]) else { return }
        let name = upstreams.names[upstream]
        route.scope.report(
            "conflicts with upstream \(name.quoted), which has no apiToken",
            "add upstreams.\(name).apiToken, or do not inject it", at: "inject", becauseOf: [scope.path + ["apiToken"]])
    }

    /// The keys that decide what a route permits.
    private static let accessKeys: Set = [
        "addPrefix", "authorization", "files", "forwardAs", "hosts", "inject", "methods", "passFields", "path",
        "redirect",
        "requestFields", "require", "requiresAuthorization", "stream.origins", "stripPrefix", "upstream",
    ]

    /// Variables that decide what a route of the file permits, or make any route public: the file does not show it, and
    /// their index is that of another route as soon as the list changes.
    /// - Parameter variables: The keys that variables set.
    private static func checkVariables(_ route: RouteSection, _ variables: [[String]]) {
        let (reading, path) = (route.scope.reading, route.scope.path)
        let keys = reading.tree[path] == nil ? ["requiresAuthorization"] : accessKeys
        for key in variables where key.count > path.count && key.starts(with: path) {
            let name = key[path.count]
            guard keys.contains(name) || keys.contains(key[path.count...].prefix(2).joined(separator: ".")),
                name != "requiresAuthorization" || route.requiresAuthorization == false
            else { continue }
            let warning = ConfigValueError(
                "a variable decides what route \((route.name ?? "").quoted) permits",
                "write it into the file: a change of the list gives the variable to another route")
            reading.warn(warning, key: key, origin: reading.origin(key))
        }
    }

    /// Fields that the gateway sets must not be passed from clients.
    private static func checkPassed(_ route: RouteSection, upstreams: UpstreamsSection) {
        let tokens = Set(upstreams.tokenHeaders.map(FieldNameSet.folded))
        let claims = Set(upstreams.claimHeaderNames.map(FieldNameSet.folded))
        for name in route.options.passFields {
            let folded = FieldNameSet.folded(name)
            guard tokens.contains(folded) || claims.contains(folded) else { continue }
            let other = tokens.contains(folded) ? "the field of an API token" : "a claim header"
            route.scope.report("\(name) conflicts with \(other)", "leave it out", at: "passFields")
        }
    }
}

/// Warnings about well-formed methods.
///
/// Any token is a legal method (RFC 9110 §9.1). An unregistered method causes a warning only if it is similar to a
/// registered one.
enum MethodRules {
    /// The methods of the IANA HTTP Method Registry that a route can serve, and `QUERY`.
    static let registered = [
        "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "DELETE", "GET", "HEAD", "LABEL", "LINK",
        "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "OPTIONS",
        "ORDERPATCH", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY", "REBIND", "REPORT", "SEARCH", "UNBIND",
        "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
    ]

    /// Methods of other specifications (UPnP) and of caches; some are similar to registered ones.
    private static let unregistered: Set<String> = ["BAN", "M-SEARCH", "NOTIFY", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE"]

    /// Words that mean "all methods" in other products.
    private static let collective: Set<String> = ["ALL", "ANY"]

    /// The warning for a method; `nil` for most.
    static func warning(about method: String) -> ConfigValueError? {
        guard !registered.contains(method), !unregistered.contains(method) else { return nil }
        if collective.contains(method) {
            return ConfigValueError(
                "\(method) is the name of one method, not of all methods",
                "list them, such as [GET, POST, PUT, PATCH, DELETE, OPTIONS]")
        }
        guard let nearest = NameSuggestion.nearest(to: method, among: registered) else { return nil }
        // Short methods are similar to each other: one edit is a typo, two may be another word.
        let most = method.count < 6 ? 1 : 2
        guard NameSuggestion.distance(Array(method), Array(nearest)) <= most else { return nil }
        return ConfigValueError("\(method.quoted) is not a registered method", "did you mean \(nearest)?")
    }
}

/// Notes and warnings about routes that serve more or fewer paths than their pattern suggests.
enum WideRouteRules {
    /// - Parameter isValid: Whether the configuration has all routes; otherwise it has none.
    static func check(
        _ routes: [RouteSection], _ configuration: GatewayConfiguration, isValid: Bool, upstreams: UpstreamsSection
    ) {
        let accounts = configuration.accounts
        let calls = TokenCallPaths(configuration.upstreams)
        let literals = Set(routes.compactMap(\.pattern).filter { !$0.isWide }.map(\.description))
        let sentLiterals = Set(
            routes.compactMap { $0.route?.rewrite?.pattern ?? $0.pattern }.filter { !$0.isWide }.map(\.description))
        let strictness = RouteStrictness.compare(configuration)
        for (index, route) in routes.enumerated() {
            guard let pattern = route.pattern else { continue }
            // An invalid path is reported only once.
            if !route.scope.isInvalid("path"), route.route?.files == nil {
                checkTokenCalls(route, pattern, at: "path", calls, literals, accounts, upstreams)
            }
            if let sent = route.route?.rewrite?.pattern, let key = PathRewrite.keys.first(where: route.scope.isSet) {
                checkTokenCalls(route, sent, at: key, calls, sentLiterals, accounts, upstreams)
                if pattern.isWide, let call = calls.call(at: Array(sent.description.utf8).span), call.kind == .user {
                    let told = "\(pattern) serves \(call.described), \(sent), for all paths that it matches"
                    route.scope.inform(told, "write a path without names and *", at: key)
                }
            }
            let isLessStrict = strictness.map { strictness[index].isStricter(than: $0) }
            // A wide route that is less strict does not serve the path either.
            checkBase(
                route, pattern,
                among: routes.indices.filter { !isValid || !isLessStrict[$0] || routes[$0].pattern?.isWide == false }
                    .map { routes[$0] }.filter { $0.options.sharesHost(with: route.options) })
            checkBearer(route, pattern)
            for (other, isLessStrict) in zip(routes, isLessStrict) where isLessStrict {
                checkOtherHosts(other, than: route, pattern, configuration)
                guard other.options.sharesHost(with: route.options) else { continue }
                checkLessStrict(
                    other, than: route, pattern, configuration,
                    among: routes.filter { $0.options.sharesHost(with: route.options) })
            }
        }
    }

    /// A less strict route that serves paths of a stricter one at hosts which that does not have.
    private static func checkOtherHosts(
        _ other: RouteSection, than route: RouteSection, _ pattern: PathPattern, _ configuration: GatewayConfiguration
    ) {
        let (hosts, others) = (route.options.hosts, other.options.hosts)
        let isOutside = others.isEmpty || others.contains { !hosts.contains($0) }
        guard !hosts.isEmpty, isOutside, let upstream = route.upstream, other.upstream == upstream,
            let wide = other.pattern, SamplePath.overlap(wide.segments[...], pattern.segments[...]) != nil
        else { return }
        other.scope.warn(
            "\(wide) serves paths of the stricter route \((route.name ?? "").quoted)"
                + configuration.reason(route.route, isStricterThan: other.route)
                + ", \(pattern), at \(others.isEmpty ? "other hosts" : "its hosts"), of the same upstream",
            "add these hosts to the stricter route, or leave its hosts out", at: "path")
    }

    /// What a less strict route serves, or does not serve, because of a stricter one.
    private static func checkLessStrict(
        _ other: RouteSection, than route: RouteSection, _ pattern: PathPattern,
        _ configuration: GatewayConfiguration, among routes: [RouteSection]
    ) {
        guard let wide = other.pattern, let methods = other.methods else { return }
        let isSame = { (one: PathPattern, two: PathPattern) in one.covers(two) && two.covers(one) }
        if isSame(wide.lenient, pattern.lenient), !isSame(wide, pattern) {
            other.scope.warn(
                "\(wide) differs only in spelling from \(pattern) of the stricter route"
                    + " \((route.name ?? "").quoted)" + configuration.reason(route.route, isStricterThan: other.route)
                    + ": an upstream may treat both as one path",
                "require the same of both", at: "path")
        }
        guard wide.covers(pattern), !pattern.covers(wide), methods != ["OPTIONS"] else { return }
        let unserved = methods.filter { method in
            !routes.contains { $0.pattern.map { isSame($0, pattern) } == true && $0.methods?.contains(method) == true }
        }
        guard !unserved.isEmpty else { return }
        route.scope.inform(
            "\(unserved.joined(separator: ", ")) \(pattern) is not served: route"
                + " \((other.name ?? "").quoted) is less strict than this one"
                + configuration.reason(route.route, isStricterThan: other.route),
            "add a route for it if clients request it", at: "methods")
    }

    private static func checkTokenCalls(
        _ route: RouteSection, _ pattern: PathPattern, at key: String, _ calls: TokenCallPaths,
        _ literals: Set<String>, _ accounts: AccountsConfiguration, _ upstreams: UpstreamsSection
    ) {
        if let call = calls.tokenCall(namedBy: pattern) {
            let instead =
                call.kind == .signIn && accounts.upstream != nil
                ? "remove the route; clients sign in at \(accounts.prefix)"
                : "remove the route; the gateway makes this call itself"
            route.scope.report(
                "\(pattern) conflicts with \(call.described), which is never forwarded", instead, at: key)
            return
        }
        // A user call with a route of its own is served by that route.
        let hidden = calls.calls(within: pattern).filter { $0.kind != .user || !literals.contains($0.path) }
        guard !hidden.isEmpty else { return }
        let list = hidden.map { "\($0.path) (\($0.kind.rawValue) of \($0.upstream))" }.joined(separator: ", ")
        let isUser = hidden.contains { $0.kind == .user }
        let told = "\(pattern) contains \(list), which the route does not forward: 404"
        let remedy = isUser ? "a route that names the path of a user call can serve it" : ""
        // Clients may request their user, or a page of another upstream at such a path.
        let own = route.upstream.map { upstreams.names[$0] }
        if own != nil, isUser || hidden.contains(where: { $0.upstream != own }) {
            route.scope.warn(told, remedy, at: key)
        } else {
            route.scope.inform(told, remedy, at: key)
        }
    }

    /// `/a/*` does not serve `/a`.
    private static func checkBase(_ route: RouteSection, _ pattern: PathPattern, among routes: [RouteSection]) {
        guard let base = pattern.base, let methods = route.methods else { return }
        let isServed = methods.allSatisfy { method in
            routes.contains { $0.pattern?.covers(base) == true && $0.methods?.contains(method) == true }
        }
        guard !isServed else { return }
        route.scope.inform(
            "\(pattern) serves \(base)/ and all paths below it, not \(base)",
            "add a route for \(base) if clients request it", at: "path")
    }

    /// A public wildcard route that injects tokens.
    private static func checkBearer(_ route: RouteSection, _ pattern: PathPattern) {
        guard route.requiresAuthorization == false, route.options.inject.contains(.bearer),
            pattern.segments.last == .wildcard
        else { return }
        route.scope.warn(
            "\(pattern) is public and injects bearer: a session's token goes to every path that it serves,"
                + " and requests without a session are forwarded too",
            "require authorization, and list what is public as routes of its own", at: "inject")
    }
}

extension GatewayConfiguration {
    /// Why one of its routes is stricter than another one, in parentheses after a blank; empty if that is not known.
    func reason(_ route: Route?, isStricterThan other: Route?) -> String {
        let rules = [route, other].compactMap(\.self).map { SessionRules($0, in: self, claimHeaders: nil) }
        guard rules.count == 2, let reason = rules[0].reasonStricter(than: rules[1]) else { return "" }
        return " (\(reason.rawValue))"
    }
}

extension TokenCallPaths.Call {
    /// The call as a noun phrase: `the signIn call of upstream "api"`.
    var described: String { "the \(kind.rawValue) call of upstream \(upstream.quoted)" }
}
