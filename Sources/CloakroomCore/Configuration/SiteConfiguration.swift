/// Hosts with sessions of their own: the ticket of a session is unknown at all other sites.
public struct SiteConfiguration: Sendable, Equatable {
    /// The name, which is part of the keys of its sessions; empty for the default site.
    public var name = ""
    /// The hosts, exact or with a wildcard, folded. Empty for the default site, which has all that no other one has.
    public var hosts: [String] = []
    /// The origin as browsers see it, at one of ``hosts``; `nil` if users sign in at no provider.
    public var publicURL: String?
    /// What users may sign in with at the site, the default first; see ``AccountsConfiguration/identities``.
    public var identities: [SignInSource] = []
    /// Index of the upstream that signs users in at the site; `nil` if none does.
    public var upstream: Int?
    /// The `Domain` attribute of the cookie; `nil` if the hosts of the site do not share it.
    public var domain: String?
    /// The `SameSite` attribute of the cookie; `nil` for that of ``SessionConfiguration/cookie``.
    public var sameSite: CookieConfiguration.SameSite?
    /// Which sign-ins set a persistent cookie; `nil` for that of ``SessionConfiguration/cookie``.
    public var persistence: CookieConfiguration.Persistence?

    package init(name: String = "") { self.name = name }

    /// The default site.
    package init(_ accounts: AccountsConfiguration) {
        (publicURL, identities, upstream) = (accounts.publicURL, accounts.identities, accounts.upstream)
    }

    /// The part of its tickets.
    public var tag: SiteTag { name.isEmpty ? .main : SiteTag(name) }
    /// The name in reports.
    package var title: String { name.isEmpty ? "(default)" : name }
    /// Whether users can sign in at a provider.
    package var hasProviders: Bool {
        identities.contains { if case .provider = $0 { true } else { false } }
    }
    /// The host of ``publicURL``, folded.
    package var publicHost: String? { publicURL.flatMap { WebOrigin($0) }.flatMap { HostNames.folded($0.host) } }
}

extension GatewayConfiguration {
    /// The configuration as it applies to a site: what users sign in with, the apps, the public URL and the cookie are
    /// those of the site.
    /// - Parameter index: That of ``sites``. If there is none with this index, the configuration is unchanged.
    package func site(_ index: Int) -> GatewayConfiguration {
        guard sites.indices.contains(index) else { return self }
        let site = sites[index]
        var configuration = self
        configuration.accounts.publicURL = site.publicURL
        configuration.accounts.identities = site.identities
        configuration.accounts.upstream = site.upstream
        if !site.name.isEmpty {
            configuration.accounts.apps = []
            configuration.session.cookie.domain = site.domain
        }
        configuration.session.cookie.sameSite = site.sameSite ?? session.cookie.sameSite
        configuration.session.cookie.persistence = site.persistence ?? session.cookie.persistence
        return configuration
    }
}

extension AccountsConfiguration {
    /// Adds what users may sign in with at a site.
    package mutating func add(_ site: SiteConfiguration) {
        identities += site.identities.filter { !identities.contains($0) }
        upstream = upstream ?? site.upstream
    }

    /// The host of ``publicURL``, folded.
    package var publicHost: String? { SiteConfiguration(self).publicHost }
}
