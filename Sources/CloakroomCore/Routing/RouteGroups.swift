/// The routes and the site of each host. Routes without hosts and the gateway's own endpoints belong to every group; a host
/// that routes or sites list uses no other group.
package struct RouteGroups: Sendable {
    /// The indices of the routes of each group, in order. The first group has the routes without hosts only.
    package let members: [[Int]]
    /// The hosts that routes or sites list.
    package let hosts: [String]
    /// The index of the site of each group.
    package let sites: [Int]
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
        servesOthers = !general.isEmpty || own.isEmpty
        let listed = own
        for host in configuration.sites.flatMap(\.hosts) where listed[host] == nil {
            // The host has the routes that it had without the site: those of the wildcard that covers it, if any.
            own[host] = listed.first { HostNames.covers($0.key, host) }?.value ?? []
        }
        let siteNames = HostNames(configuration.sites.map(\.hosts))
        // Hosts with the same routes and the same site share a group.
        let groups = Dictionary(grouping: own.keys.sorted()) { host in
            Members(routes: own[host] ?? [], site: siteNames.value(of: host) ?? 0)
        }.sorted { $0.value[0] < $1.value[0] }
        members = [general] + groups.map { (general + $0.key.routes).sorted() }
        sites = [0] + groups.map(\.key.site)
        hosts = own.keys.sorted()
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

    /// The index of the site of a group.
    package func site(of group: Int) -> Int { sites.indices.contains(group) ? sites[group] : 0 }

    /// Whether a route, a site or `accounts.publicURL` names a host.
    package func isListed(_ host: String) -> Bool { host == publicHost || names.value(of: host) != nil }

    /// What the hosts of a group have in common.
    private struct Members: Hashable {
        let routes: [Int]
        let site: Int
    }
}

extension Route {
    /// Whether some host is served by both routes.
    package func sharesHost(with other: Route) -> Bool {
        hosts.isEmpty || other.hosts.isEmpty || hosts.contains(where: other.hosts.contains)
    }
}
