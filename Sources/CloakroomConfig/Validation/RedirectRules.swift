import CloakroomCore

/// Validates the targets of redirects.
enum RedirectRules {
    /// A redirect must not lead back to its own path. Further redirects are followed only from a target without names and
    /// wildcard: that of others depends on the request.
    static func checkLoops(_ routes: [RouteSection], _ configuration: GatewayConfiguration) {
        let table = RouteTable(configuration)
        let origins = ["", configuration.accounts.publicURL]
        for (index, route) in table.routes.enumerated() {
            guard var redirect = route.redirect else { continue }
            let target = redirect.rewrite.pattern
            let method = Array((route.methods.first ?? "GET").utf8)
            var path = Array(target.description.utf8)
            var visited: Set<Int> = []
            var isLoop = target == route.pattern && origins.contains(redirect.origin)
            while !isLoop, !target.isWide, origins.contains(redirect.origin),
                case .route(let next) = table.match(method: method.span, path: path.span),
                let further = table.routes[next].redirect, visited.insert(next).inserted
            {
                isLoop = next == index
                var made: [UInt8] = []
                further.rewrite.append(path.span, to: &made)
                (redirect, path) = (further, made)
            }
            guard isLoop else { continue }
            routes[index].scope.section("redirect").report(
                ConfigValueError("conflicts with its own path: a loop", "redirect to another path"), at: "to")
        }
    }
}
