import CloakroomCore

extension GatewayPlan {
    /// Reads the whole configuration and checks what no single key can tell.
    ///
    /// Keys on the top level besides the sections: `trustedPeers`, addresses and ranges, none by default; `eventLoops`,
    /// 1 to 1,024, one for each core by default.
    /// - Returns: `nil` if anything is wrong; the mistakes are noted with the reading.
    init?(from root: ConfigScope) {
        let listeners = root.items("listeners").map(ListenerConfig.init)
        if listeners.isEmpty, !root.reading.broken.contains(["listeners"]) { root.reading.noteMissing(["listeners"]) }
        let admin = AdminConfig(from: root.always("admin"))
        let upstreams = UpstreamsConfig(from: root)
        let accounts = AccountsConfig(from: root.always("accounts"), upstreams: upstreams)
        let session = SessionPlan(from: root.always("session"))
        let crossSite = CrossSitePlan(from: root)
        let routes = root.items("routes").map { RouteConfig(from: $0, upstreams: upstreams) }
        let limits = LimitsPlan(from: root.always("limits"))
        let timeouts = TimeoutsPlan(from: root.always("timeouts"))
        let trustedPeers = root.list("trustedPeers", as: .addressRange) ?? []
        let logging = LoggingPlan(from: root.always("logging"))
        let tracing = TracingPlan(from: root.always("tracing"))
        let eventLoops = root.optional("eventLoops", as: .integer(1...1_024))

        CookieRules.check(session.cookie, scope: root.always("session").always("cookie"), listeners: listeners)
        AddressRules.check(listeners, admin: admin)
        RouteRules.check(routes, accounts: accounts, upstreams: upstreams)
        PlaceholderRules.check(root.reading, listeners: listeners, admin: admin)

        guard root.reading.problems.isEmpty, root.reading.missing.isEmpty, root.reading.consequences.isEmpty else {
            return nil
        }
        self.init(
            listeners: listeners.compactMap(\.plan), admin: admin.plan, upstreams: upstreams.plans,
            routes: routes.compactMap(\.route), accounts: accounts.plan, session: session,
            crossSite: crossSite, limits: limits, timeouts: timeouts, trustedPeers: trustedPeers.map(\.range),
            logging: logging, tracing: tracing, eventLoops: eventLoops)
    }
}

extension ValueFormat where Value == Duration {
    /// A time to wait: more than zero and at most a day.
    static let wait = duration(.milliseconds(1) ... .seconds(86_400))
}

extension ConfigScope {
    /// Sentences for people by message code; none by default.
    func messages() -> [ProblemCode: String] {
        let scope = section("messages")
        var messages: [ProblemCode: String] = [:]
        for code in ProblemCode.allCases {
            if let text = scope.optional(code.rawValue, as: .text) { messages[code] = text }
        }
        return messages
    }
}
