/// The routes of each host. Routes without hosts and the gateway's own endpoints belong to every group; a host that routes
/// list uses no other group.
package struct RouteGroups: Sendable {
    /// The indices of the routes of each group, in order. The first group has the routes without hosts only.
    package let members: [[Int]]
    /// The hosts that routes list.
    package let hosts: [String]
    /// Whether hosts that no route lists are served, with the first group.
    package let servesOthers: Bool
    private let names: HostNames
    private let publicHost: String?

    package init(_ configuration: GatewayConfiguration) {
        let general = configuration.routes.indices.filter { configuration.routes[$0].hosts.isEmpty }
        var own: [String: [Int]] = [:]
        for (index, route) in configuration.routes.enumerated() {
            for host in route.hosts { own[host, default: []].append(index) }
        }
        // Hosts with the same routes share a group.
        let groups = Dictionary(grouping: own.keys.sorted()) { own[$0] ?? [] }.sorted { $0.value[0] < $1.value[0] }
        members = [general] + groups.map { (general + $0.key).sorted() }
        hosts = own.keys.sorted()
        servesOthers = !general.isEmpty || own.isEmpty
        names = HostNames([[]] + groups.map(\.value))
        publicHost = configuration.accounts.publicHost
    }

    /// The group of a host; `nil` if it is not served. The host of `accounts.publicURL` always is, for the gateway's own
    /// endpoints.
    /// - Parameter host: Folded; `nil` without one.
    package func group(of host: String?) -> Int? {
        if let host, let group = names.value(of: host) { return group }
        return servesOthers || host != nil && host == publicHost ? 0 : nil
    }

    /// The group of the host of `accounts.publicURL`.
    package var publicGroup: Int { group(of: publicHost) ?? 0 }

    /// Whether a route or `accounts.publicURL` names a host.
    package func isListed(_ host: String) -> Bool { host == publicHost || names.value(of: host) != nil }
}

extension AccountsConfiguration {
    /// The host of ``publicURL``, folded.
    package var publicHost: String? {
        guard let publicURL, let origin = WebOrigin(publicURL) else { return nil }
        return HostNames.folded(origin.host)
    }
}

extension Route {
    /// Whether some host is served by both routes.
    package func sharesHost(with other: Route) -> Bool {
        hosts.isEmpty || other.hosts.isEmpty || hosts.contains(where: other.hosts.contains)
    }
}
