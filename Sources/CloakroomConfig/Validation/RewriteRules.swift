import CloakroomCore

/// Validates the paths that routes make: those that upstreams receive, and those that clients are redirected to.
enum RewriteRules {
    /// The key of the path that a route makes; `nil` if it forwards the received one.
    private static func key(of route: RouteSection) -> String? {
        ["forwardAs", "stripPrefix", "addPrefix"].first(where: route.scope.isSet)
    }

    /// A path that a route makes must not be that of a token call.
    static func checkTokenCalls(_ route: RouteSection, _ calls: TokenCallPaths) {
        guard let key = key(of: route), let sent = route.route?.rewrite?.pattern else { return }
        if let call = calls.tokenCall(namedBy: sent) {
            route.scope.report(
                ConfigValueError(
                    "\(sent) conflicts with \(call.described), which is never forwarded", "forward another path"),
                at: key)
            return
        }
        let hidden = calls.calls(within: sent)
        guard !hidden.isEmpty else { return }
        let list = hidden.map { "\($0.path) (\($0.kind.rawValue) of \($0.upstream))" }.joined(separator: ", ")
        route.scope.inform(
            ConfigValueError("\(sent) contains \(list), to which the route does not forward: 404", ""), at: key)
    }

    /// A less strict route reaches paths of the upstream that another route protects.
    static func checkLessStrict(_ other: RouteSection, than route: RouteSection) {
        guard let mine = other.route, let theirs = route.route, mine.upstream == theirs.upstream,
            mine.rewrite != nil || theirs.rewrite != nil, let sent = mine.sentPattern,
            let protected = theirs.sentPattern, sent.lenient.overlaps(protected.lenient)
        else { return }
        // If both change the same prefix, the paths that overlap are those for which the table selects the stricter route.
        if let prefixes = mine.rewrite?.prefixes, prefixes == theirs.rewrite?.prefixes { return }
        other.scope.warn(
            ConfigValueError(
                "\(sent) of the upstream overlaps \(protected) of stricter route \(DiagnosticText.quoted(theirs.name))",
                "require the same of both, or forward fewer paths"),
            at: key(of: other) ?? "path")
    }

    /// A redirect must end at something else than a redirect that was followed already.
    static func checkLoops(_ routes: [RouteSection], _ configuration: GatewayConfiguration) {
        let table = RouteTable(configuration)
        let ownOrigin = configuration.accounts.publicURL
        for (index, route) in routes.enumerated() {
            guard let start = table.routes[index].redirect else { continue }
            var path = SamplePath.samples([], [table.routes[index].pattern], kept: [])[0].path
            var redirect = start
            var visited: Set = [index]
            while redirect.origin.isEmpty || redirect.origin == ownOrigin {
                let location = RedirectTemplate(origin: "", rewrite: redirect.rewrite, status: 308, keepsQuery: false)
                    .location(path: Array(path.utf8).span, query: [])
                path = String(decoding: location, as: UTF8.self)
                let method = Array((table.routes[index].methods.first ?? "GET").utf8)
                guard case .route(let next) = table.match(method: method.span, path: location.span),
                    let further = table.routes[next].redirect
                else { break }
                guard visited.insert(next).inserted else {
                    // Reported at one of its routes: the first that it returns to.
                    if next == index {
                        route.scope.section("redirect").report(
                            visited.count == 1
                                ? ConfigValueError("conflicts with its own path: a loop", "redirect to another path")
                                : ConfigValueError(
                                    "conflicts with redirects of other routes: a loop by way of \(path)",
                                    "redirect to another path"), at: "to")
                    }
                    break
                }
                redirect = further
            }
        }
    }
}
