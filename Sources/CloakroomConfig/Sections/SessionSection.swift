import CloakroomCore

extension SessionConfiguration: ConfigSection {
    /// `session`.
    static let keys: [Key<Self>] = [
        Key("store", \.store, storeFormat, .restart),
        Key("idleTimeout", \.idleTimeout, lifetime, .restart),
        Key("absoluteTimeout", \.absoluteTimeout, lifetime, .restart),
        Key("maxSessions", \.maxSessions, .integer(1...100_000_000), .restart),
        Key("maxSessionsPerAccount", \.maxSessionsPerAccount, .integer(1...10_000), .restart),
        // 1 to 8; required for stores other than `memory`.
        Key("secrets", \.secrets, .restart) { $1.secrets = secrets($0, for: $1.store) },
        Key("cacheSize", \.cacheSize, .integer(1...100_000_000), .restart),
        Key("sqlite.path", \.sqlite, .restart) {
            $1.sqlite.read(from: $0.sectionWithDefaults("sqlite"), isUsed: $1.store == .sqlite)
        },
        Key(section: "valkey", \.valkey),
        Key(section: "cookie", \.cookie),
        Key(section: "device", \.device),
    ]

    func check(_ scope: ConfigScope) {
        // A configuration may set up several stores, of which `store` selects one.
        for (other, key) in [("sqlite", "path"), ("valkey", "addresses")] where !scope.isSet("store") {
            let (section, remedy) = (scope.sectionWithDefaults(other), "write session.store: \(other)")
            if section.isSet(key) { section.warn("has no effect: sessions are kept in memory", remedy, at: key) }
        }
        if store == .valkey { ValkeyConfiguration.reportIfMissing(scope.sectionWithDefaults("valkey")) }
        if idleTimeout > absoluteTimeout, !scope.isInvalid("idleTimeout"), !scope.isInvalid("absoluteTimeout") {
            let name = scope.isSet("idleTimeout") ? "idleTimeout" : "absoluteTimeout"
            let causes = ["idleTimeout", "absoluteTimeout"].map { scope.path + [$0] }
            scope.report(
                "idleTimeout \(ValueFormat.rendered(idleTimeout)) must be at most absoluteTimeout"
                    + " \(ValueFormat.rendered(absoluteTimeout))", "raise absoluteTimeout, or lower idleTimeout",
                at: name, becauseOf: causes)
        }
    }

    private static let lifetime = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(30 * 86_400))

    private static let storeFormat = ValueFormat<Store>(
        ValueFormat<Store>.choice().expectation, render: { $0.rawValue }
    ) { text throws(ConfigValueError) in
        try require(text.lowercased() != "redis", "must be valkey, which covers Valkey and Redis", "write valkey")
        return try ValueFormat<Store>.choice().parse(text)
    }

    /// The secrets of the gateway, newest first.
    private static func secrets(_ scope: ConfigScope, for store: Store) -> [Secret] {
        let secrets = scope.secrets("secrets", as: .gatewaySecret) { $0 }
        guard let secrets, !secrets.isEmpty else {
            if store != .memory, !scope.isInvalid("secrets"), !scope.isInvalid("secretsFile"), !scope.isInvalid("store")
            {
                scope.reportMissing(
                    "secrets", "the store \(store.rawValue) seals sessions",
                    "\(ValueFormat<Secret>.gatewaySecretExample), or name a file that holds it in secretsFile")
            }
            return []
        }
        scope.checkCount(secrets.count, most: 8, "secrets", "keep the newest 8 or fewer", at: "secrets")
        for index in secrets.indices where secrets[..<index].contains(secrets[index]) {
            scope.report("must be unique", "keep one of them", at: "secrets", item: index)
        }
        return secrets
    }
}

extension CookieConfiguration: ConfigSection {
    /// `session.cookie`.
    static let keys: [Key<Self>] = [
        Key("secure", \.isSecure, .flag, .restart),
        // Without `secure`, browsers reject the prefix.
        Key("name", \.name, .restart) { scope, cookie in
            let name = cookie.isSecure ? cookie.name : String(cookie.name.dropFirst(hostPrefix.count))
            cookie.name = scope.value("name", as: .token, default: name)
        },
        Key(optional: "domain", \.domain, .cookieDomain, .restart),
        Key("sameSite", \.sameSite, .choice(), .restart),
        Key("partitioned", \.isPartitioned, .flag, .restart),
        Key("persistent", \.persistence, .choice()),
    ]
}

extension DeviceConfiguration: ConfigSection {
    /// `session.device`.
    static let keys: [Key<Self>] = [
        Key("mode", \.mode, .choice(), .restart),
        Key("lifetime", \.lifetime, .duration(.seconds(10) ... .seconds(3_600)), .restart),
        Key("offer", \.offer, .duration(.seconds(30) ... .seconds(600)), .restart),
        Key("settle", \.settle, .duration(.zero ... .seconds(60)), .restart),
        Key("streams", \.streams, .duration(.seconds(300) ... .seconds(86_400)), .restart),
    ]
}
