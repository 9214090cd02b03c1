import CloakroomCore

extension SessionPlan {
    /// `session`.
    ///
    /// - `store`: `memory`.
    /// - `idleTimeout`: 1s to 30d; default 15m.
    /// - `absoluteTimeout`: 1s to 30d, not less than `idleTimeout`; default 8h.
    /// - `maxSessions`: 1 to 100,000,000; default 1,000,000.
    init(from scope: ConfigScope) {
        let defaults = SessionPlan()
        let lifetime = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(30 * 86_400))
        let store = scope.value("store", as: Self.storeFormat, default: defaults.store)
        let idle = scope.value("idleTimeout", as: lifetime, default: defaults.idleTimeout)
        let absolute = scope.value("absoluteTimeout", as: lifetime, default: defaults.absoluteTimeout)
        if idle > absolute, !scope.isBroken("idleTimeout"), !scope.isBroken("absoluteTimeout") {
            let name = scope.isGiven("idleTimeout") ? "idleTimeout" : "absoluteTimeout"
            scope.complain(
                Mistake(
                    "idleTimeout \(ValueFormat.rendered(idle)) is longer than absoluteTimeout"
                        + " \(ValueFormat.rendered(absolute))",
                    "a session that is never idle ends at absoluteTimeout; make it the longer one"), at: name)
        }
        self.init(
            store: store, idleTimeout: idle, absoluteTimeout: absolute,
            maxSessions: scope.value("maxSessions", as: .integer(1...100_000_000), default: defaults.maxSessions),
            cookie: CookiePlan(from: scope.always("cookie")))
    }

    private static let storeFormat = ValueFormat<Store>(
        parse: { text throws(Mistake) in
            guard !["sqlite", "valkey", "redis"].contains(text) else {
                throw Mistake("the store \(text) is not supported yet", "write memory")
            }
            return try ValueFormat<Store>.choice().parse(text)
        }, render: { $0.rawValue })
}

extension CookiePlan {
    /// The prefix under which browsers hold a cookie to its host (RFC 6265bis §4.1.3).
    static let hostPrefix = "__Host-"

    /// `session.cookie`.
    ///
    /// - `name`: a token; default `__Host-cloakroom`, without the prefix where `secure` is `false`.
    /// - `secure`: default `true`; `false` on loopback only.
    /// - `sameSite`: `Strict` (default) or `Lax`.
    init(from scope: ConfigScope) {
        let defaults = CookiePlan()
        let isSecure = scope.value("secure", as: .flag, default: defaults.isSecure)
        let name = isSecure ? defaults.name : String(defaults.name.dropFirst(Self.hostPrefix.count))
        self.init(
            name: scope.value("name", as: .token, default: name), isSecure: isSecure,
            sameSite: scope.value("sameSite", as: .choice(), default: defaults.sameSite))
    }
}
