import CloakroomCore

/// Rejects two listeners on the same port.
enum ListenerAddressValidation {
    static func check(_ listeners: [ListenerSection], admin: AdminSection) {
        for (index, listener) in listeners.enumerated() {
            guard let address = listener.address, address.port != 0 else { continue }
            guard let other = listeners[..<index].compactMap(\.address).first(where: { overlap($0, address) }) else {
                continue
            }
            let hint = other.addressLength == address.addressLength ? "" : ", or keep only [::], which accepts IPv4 too"
            listener.scope.report(
                "conflicts with another listener on \(other)", "choose another port\(hint)", at: "address")
        }
        guard let address = admin.configuration?.address, address.port != 0,
            let listener = listeners.first(where: { $0.address?.port == address.port })
        else { return }
        if admin.scope.isSet("address") {
            admin.scope.report(
                "conflicts with a client listener on port \(address.port)", "choose another port", at: "address")
        } else {
            listener.scope.report(
                "conflicts with the admin listener on port \(address.port)",
                "choose another port, or set admin.address", at: "address",
                becauseOf: [admin.scope.path + ["address"], admin.scope.path + ["enabled"]])
        }
    }

    /// Whether the system binds one of two addresses only: equal ones, one of all addresses of the family of the other, or
    /// `[::]`, which means all addresses of both families (ipv6(7), `IPV6_V6ONLY`).
    private static func overlap(_ one: HostAndPort, _ other: HostAndPort) -> Bool {
        guard one != other else { return true }
        return one.port == other.port
            && [one, other].contains { address in
                address.isAll
                    && (address.addressLength == 16 || one.addressLength == other.addressLength)
            }
    }
}

/// Warns about targets that are a listener of this gateway: requests would come back until a limit ends them.
enum OwnTargetRules {
    static func check(_ listeners: [ListenerSection], upstreams: UpstreamsSection) {
        let own = listeners.compactMap(\.address).filter { $0.port != 0 }
        for (upstream, scope) in zip(upstreams.configurations, upstreams.scopes) {
            for target in upstream.targets {
                guard case .tcp(let address) = target.address, own.contains(where: { $0.accepts(address) })
                else { continue }
                scope.warn("\(target) is a listener of this gateway", "write the address of the API", at: "targets")
            }
        }
    }
}

extension HostAndPort {
    /// Whether it is all addresses of a family.
    fileprivate var isAll: Bool { IPAddress.bytes(of: host)?.allSatisfy { $0 == 0 } == true }
    /// The length of an IP address in bytes, 4 or 16; `nil` for a name, which may have addresses of both families.
    fileprivate var addressLength: Int? { IPAddress.bytes(of: host)?.count }

    /// Whether a listener on this address accepts connections to another one, as far as their texts show that: `0.0.0.0`
    /// accepts none to an IPv6 address.
    fileprivate func accepts(_ target: HostAndPort) -> Bool {
        guard self != target else { return true }
        return port == target.port && isAll && target.isLoopback && (addressLength == 16 || target.addressLength != 16)
    }
}

/// Rejects listeners that would redirect to nothing. The host of a redirect is one of the configuration, because a client
/// could choose that of its request.
enum HTTPSRedirectValidation {
    static func check(_ listeners: [ListenerSection], _ routes: [RouteSection], accounts: AccountsSection) {
        let hasHosts =
            listeners.contains { !$0.hosts.isEmpty } || routes.contains { !$0.options.hosts.isEmpty }
            || !accounts.sites.items.isEmpty
        for listener in listeners where listener.redirectToHTTPS != nil {
            func report(_ message: String, _ suggestion: String) {
                listener.scope.report(message, suggestion, at: "redirectToHTTPS")
            }
            if listener.usesHTTPS {
                report("conflicts with \(listener.hasTLS ? "tls" : "behindTLSProxy")", "remove one of the two")
            } else if !listeners.contains(where: \.usesHTTPS) {
                report("conflicts with listeners: none has tls", "add tls to another listener")
            } else if accounts.configuration.publicURL == nil, !hasHosts, !accounts.scope.isInvalid("publicURL") {
                report(
                    "requires accounts.publicURL or hosts: only requests for them are redirected",
                    "write accounts.publicURL, such as https://app.example.com")
            } else if !listener.hosts.isEmpty {
                report("conflicts with hosts: it redirects every host that is served", "keep one of the two")
            }
        }
    }
}

