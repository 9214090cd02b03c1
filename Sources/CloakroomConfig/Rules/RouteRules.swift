import CloakroomCore

/// Validates routes against each other and against their upstreams.
enum RouteValidation {
    static func check(_ routes: [RouteSection], accounts: AccountsSection, upstreams: UpstreamsSection) {
        checkNames(routes)
        checkConflicts(routes, accounts: accounts.configuration)
        WideRouteRules.check(routes, accounts: accounts.configuration, upstreams: upstreams)
        for route in routes {
            checkAPIToken(route, upstreams: upstreams)
            checkPassed(route, upstreams: upstreams)
            if accounts.isUnambiguous { checkSession(route, accounts: accounts.configuration, upstreams: upstreams) }
        }
    }

    private static func checkNames(_ routes: [RouteSection]) {
        var seen: Set<String> = []
        for route in routes {
            guard let name = route.name, !seen.insert(name).inserted else { continue }
            route.scope.report(
                ConfigValueError(
                    "must be unique: another route is named \(DiagnosticText.quoted(name))", "rename one of them"),
                at: "name")
        }
    }

    private static func checkConflicts(_ routes: [RouteSection], accounts: AccountsConfiguration) {
        let comparable = routes.filter { $0.route != nil }
        // One error per route: a route that conflicts with one of two equal routes conflicts with both.
        var told: Set<Int> = []
        for conflict in RouteTable.conflicts(in: comparable.compactMap(\.route), accounts: accounts) {
            guard told.insert(conflict.route).inserted else { continue }
            comparable[conflict.route].scope.report(ConfigValueError(conflict.message, ""), at: "path")
        }
    }

    private static func checkAPIToken(_ route: RouteSection, upstreams: UpstreamsSection) {
        guard route.inject.contains(.apiToken), let upstream = route.upstream else { return }
        let scope = upstreams.scopes[upstream]
        guard !scope.reading.isSectionSet(scope.path + ["apiToken"]) else { return }
        let name = upstreams.names[upstream]
        route.scope.report(
            ConfigValueError(
                "conflicts with upstream \(DiagnosticText.quoted(name)), which has no apiToken",
                "add upstreams.\(name).apiToken, or do not inject it"),
            at: "inject", becauseOf: [scope.path + ["apiToken"]])
    }

    /// Fields that the gateway sets must not be passed from clients.
    private static func checkPassed(_ route: RouteSection, upstreams: UpstreamsSection) {
        let headers = upstreams.tokenHeaders.map { $0.lowercased() }
        for name in route.passFields where headers.contains(name.lowercased()) {
            route.scope.report(
                ConfigValueError("\(name) conflicts with the field of an API token", "leave it out"), at: "passFields")
        }
    }

    /// Tokens of a session are sent only to the upstream that issued them.
    private static func checkSession(
        _ route: RouteSection, accounts: AccountsConfiguration, upstreams: UpstreamsSection
    ) {
        guard let upstream = route.upstream else { return }
        let key: String
        if route.inject.contains(.bearer) {
            key = "inject"
        } else if route.requiresAuthorization == true {
            key = "requiresAuthorization"
        } else {
            return
        }
        guard let signIn = accounts.upstream else {
            route.scope.report(
                ConfigValueError("requires a session, but no upstream defines signIn", "add signIn to the upstream"),
                at: key,
                becauseOf: upstreams.scopes.map { $0.path + ["signIn"] })
            return
        }
        guard signIn != upstream else { return }
        let name = DiagnosticText.quoted(upstreams.names[signIn])
        let valueError =
            key == "inject"
            ? ConfigValueError(
                "bearer conflicts with the route's upstream: the tokens belong to upstream \(name)",
                "inject it on routes to \(name) only")
            : ConfigValueError(
                "conflicts with the route's upstream: sessions belong to upstream \(name)",
                "require authorization on routes to \(name) only")
        route.scope.report(valueError, at: key)
    }
}
