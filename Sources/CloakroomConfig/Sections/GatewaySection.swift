import CloakroomCore

extension GatewayConfiguration {
    /// Parses the whole configuration and validates keys against each other.
    ///
    /// Top-level keys besides the sections: `trustedProxies`, addresses and ranges, default none; `eventLoops`, 1 to
    /// 1,024, default one per core.
    /// - Returns: `nil` if there is any error; errors are collected in the reading.
    init?(from root: ConfigScope) {
        let listeners = root.items("listeners").map(ListenerSection.init)
        if listeners.isEmpty, !root.reading.invalidKeys.contains(["listeners"]) {
            root.reading.reportMissing(["listeners"])
        }
        let admin = AdminSection(from: root.sectionWithDefaults("admin"))
        let upstreams = UpstreamsSection(from: root)
        let identities = IdentitiesSection(from: root, upstreams: upstreams)
        let accounts = AccountsSection(
            from: root.sectionWithDefaults("accounts"), upstreams: upstreams, identities: identities)
        let session = SessionConfiguration(from: root.sectionWithDefaults("session"))
        let crossSite = CrossSiteConfiguration(from: root)
        let routes = root.items("routes").map { RouteSection(from: $0, upstreams: upstreams) }
        let limits = LimitsConfiguration(from: root.sectionWithDefaults("limits"))
        let timeouts = TimeoutsConfiguration(from: root.sectionWithDefaults("timeouts"))
        let trustedProxies = root.list("trustedProxies", as: .addressRange) ?? []
        let logging = LoggingConfiguration(from: root.sectionWithDefaults("logging"))
        let metrics = MetricsConfiguration(from: root.sectionWithDefaults("telemetry"))
        let tracing = TracingConfiguration(from: root.sectionWithDefaults("tracing"))
        let eventLoops = root.optional("eventLoops", as: .integer(1...1_024))

        CookieValidation.check(
            session.cookie, scope: root.sectionWithDefaults("session").sectionWithDefaults("cookie"),
            listeners: listeners)
        ListenerAddressValidation.check(listeners, admin: admin)
        RouteValidation.check(routes, accounts: accounts, upstreams: upstreams, identities: identities)
        IdentityValidation.check(identities, accounts: accounts, routes: routes, session: session, crossSite: crossSite)
        ClaimHeaderRules.check(upstreams, identities)
        RouteProtocolRules.check(routes, upstreams: upstreams, listeners: listeners)
        PlaceholderRules.check(root.reading, listeners: listeners, admin: admin)

        guard root.reading.problems.isEmpty, root.reading.missing.isEmpty, root.reading.consequences.isEmpty else {
            return nil
        }
        self.init(
            listeners: listeners.compactMap(\.configuration), admin: admin.configuration,
            upstreams: upstreams.configurations,
            routes: routes.compactMap(\.route), accounts: accounts.configuration, session: session,
            crossSite: crossSite, limits: limits, timeouts: timeouts, trustedProxies: trustedProxies.map(\.range),
            logging: logging, tracing: tracing, eventLoops: eventLoops, identities: identities.configurations,
            metrics: metrics)
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
    /// Whether the configuration file and its secret files are polled for changes.
    public var watchesFiles: Bool
    /// The polling interval, 100 ms to 1 day.
    public var interval: Duration

    /// Creates the configuration.
    public init(watchesFiles: Bool = true, interval: Duration = .seconds(10)) {
        self.watchesFiles = watchesFiles
        self.interval = interval
    }
}

extension ReloadConfiguration {
    /// `reload`.
    ///
    /// - `watch`: default `true`.
    /// - `interval`: 100ms to 1d; default 10s.
    init(from scope: ConfigScope) {
        let defaults = ReloadConfiguration()
        self.init(
            watchesFiles: scope.value("watch", as: .flag, default: defaults.watchesFiles),
            interval: scope.value(
                "interval", as: .duration(.milliseconds(100) ... .seconds(86_400)), default: defaults.interval))
    }
}
