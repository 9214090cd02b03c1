import CloakroomCore

/// Validates sites against each other, against the public URL of the default site, and against the session cookie.
enum SiteValidation {
    static func check(
        _ accounts: AccountsSection, cookie: CookieConfiguration, cookieScope: ConfigScope,
        listeners: [ListenerSection]
    ) {
        let items = accounts.sites.items
        for (index, (scope, site)) in items.enumerated() {
            let others = items[..<index].map(\.configuration)
            if let other = others.first(where: { $0.tag == site.tag && $0.name != site.name }) {
                // Two of the 2^64 values of a tag are equal.
                scope.report("conflicts with site \(other.name.quoted)", "rename one of them")
            }
            for (item, host) in site.hosts.enumerated() {
                guard let other = others.first(where: { $0.hosts.contains(host) }) else { continue }
                scope.report(
                    "\(host) conflicts with site \(other.name.quoted)", "keep it in one of the two", at: "hosts",
                    item: item)
            }
            checkPublicURL(site, scope, accounts.sites, cookie)
            checkDomain(cookie.of(site), SitesSection.cookie(scope), of: site, accounts.sites)
        }
        guard !items.isEmpty else { return }
        if let host = accounts.sites.main.publicHost, !accounts.sites.site(of: host).name.isEmpty {
            accounts.scope.report(
                "\(host) conflicts with site \(accounts.sites.site(of: host).name.quoted)",
                "write the origin of a host that no site lists", at: "publicURL")
        }
        checkDomain(cookie, cookieScope, of: accounts.sites.main, accounts.sites)
        for listener in listeners where listener.isForDevelopment {
            listener.scope.report("conflicts with sites", "remove one of the two", at: "development")
        }
    }

    /// A browser would send two cookies of one name to a host of another site, which are no session.
    private static func checkDomain(
        _ cookie: CookieConfiguration, _ scope: ConfigScope, of site: SiteConfiguration, _ sites: SitesSection
    ) {
        guard let domain = cookie.domain else { return }
        if let host = site.hosts.first(where: { !cookie.covers($0) }) {
            scope.report(
                "must cover \(host): browsers reject the cookie there",
                "write a domain that all hosts of the site end with",
                at: "domain")
        }
        for other in [sites.main] + sites.items.map(\.configuration) where other.name != site.name {
            let hosts = other.name.isEmpty ? [other.publicHost].compactMap(\.self) : other.hosts
            // A wildcard of the other site may match the domain itself.
            let isDomain = !other.name.isEmpty && sites.site(of: domain).name == other.name
            guard let host = hosts.first(where: cookie.covers) ?? (isDomain ? domain : nil) else { continue }
            scope.report(
                "\(domain) covers \(host), a host of \(other.name.isEmpty ? "the default site" : "site \(other.name.quoted)")",
                "leave it out, or serve that host below another domain", at: "domain")
        }
    }

    /// Logins at a provider return to the public URL, so its host is one of the site.
    private static func checkPublicURL(
        _ site: SiteConfiguration, _ scope: ConfigScope, _ sites: SitesSection, _ cookie: CookieConfiguration
    ) {
        guard let url = site.publicURL, let host = site.publicHost else {
            if site.hasProviders, !scope.isInvalid("publicURL") {
                scope.reportMissing(
                    "publicURL", "redirect URIs of identities are made of it",
                    "write the origin of the site as browsers see it, such as https://admin.example.com")
            }
            return
        }
        if !site.hosts.isEmpty, sites.site(of: host).name != site.name {
            scope.report(
                "must have a host of the site, not \(host)", "add it to hosts, or correct the origin", at: "publicURL",
                becauseOf: [scope.path + ["hosts"]])
        } else if cookie.isSecure, url.hasPrefix("http://") {
            scope.report(
                "must be an https origin while session.cookie.secure is true: browsers reject the cookie",
                "write https, or session.cookie.secure: false", at: "publicURL",
                becauseOf: [["session", "cookie", "secure"]])
        }
    }
}