/// Rejects keys of requests that clients send, on a listener that only decides for another proxy.
enum ForwardAuthValidation {
    static func check(_ listeners: [ListenerSection], upstreams: UpstreamsSection) {
        for (upstream, scope) in zip(upstreams.configurations, upstreams.scopes) where scope.isSet("external") {
            guard upstream.isExternal, !listeners.contains(where: \.decides) else { continue }
            scope.report(
                "requires a listener with forwardAuth: this gateway forwards nothing to it",
                "add forwardAuth to a listener, or write targets", at: "external")
        }
        for listener in listeners where listener.decides {
            let conflicts = [
                ("behindTLSProxy", listener.isBehindTLSProxy), ("redirectToHTTPS", listener.redirectToHTTPS != nil),
                ("development", listener.isForDevelopment), ("hosts", !listener.hosts.isEmpty),
                ("proxyProtocol", listener.proxyProtocolSources != nil),
            ]
            guard let (key, _) = conflicts.first(where: \.1) else { continue }
            listener.scope.report("conflicts with forwardAuth: no client connects to it", "leave it out", at: key)
        }
    }
}

/// Rejects listeners for development that other clients would depend on: they serve hosts of this machine only.
enum DevelopmentValidation {
    static func check(_ listeners: [ListenerSection], hasTrustedProxies: Bool) {
        for listener in listeners where listener.isForDevelopment {
            let conflicts = [
                ("tls", listener.hasTLS), ("behindTLSProxy", listener.isBehindTLSProxy),
                ("proxyProtocol", listener.proxyProtocolSources != nil),
                ("redirectToHTTPS", listener.redirectToHTTPS != nil), ("trustedProxies", hasTrustedProxies),
            ]
            if let (key, _) = conflicts.first(where: \.1) {
                listener.scope.report("conflicts with \(key)", "remove one of the two", at: "development")
            } else if listener.address?.isLoopback == false {
                listener.scope.warn(
                    "programs of other machines can use this listener too, if they reach its address",
                    "publish its port on 127.0.0.1 only", at: "development")
            }
        }
    }
}

/// Rejects configurations that would send the session cookie unencrypted, except for development on loopback, or with
/// hosts of this machine.
enum CookieValidation {
    static func check(
        _ cookie: CookieConfiguration, scope: ConfigScope, listeners: [ListenerSection], publicURL: String?,
        sites: SitesSection
    ) {
        // The check requires valid addresses.
        let addresses = listeners.compactMap(\.address)
        guard addresses.count == listeners.count, !listeners.isEmpty else { return }
        guard cookie.isSecure || scope.isInvalid("secure") else {
            checkDevelopment(cookie, scope: scope, listeners: listeners)
            for (site, configuration) in sites.items where configuration.domain != nil {
                SitesSection.cookie(site).report(
                    "conflicts with session.cookie.secure: false", "leave it out in development", at: "domain")
            }
            return
        }
        // A listener that only redirects serves neither sessions nor sign-ins. One that only decides is behind a proxy,
        // which reports whether the client uses https.
        for listener in listeners
        where !listener.usesHTTPS && !listener.scope.isSet("redirectToHTTPS") && !listener.decides {
            guard !listener.scope.isInvalid("behindTLSProxy"), !scope.isInvalid("secure") else { continue }
            listener.scope.report(
                "session cookies and passwords would be sent unencrypted",
                "add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on"
                    + " loopback only session.cookie.secure: false", at: "address",
                becauseOf: [scope.path + ["secure"]] + ["tls", "behindTLSProxy"].map { listener.scope.path + [$0] })
        }
        var shared: ConfigScope?
        for (site, configuration) in sites.items where configuration.domain != nil {
            shared = SitesSection.cookie(site)
            // `SiteValidation` compares it with the hosts.
            checkDomain(cookie.of(configuration), scope: SitesSection.cookie(site), publicURL: nil)
        }
        let domains = sites.items.map { SitesSection.cookie($0.scope).path + ["domain"] }
        checkName(cookie, scope: scope, shared: cookie.domain == nil ? shared : scope, becauseOf: domains)
        checkDomain(cookie, scope: scope, publicURL: publicURL)
    }

