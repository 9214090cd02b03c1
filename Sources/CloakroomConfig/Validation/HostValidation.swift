import CloakroomCore

extension ConfigScope {
    /// `hosts` of a listener or a route; empty for every host.
    func hosts() -> [String] {
        let hosts = list("hosts", as: ValueFormat<String>.host) ?? []
        reportRepetition(in: hosts, at: "hosts")
        return hosts
    }
}

/// Validates the hosts of routes and listeners against each other.
enum HostValidation {
    static func check(
        _ listeners: [ListenerSection], _ routes: [RouteSection], accounts: AccountsSection,
        cookie: CookieConfiguration
    ) {
        let serving = listeners.filter { $0.redirectToHTTPS == nil && !$0.decides }
        let strict = serving.filter { $0.configuration?.requiresClientCertificates == true }
        for listener in serving where listener.configuration?.requiresClientCertificates == false {
            for (index, host) in listener.hosts.enumerated() {
                guard let other = strict.first(where: { $0.hosts.contains { HostNames.covers($0, host) } }) else {
                    continue
                }
                let place = other.address.map { " on \($0)" } ?? ""
                listener.scope.report(
                    "\(host) conflicts with the listener\(place), which requires client certificates",
                    "keep it in one of the two", at: "hosts", item: index)
            }
        }
        // A listener without hosts serves those that no other lists.
        let listed = serving.flatMap(\.hosts) + listeners.flatMap { $0.forwardAuth?.hosts ?? [] }
        let listsAll = !serving.isEmpty && serving.allSatisfy { !$0.hosts.isEmpty }
        func unlisted(_ host: String) -> ConfigValueError? {
            let isListed = listed.contains { HostNames.covers($0, host) || HostNames.covers(host, $0) }
            guard listsAll, !isListed else { return nil }
            return ConfigValueError("\(host) is never served: no listener lists it", "add it to hosts of a listener")
        }
        let signIn = accounts.configuration
        if signIn.isEnabled, let warning = signIn.publicHost.flatMap(unlisted) {
            accounts.scope.warn(warning, at: "publicURL")
        }
        for (scope, site) in accounts.sites.items {
            for (index, host) in site.hosts.enumerated() {
                if let warning = unlisted(host) { scope.warn(warning, at: "hosts", item: index) }
            }
        }
        for route in routes {
            for (index, host) in route.options.hosts.enumerated() {
                if let warning = unlisted(host) { route.scope.warn(warning, at: "hosts", item: index) }
                let site = accounts.sites.site(of: host)
                guard route.usesSession, site.name.isEmpty, !cookie.covers(host) else { continue }
                route.scope.warn(
                    "session.cookie.domain does not cover \(host): browsers reject the session cookie there",
                    "remove it, or write a domain that it ends with", at: "hosts", item: index)
            }
            checkRebinding(route, serving)
        }
    }

    /// A page of another site whose host resolves to the address of a listener is of the same origin for browsers.
    private static func checkRebinding(_ route: RouteSection, _ serving: [ListenerSection]) {
        guard route.options.hosts.isEmpty, route.requiresAuthorization == false,
            route.options.inject.contains(.apiToken),
            let address = serving.first(where: {
                !$0.hasTLS && !$0.isForDevelopment && $0.hosts.isEmpty && $0.address?.isLoopback == false
            })?.address
        else { return }
        route.scope.warn(
            "pages of any site can use the API token if browsers can connect to \(address): a host of theirs may"
                + " resolve to it", "write hosts of the route or of the listener", at: "inject")
    }
}
