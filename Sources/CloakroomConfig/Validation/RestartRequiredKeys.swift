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

    /// The keys of a listener's socket.
    static func listenerKeys(_ index: Int) -> [FixedKey<GatewayConfiguration>] {
        ListenerConfiguration.keys.flatMap(\.fixed).map { key in
            FixedKey(["listeners", String(index)] + key.path) { old, new in
                guard old.listeners.indices.contains(index), new.listeners.indices.contains(index) else { return false }
                return key.differs(old.listeners[index], new.listeners[index])
            }
        }
    }

    /// The keys of an app: stores and the check of proofs have them from the start. Sessions keep those of an app that is
    /// removed.
    static func appKeys(_ name: String) -> [FixedKey<GatewayConfiguration>] {
        let app = { @Sendable (all: GatewayConfiguration) in all.accounts.apps.first { $0.name == name } }
        return AppConfiguration.keys.flatMap(\.fixed).map { key in
            FixedKey(["accounts", "apps", name] + key.path) { old, new in
                app(new).map { key.differs(app(old) ?? AppConfiguration(name: name), $0) } ?? false
            }
        }
    }

    /// Whether a change of a key requires a restart. The key of a list item contains the index of the item.
    static func contains(_ path: [String]) -> Bool {
        // A `…File` key counts as its secret key.
        let last = path.last ?? ""
        let plain = last.hasSuffix("File") ? path.dropLast() + [String(last.dropLast("File".count))] : path
        // All keys within `tls` of a listener can change; adding or removing the section cannot.
        if path.first == "listeners", path.contains("tls"), path.last != "tls" { return false }
        if path.starts(with: ["accounts", "apps"]), path.count > 2 {
            return appKeys(path[2]).contains { path.starts(with: $0.path) }
        }
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
            + configuration.accounts.apps.map(\.name).flatMap(RestartRequiredKeys.appKeys)
        where key.differs(running, configuration) {
            report(key.path, "cannot change while the gateway runs")
        }
        return ConfigDiagnostics(problems).problems
    }
}
