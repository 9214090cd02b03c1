import CloakroomCore

/// What routes must keep to among each other and towards their upstreams.
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
                    "another route is named \(DiagnosticText.quoted(name)) already", "give each its own name"),
                at: "name")
        }
    }

    private static func checkConflicts(_ routes: [RouteSection], accounts: AccountsConfiguration) {
        let comparable = routes.filter { $0.route != nil }
        // One complaint a route: what collides with one of two equal routes collides with the other too.
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
                "upstream \(DiagnosticText.quoted(name)) has no apiToken",
                "add upstreams.\(name).apiToken, or do not inject it"),
            at: "inject", becauseOf: [scope.path + ["apiToken"]])
    }

    /// What the gateway sets is never a client's to say.
    private static func checkPassed(_ route: RouteSection, upstreams: UpstreamsSection) {
        let headers = upstreams.tokenHeaders.map { $0.lowercased() }
        for name in route.passFields where headers.contains(name.lowercased()) {
            route.scope.report(
                ConfigValueError("\(name) is the field of an API token", "leave it out"), at: "passFields")
        }
    }

    /// A session's token goes only where it came from.
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
                ConfigValueError("nobody can sign in: no upstream has signIn", "add signIn to the upstream"), at: key,
                becauseOf: upstreams.scopes.map { $0.path + ["signIn"] })
            return
        }
        guard signIn != upstream else { return }
        let name = DiagnosticText.quoted(upstreams.names[signIn])
        let valueError =
            key == "inject"
            ? ConfigValueError(
                "bearer would send tokens of upstream \(name) to another one", "inject it on routes to \(name) only")
            : ConfigValueError("sessions belong to upstream \(name)", "require authorization on routes to \(name) only")
        route.scope.report(valueError, at: key)
    }
}
