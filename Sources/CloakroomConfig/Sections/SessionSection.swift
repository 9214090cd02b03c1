import CloakroomCore

extension SessionConfiguration {
    /// `session`.
    ///
    /// - `store`: `memory` (default), `sqlite` or `valkey`.
    /// - `idleTimeout`: 1s to 30d; default 15m.
    /// - `absoluteTimeout`: 1s to 30d, not less than `idleTimeout`; default 8h.
    /// - `maxSessions`: 1 to 100,000,000; default 1,000,000.
    /// - `maxSessionsPerAccount`: 1 to 10,000; default 100.
    /// - `cacheSize`: 1 to 100,000,000; default 100,000.
    /// - `secrets` or `secretsFile`: 1 to 8, each of at least 32 bytes. Required for stores other than `memory`.
    init(from scope: ConfigScope) {
        let defaults = SessionConfiguration()
        let lifetime = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(30 * 86_400))
        let store = scope.value("store", as: Self.storeFormat, default: defaults.store)
        let idle = scope.value("idleTimeout", as: lifetime, default: defaults.idleTimeout)
        let absolute = scope.value("absoluteTimeout", as: lifetime, default: defaults.absoluteTimeout)
        if idle > absolute, !scope.isInvalid("idleTimeout"), !scope.isInvalid("absoluteTimeout") {
            let name = scope.isSet("idleTimeout") ? "idleTimeout" : "absoluteTimeout"
            let causes = ["idleTimeout", "absoluteTimeout"].map { scope.path + [$0] }
            scope.report(
                ConfigValueError(
                    "idleTimeout \(ValueFormat.rendered(idle)) must be at most absoluteTimeout"
                        + " \(ValueFormat.rendered(absolute))",
                    "raise absoluteTimeout, or lower idleTimeout"), at: name,
                becauseOf: causes)
        }
        self.init(
            store: store, idleTimeout: idle, absoluteTimeout: absolute,
            maxSessions: scope.value("maxSessions", as: .integer(1...100_000_000), default: defaults.maxSessions),
            maxSessionsPerAccount: scope.value(
                "maxSessionsPerAccount", as: .integer(1...10_000), default: defaults.maxSessionsPerAccount),
            secrets: Self.secrets(scope, for: store),
            cacheSize: scope.value("cacheSize", as: .integer(1...100_000_000), default: defaults.cacheSize),
            sqlite: SQLiteConfiguration(from: scope.sectionWithDefaults("sqlite"), isUsed: store == .sqlite),
            valkey: ValkeyConfiguration(from: scope.sectionWithDefaults("valkey"), isUsed: store == .valkey),
            cookie: CookieConfiguration(from: scope.sectionWithDefaults("cookie")))
    }

    private static let storeFormat = ValueFormat<Store>(
        ValueFormat<Store>.choice().expectation,
        parse: { text throws(ConfigValueError) in
            guard text.lowercased() != "redis" else {
                throw ConfigValueError("must be valkey, which covers Valkey and Redis", "write valkey")
            }
            return try ValueFormat<Store>.choice().parse(text)
        }, render: { $0.rawValue })

    /// The secrets of the gateway, newest first.
    private static func secrets(_ scope: ConfigScope, for store: Store) -> [Secret] {
        let secrets = scope.secrets("secrets", as: .gatewaySecret) { $0 }
        guard let secrets, !secrets.isEmpty else {
            if store != .memory, !scope.isInvalid("secrets"), !scope.isInvalid("secretsFile"), !scope.isInvalid("store")
            {
                scope.reading.reportMissing(
                    scope.path + ["secrets"],
                    ConfigValueError(
                        "required key missing: the store \(store.rawValue) seals sessions",
                        "\(ValueFormat<Secret>.gatewaySecretExample), or name a file that holds it in secretsFile"))
            }
            return []
        }
        if secrets.count > 8 {
            scope.report(
                ConfigValueError("must be at most 8 secrets, not \(secrets.count)", "keep the newest 8 or fewer"),
                at: "secrets")
        }
        for index in secrets.indices where secrets[..<index].contains(secrets[index]) {
            scope.report(ConfigValueError("must be unique", "keep one of them"), item: index, of: "secrets")
        }
        return secrets
    }
}

extension CookieConfiguration {
    /// The prefix of cookies that browsers bind to their host (RFC 6265bis §4.1.3).
    static let hostPrefix = "__Host-"

    /// `session.cookie`.
    ///
    /// - `name`: a token; default `__Host-cloakroom`, without the prefix if `secure` is `false`.
    /// - `secure`: default `true`; `false` on loopback only.
    /// - `sameSite`: `Strict` (default) or `Lax`.
    /// - `persistent`: `never` (default), `always` or `onRequest`.
    init(from scope: ConfigScope) {
        let defaults = CookieConfiguration()
        let isSecure = scope.value("secure", as: .flag, default: defaults.isSecure)
        let name = isSecure ? defaults.name : String(defaults.name.dropFirst(Self.hostPrefix.count))
        self.init(
            name: scope.value("name", as: .token, default: name), isSecure: isSecure,
            sameSite: scope.value("sameSite", as: .choice(), default: defaults.sameSite),
            persistence: scope.value("persistent", as: .choice(), default: defaults.persistence))
    }
}