    /// - Parameters:
    ///   - shared: `cookie` of a site whose hosts share the session.
    ///   - domains: The keys of the domains of sites.
    private static func checkName(
        _ cookie: CookieConfiguration, scope: ConfigScope, shared: ConfigScope?, becauseOf domains: [[String]]
    ) {
        let isShared = shared != nil
        let prefixes = [CookieConfiguration.hostPrefix, CookieConfiguration.securePrefix]
        let prefix = prefixes[isShared ? 1 : 0]
        let causes = ["secure", "domain"].map { scope.path + [$0] } + domains
        if !scope.isInvalid("name"), !cookie.name.hasPrefix(prefix) {
            let other = prefixes.first(where: cookie.name.hasPrefix) ?? ""
            let name = prefix + cookie.name.dropFirst(other.count)
            let demand = "a name with the prefix \(prefix), not \(cookie.name.quoted)"
            (shared ?? scope).report(
                "\(isShared ? "requires" : "must be") \(demand)",
                "write \(isShared ? "session.cookie.name: " : "")\(name)",
                at: isShared ? "domain" : "name", becauseOf: causes)
        } else if cookie.name == prefix {
            scope.report("must have a name after the prefix", "write \(prefix)cloakroom", at: "name", becauseOf: causes)
        }
    }

    /// A `Domain` has to cover the host that sets it, otherwise browsers reject the cookie.
    private static func checkDomain(_ cookie: CookieConfiguration, scope: ConfigScope, publicURL: String?) {
        guard let domain = cookie.domain else { return }
        if let publicURL, let host = WebOrigin(publicURL)?.host, !cookie.covers(host) {
            scope.report(
                "must cover the host of publicURL, \(host): browsers reject the cookie otherwise",
                "write a domain that this host ends with, or correct publicURL", at: "domain")
            return
        }
        scope.warn(
            "every host below \(domain) receives the session cookie, and can set another",
            "leave it out unless all of them are trusted like this gateway", at: "domain")
    }

    private static func checkDevelopment(
        _ cookie: CookieConfiguration, scope: ConfigScope, listeners: [ListenerSection]
    ) {
        let isLocal = listeners.allSatisfy {
            $0.isForDevelopment || $0.address?.isLoopback == true && !$0.isBehindTLSProxy
        }
        guard isLocal else {
            scope.report(
                "must be true unless all listeners are on loopback",
                "write true, or listen on 127.0.0.1 only; in a container, set development of the listener", at: "secure"
            )
            return
        }
        if cookie.domain != nil {
            scope.report("conflicts with secure: false", "leave it out in development", at: "domain")
        }
        // Browsers reject a cookie with such a prefix that is not Secure.
        for prefix in [CookieConfiguration.hostPrefix, CookieConfiguration.securePrefix]
        where cookie.name.lowercased().hasPrefix(prefix.lowercased()) {
            scope.report(
                "prefix \(prefix) conflicts with secure: false", "leave the prefix out while secure is false",
                at: "name")
        }
    }
}

extension CookieConfiguration {
    /// The cookie of a site other than the default one, as far as its hosts receive it.
    func of(_ site: SiteConfiguration) -> CookieConfiguration {
        var own = self
        own.domain = site.domain
        return own
    }

    /// Whether a response of a host can set the cookie.
    func covers(_ host: String) -> Bool {
        guard let domain else { return true }
        return host == domain || host.hasSuffix("." + domain)
    }
}
