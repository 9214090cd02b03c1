import CloakroomCore

extension GatewayConfiguration: ConfigSection {
    /// The sections and keys after `routes`, which depend on no other section.
    static let keys: [Key<Self>] = [
        Key(section: "pages", \.pages),
        Key(section: "limits", \.limits),
        Key(section: "timeouts", \.timeouts),
        Key("trustedProxies", \.trustedProxies, .restart) {
            $1.trustedProxies = ($0.list("trustedProxies", as: .addressRange) ?? []).map(\.range)
        },
        Key(section: "logging", \.logging),
        Key(section: "telemetry", \.metrics),
        Key(section: "tracing", \.tracing),
        Key(optional: "eventLoops", \.eventLoops, .integer(1...1_024), .restart),
    ]

    /// Parses the whole configuration and validates keys against each other.
    /// - Returns: `nil` if there is any error; errors are collected in the reading.
    init?(from root: ConfigScope) {
        let listeners = root.items("listeners").map(ListenerSection.init)
        if listeners.isEmpty, !root.reading.invalidKeys.contains(["listeners"]) {
            root.reading.reportMissing(["listeners"])
        }
        let admin = AdminSection(from: root.sectionWithDefaults("admin"))
        let upstreams = UpstreamsSection(from: root)
        let identities = IdentitiesSection(from: root, upstreams: upstreams)
        let accounts = AccountsSection(from: root, upstreams: upstreams, identities: identities)
        var configuration = GatewayConfiguration.defaults
        configuration.session.read(from: root.sectionWithDefaults("session"))
        configuration.session.apps = accounts.configuration.apps.compactMap { $0.terms(configuration.session) }
        configuration.session.device.isUsedByApps = configuration.session.apps.contains { $0.device != .off }
        configuration.crossSite.read(from: root)
        let rateLimits = RateLimitsSection(from: root)
        let routes = root.items("routes").map { RouteSection(from: $0, upstreams: upstreams) }
        if routes.isEmpty, !root.isInvalid("routes") {
            root.warn(
                "no route: every request gets 404, except those for the gateway's own endpoints",
                "add a route for each path to serve", at: "routes")
        }
        configuration.responseFields = ResponseFieldsConfiguration(
            from: root.sectionWithDefaults("responseFields"), upstreams: upstreams,
            usesSession: routes.contains(where: \.usesSession))
        configuration.read(from: root)

        CookieValidation.check(
            configuration.session.cookie,
            scope: root.sectionWithDefaults("session").sectionWithDefaults("cookie"),
            listeners: listeners, publicURL: accounts.configuration.publicURL, sites: accounts.sites)
        SiteValidation.check(
            accounts, cookie: configuration.session.cookie,
            cookieScope: root.sectionWithDefaults("session").sectionWithDefaults("cookie"), listeners: listeners)
        ListenerAddressValidation.check(listeners, admin: admin)
        OwnTargetRules.check(listeners, upstreams: upstreams)
        HTTPSRedirectValidation.check(listeners, routes, accounts: accounts)
        if configuration.responseFields.strictTransport.maxAge > .zero, !listeners.contains(where: \.usesHTTPS),
            configuration.trustedProxies.isEmpty
        {
            root.sectionWithDefaults("responseFields").sectionWithDefaults("hsts").warn(
                "has no effect without https", "add tls or behindTLSProxy to a listener", at: "maxAge")
        }
        DevelopmentValidation.check(listeners, hasTrustedProxies: !configuration.trustedProxies.isEmpty)
        ForwardAuthValidation.check(listeners, upstreams: upstreams)
        HostValidation.check(listeners, routes, accounts: accounts, cookie: configuration.session.cookie)
        RouteValidation.check(
            routes, accounts: accounts, upstreams: upstreams, identities: identities, rateLimits: rateLimits.limits)
        IdentityValidation.check(
            identities, accounts: accounts, routes: routes, listeners: listeners, session: configuration.session,
            crossSite: configuration.crossSite)
        DeviceValidation.check(
            configuration.session, scope: root.sectionWithDefaults("session"), accounts: accounts, routes: routes)
        EmbeddedCookieValidation.check(
            configuration.session, configuration.crossSite, scope: root.sectionWithDefaults("session"),
            sites: accounts.sites)
        accounts.apps.check(accounts.sites.main, identities, routes, configuration.session)
        ClaimHeaderRules.check(upstreams, identities)
        AssertionRules.check(
            upstreams, identities, secrets: configuration.session.secrets, session: root.sectionWithDefaults("session"))
        RouteProtocolRules.check(routes, upstreams: upstreams, listeners: listeners)
        RateLimitRules(limits: rateLimits, identities: identities, store: configuration.session.store).check(
            routes, every: configuration.limits.rate)
        PlaceholderRules.check(root.reading, listeners: listeners, admin: admin)

        guard root.reading.problems.isEmpty, root.reading.missing.isEmpty, root.reading.consequences.isEmpty else {
            return nil
        }
        configuration.listeners = listeners.compactMap(\.configuration)
        configuration.admin = admin.configuration
        configuration.upstreams = upstreams.configurations
        configuration.identities = identities.configurations
        configuration.accounts = accounts.configuration
        configuration.sites = accounts.sites.configurations
        configuration.routes = routes.compactMap(\.route)
        configuration.rateLimits = rateLimits.limits
        self = configuration
    }
}

extension ValueFormat where Value == Duration {
    /// A timeout: more than zero and at most a day.
    static let wait = duration(.milliseconds(1) ... .seconds(86_400))
}

extension ConfigScope {
    /// User-visible messages by code; default none.
    func messages() -> [ProblemCode: String] {
        let scope = section("messages")
        var messages: [ProblemCode: String] = [:]
        for code in ProblemCode.allCases {
            if let text = scope.optional(code.rawValue, as: .text) { messages[code] = text }
        }
        return messages
    }
}

/// When a running gateway reloads its configuration. SIGHUP always triggers a reload.
public struct ReloadConfiguration: Sendable, Equatable {
    /// The interval at which the configuration file and its secret files are polled for changes, 0 s to 1 day; zero
    /// disables polling.
    public var interval: Duration = .seconds(10)
}

extension ReloadConfiguration: ConfigSection {
    /// `reload`.
    static let keys: [Key<Self>] = [
        Key("interval", \.interval, .duration(.zero ... .seconds(86_400)))
    ]
}
