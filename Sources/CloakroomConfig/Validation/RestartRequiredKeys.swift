public import CloakroomCore

/// The keys whose change requires a restart. They configure parts that are created once, such as sockets, the session
/// store and the log writer, or values that are announced at the start, such as the drain timeout. All other keys can
/// change while requests are served.
enum RestartRequiredKeys {
    /// A key, or a section with all its keys, and the comparison of two configurations in it.
    struct FixedKey: Sendable {
        let path: [String]
        let differs: @Sendable (GatewayConfiguration, GatewayConfiguration) -> Bool

        init<Value: Equatable & Sendable>(_ key: String, _ value: @escaping @Sendable (GatewayConfiguration) -> Value) {
            path = key.split(separator: ".").map(String.init)
            differs = { value($0) != value($1) }
        }

        /// A key of the admin listener; not compared if there is no admin listener.
        init<Value: Equatable & Sendable>(admin key: String, _ value: @escaping @Sendable (AdminConfiguration) -> Value)
        {
            path = ["admin", key]
            differs = { old, new in
                guard let old = old.admin, let new = new.admin else { return false }
                return value(old) != value(new)
            }
        }
    }

    /// In the order of the documentation; listeners are compared one by one, see ``listenerKeys``.
    static let all: [FixedKey] = [
        FixedKey("admin.enabled") { $0.admin == nil },
        FixedKey(admin: "address") { $0.address },
        FixedKey(admin: "token") { $0.token },
        FixedKey(admin: "tokenScope") { $0.tokenScope },
        FixedKey(admin: "allowedHosts") { $0.allowedHosts },
        FixedKey(admin: "tls") { $0.tls },
        FixedKey("accounts.throttle") { $0.accounts.isThrottled },
        FixedKey("session.store") { $0.session.store },
        FixedKey("session.secrets") { $0.session.secrets },
        FixedKey("session.cacheSize") { $0.session.cacheSize },
        FixedKey("session.sqlite.path") { $0.session.sqlite.path },
        FixedKey("session.valkey.addresses") { $0.session.valkey.addresses },
        FixedKey("session.valkey.topology") { $0.session.valkey.topology },
        FixedKey("session.valkey.sentinelPrimary") { $0.session.valkey.sentinelPrimary },
        FixedKey("session.valkey.user") { $0.session.valkey.user },
        FixedKey("session.valkey.password") { $0.session.valkey.password },
        FixedKey("session.valkey.sentinelPassword") { $0.session.valkey.sentinelPassword },
        FixedKey("session.valkey.tls") { $0.session.valkey.tls },
        FixedKey("session.valkey.prefix") { $0.session.valkey.prefix },
        FixedKey("session.valkey.timeout") { $0.session.valkey.timeout },
        FixedKey("session.valkey.replicas") { $0.session.valkey.replicas },
        FixedKey("session.idleTimeout") { $0.session.idleTimeout },
        FixedKey("session.absoluteTimeout") { $0.session.absoluteTimeout },
        FixedKey("session.maxSessions") { $0.session.maxSessions },
        FixedKey("session.maxSessionsPerAccount") { $0.session.maxSessionsPerAccount },
        FixedKey("session.cookie.name") { $0.session.cookie.name },
        FixedKey("session.cookie.secure") { $0.session.cookie.isSecure },
        FixedKey("session.cookie.sameSite") { $0.session.cookie.sameSite },
        FixedKey("limits.connections") { $0.limits.connections },
        FixedKey("limits.connectionsPerAddress") { $0.limits.connectionsPerAddress },
        FixedKey("timeouts.identity") { $0.timeouts.identity },
        FixedKey("timeouts.drain") { $0.timeouts.drain },
        FixedKey("trustedProxies") { $0.trustedProxies },
        FixedKey("logging.format") { $0.logging.format },
        FixedKey("logging.accessLog") { $0.logging.accessLog },
        FixedKey("telemetry.buckets") { $0.metrics.buckets },
        FixedKey("tracing.exporter") { $0.tracing.exporter },
        FixedKey("tracing.sampler") { [$0.tracing.sampler.root.rawValue, "\($0.tracing.sampler.isParentBased)"] },
        FixedKey("tracing.ratio") { $0.tracing.sampler.ratio },
        FixedKey("tracing.serviceName") { $0.tracing.serviceName },
        FixedKey("tracing.resourceAttributes") { $0.tracing.resourceAttributes },
        FixedKey("tracing.otlp.endpoint") { $0.tracing.otlp.endpoint },
        FixedKey("tracing.otlp.caFile") { $0.tracing.otlp.caFile },
        FixedKey("tracing.otlp.headers") { $0.tracing.otlp.headers },
        FixedKey("tracing.otlp.timeout") { $0.tracing.otlp.timeout },
        FixedKey("tracing.otlp.queueLimit") { $0.tracing.otlp.queueLimit },
        FixedKey("tracing.otlp.batchLimit") { $0.tracing.otlp.batchLimit },
        FixedKey("tracing.otlp.interval") { $0.tracing.otlp.interval },
        FixedKey("eventLoops") { $0.eventLoops },
    ]

    /// The keys of a listener's socket. Certificates, versions and cipher suites can change.
    static func listenerKeys(_ index: Int) -> [FixedKey] {
        let listener: @Sendable (GatewayConfiguration) -> ListenerConfiguration? = { configuration in
            configuration.listeners.indices.contains(index) ? configuration.listeners[index] : nil
        }
        return [
            FixedKey("listeners.\(index).address") { listener($0)?.address },
            FixedKey("listeners.\(index).tls") { listener($0)?.tls == nil },
            FixedKey("listeners.\(index).http2") { listener($0)?.http2 },
            FixedKey("listeners.\(index).proxyProtocol") { listener($0)?.proxyProtocolSources },
        ]
    }

    /// Whether a change of a key requires a restart. The key of a list item contains the index of the item.
    static func contains(_ path: [String]) -> Bool {
        // A `…File` key counts as its secret key.
        let last = path.last ?? ""
        let plain = last.hasSuffix("File") ? path.dropLast() + [String(last.dropLast("File".count))] : path
        // All keys within `tls` of a listener can change; adding or removing the section cannot.
        if path.first == "listeners", path.contains("tls"), path.last != "tls" { return false }
        let keys = path.first == "listeners" ? listenerKeys(Int(path.dropFirst().first ?? "") ?? 0) : all
        return keys.contains { path.starts(with: $0.path) || plain.starts(with: $0.path) }
    }
}

extension LoadedConfig {
    /// The problems that prevent a running gateway from applying this configuration: one per key that requires a
    /// restart, at the location of its new value. Empty if the configuration can be applied.
    public func restartRequirements(since running: GatewayConfiguration) -> [ConfigDiagnostic] {
        var problems: [ConfigDiagnostic] = []
        let restart =
            "restart the gateway; with serve --take-over no connection is refused"
        func report(_ path: [String], _ message: String) {
            problems.append(locations.problem(ConfigValueError(message, restart), key: path, origin: locations[path]))
        }
        let (count, runningCount) = (configuration.listeners.count, running.listeners.count)
        if count != runningCount {
            report(
                ["listeners"], "their number cannot change from \(runningCount) to \(count) while the gateway runs")
        }
        for key in (0..<min(count, runningCount)).flatMap(RestartRequiredKeys.listenerKeys) + RestartRequiredKeys.all
        where key.differs(running, configuration) {
            report(key.path, "cannot change while the gateway runs")
        }
        return ConfigDiagnostics(problems).problems
    }
}
