import CloakroomCore

/// Validates the targets of redirects.
enum RedirectRules {
    /// A redirect must not lead back to its own path. Further redirects are followed only from a target without names and
    /// wildcard: that of others depends on the request.
    static func checkLoops(_ routes: [RouteSection], _ configuration: GatewayConfiguration) {
        let table = RouteTable(configuration)
        for (index, route) in table.routes.enumerated() {
            guard let first = route.redirect else { continue }
            let target = first.rewrite.pattern
            let method = Array((route.methods.first ?? "GET").utf8)
            let isLoop = table.groups.members.indices.contains { start in
                guard table.groups.members[start].contains(index) else { return false }
                var (path, redirect, group) = (Array(target.description.utf8), first, start)
                var visited: Set<[Int]> = []
                while true {
                    if !redirect.origin.isEmpty {
                        // Another origin may be one of another server.
                        guard let host = WebOrigin(redirect.origin)?.host, table.groups.isListed(host) else {
                            return false
                        }
                        group = table.groups.group(of: host) ?? 0
                    }
                    if target == route.pattern, visited.isEmpty, table.groups.members[group].contains(index) {
                        return true
                    }
                    guard !target.isWide,
                        case .route(let found) = table.match(method: method.span, path: path.span, group: group),
                        let further = table.routes[found].redirect, visited.insert([found, group]).inserted
                    else { return false }
                    if found == index { return true }
                    var made: [UInt8] = []
                    further.rewrite.append(path.span, to: &made)
                    (redirect, path) = (further, made)
                }
            }
            guard isLoop else { continue }
            routes[index].scope.section("redirect").report(
                "conflicts with its own path: a loop", "redirect to another path", at: "to")
        }
    }
}
