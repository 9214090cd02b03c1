import CloakroomCore

/// Notes and warnings about routes that serve more or fewer paths than their pattern suggests.
enum WideRouteRules {
    static func check(_ routes: [RouteSection], accounts: AccountsConfiguration, upstreams: UpstreamsSection) {
        let calls = TokenCallPaths(upstreams.configurations)
        let literals = Set(routes.compactMap(\.pattern).filter { !$0.isWide }.map(\.description))
        for route in routes {
            guard let pattern = route.pattern else { continue }
            // An invalid path is reported only once.
            if !route.scope.isInvalid("path") { checkTokenCalls(route, pattern, calls, literals, accounts, upstreams) }
            checkBase(route, pattern, among: routes)
            checkBearer(route, pattern)
        }
    }

    private static func checkTokenCalls(
        _ route: RouteSection, _ pattern: PathPattern, _ calls: TokenCallPaths, _ literals: Set<String>,
        _ accounts: AccountsConfiguration, _ upstreams: UpstreamsSection
    ) {
        if let call = calls.tokenCall(namedBy: pattern) {
            let instead =
                call.kind == .signIn && accounts.upstream != nil
                ? "remove the route; clients sign in at \(accounts.prefix)"
                : "remove the route; the gateway makes this call itself"
            route.scope.report(
                ConfigValueError("\(pattern) conflicts with \(call.described), which is never forwarded", instead),
                at: "path")
            return
        }
        // A user call with a route of its own is served by that route.
        let hidden = calls.calls(within: pattern).filter { $0.kind != .user || !literals.contains($0.path) }
        guard !hidden.isEmpty else { return }
        let list = hidden.map { "\($0.path) (\($0.kind.rawValue) of \($0.upstream))" }.joined(separator: ", ")
        let isUser = hidden.contains { $0.kind == .user }
        let told = ConfigValueError(
            "\(pattern) contains \(list), which the route does not forward: 404",
            isUser ? "a route that names the path of a user call can serve it" : "")
        // Clients may request their user, or a page of another upstream at such a path.
        let own = route.upstream.map { upstreams.names[$0] }
        if isUser || hidden.contains(where: { $0.upstream != own }) {
            route.scope.warn(told, at: "path")
        } else {
            route.scope.inform(told, at: "path")
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
            ConfigValueError(
                "\(pattern) serves \(base)/ and all paths below it, not \(base)",
                "add a route for \(base) if clients request it"),
            at: "path")
    }

    /// A public wildcard route that injects tokens.
    private static func checkBearer(_ route: RouteSection, _ pattern: PathPattern) {
        guard route.requiresAuthorization == false, route.inject.contains(.bearer), pattern.segments.last == .wildcard
        else { return }
        route.scope.warn(
            ConfigValueError(
                "\(pattern) is public and injects bearer: a session's token goes to every path that it serves,"
                    + " and requests without a session are forwarded too",
                "require authorization, and list what is public as routes of its own"),
            at: "inject")
    }
}

extension TokenCallPaths.Call {
    /// The call as a noun phrase: `the signIn call of upstream "api"`.
    var described: String { "the \(kind.rawValue) call of upstream \(DiagnosticText.quoted(upstream))" }
}
