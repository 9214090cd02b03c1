import CloakroomCore

/// `sites`: a mapping from names to hosts with sessions of their own, at most 16; default none.
struct SitesSection {
    /// The maximum number of sites besides the default one.
    private static let most = 16

    /// The default site.
    let main: SiteConfiguration
    /// The others, in the order of the file.
    let items: [(scope: ConfigScope, configuration: SiteConfiguration)]

    /// Empty if there is only the default site.
    var configurations: [SiteConfiguration] { items.isEmpty ? [] : [main] + items.map(\.configuration) }

    /// - Parameter signIn: Reads `identities`, and whether the upstream signs users in.
    init(
        from root: ConfigScope, main: SiteConfiguration,
        signIn: (ConfigScope) -> (identities: [SignInSource], upstream: Int?)
    ) {
        self.main = main
        items = root.items(named: "sites", of: ("site", "sites"), most: Self.most).map { name, scope in
            var site = SiteConfiguration(name: name)
            site.hosts = scope.requiredList("hosts", as: .host) ?? []
            scope.reportRepetition(in: site.hosts, at: "hosts")
            site.publicURL = scope.optional("publicURL", as: .publicURL)
            let own = signIn(scope)
            let hasOwn = scope.isSet("identities")
            site.identities = hasOwn ? own.identities : main.identities
            site.upstream = hasOwn ? own.upstream : main.upstream
            let cookie = Self.cookie(scope)
            site.domain = cookie.optional("domain", as: .cookieDomain)
            site.sameSite = cookie.optional("sameSite", as: .choice(of: [.strict, .lax]))
            site.persistence = cookie.optional("persistent", as: .choice())
            return (scope, site)
        }
    }

    /// `cookie` of a site.
    static func cookie(_ site: ConfigScope) -> ConfigScope { site.sectionWithDefaults("cookie") }

    /// The site of a host, or of a name with a wildcard.
    func site(of host: String) -> SiteConfiguration {
        let index = HostNames(items.map(\.configuration.hosts)).value(of: host)
        return index.map { items[$0].configuration } ?? main
    }
}
