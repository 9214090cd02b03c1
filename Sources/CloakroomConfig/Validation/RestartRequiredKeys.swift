public import CloakroomCore

/// The keys whose change requires a restart. They configure parts that are created once, such as sockets, the session
/// store and the log writer, or values that are announced at the start, such as the drain timeout. All other keys can
/// change while requests are served.
enum RestartRequiredKeys {
    /// All but those of listeners, which are compared one by one; see ``listenerKeys``.
    static let all: [FixedKey<GatewayConfiguration>] =
        [FixedKey("admin.enabled") { $0.admin == nil }] + admin
        + AccountsConfiguration.fixed(below: "accounts", of: \.accounts)
        + SessionConfiguration.fixed(below: "session", of: \.session)
        + GatewayConfiguration.keys.flatMap(\.fixed)

    /// The keys of the admin listener, if there is one before and after a change.
    private static let admin = AdminConfiguration.keys.flatMap(\.fixed).map { key in
        FixedKey<GatewayConfiguration>(["admin"] + key.path) { old, new in
            guard let old = old.admin, let new = new.admin else { return false }
            return key.differs(old, new)
        }
    }

    /// The keys of a listener's socket. Certificates, versions and cipher suites can change.
    static func listenerKeys(_ index: Int) -> [FixedKey<GatewayConfiguration>] {
        let listener: @Sendable (GatewayConfiguration) -> ListenerConfiguration? = { configuration in
            configuration.listeners.indices.contains(index) ? configuration.listeners[index] : nil
        }
        return [
            FixedKey("listeners.\(index).address") { listener($0)?.address },
            FixedKey("listeners.\(index).tls") { listener($0)?.tls == nil },
            FixedKey("listeners.\(index).http2") { listener($0)?.http2 },
            FixedKey("listeners.\(index).proxyProtocol") { listener($0)?.proxyProtocolSources },
            FixedKey("listeners.\(index).forwardAuth") { listener($0)?.forwardAuth },
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
