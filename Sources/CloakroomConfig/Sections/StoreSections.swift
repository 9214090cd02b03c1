import CloakroomCore
import FoundationEssentials

extension SQLiteConfiguration {
    /// `session.sqlite`. `path` is required if the store is selected.
    /// - Parameter isUsed: Whether this store is selected; only then must the folder exist.
    mutating func read(from scope: ConfigScope, isUsed: Bool) {
        let isChecked = isUsed && !scope.reading.sources.isOffline
        path = scope.optional("path", as: Self.file(in: scope.reading.directory, isChecked: isChecked)) ?? ""
        if isChecked, scope.isSet("path"), !scope.isInvalid("path") {
            let folder = ConfigRelativePath.directory(of: path)
            scope.warnIfWritableByOthers(folder.isEmpty ? "." : folder, at: "path")
        }
        if isUsed, !scope.isSet("path") {
            scope.reading.reportMissing(
                scope.path + ["path"],
                ConfigValueError("required key missing: the store sqlite keeps sessions in a file", "write its path"))
        }
    }

    private static func file(in directory: String, isChecked: Bool) -> ValueFormat<String> {
        ValueFormat(
            "path of a file",
            parse: { text throws(ConfigValueError) in
                _ = try ValueFormat<String>.text.parse(text)
                guard !text.hasPrefix(":"), !text.lowercased().hasPrefix("file:"), !text.hasSuffix("/") else {
                    throw ConfigValueError(
                        "must be the path of a file, not \(DiagnosticText.quoted(text))",
                        "write one such as sessions.sqlite"
                    )
                }
                let path = ConfigRelativePath.resolve(text, in: directory)
                guard isChecked else { return path }
                let parent = ConfigRelativePath.directory(of: path)
                var isDirectory = false
                let files = FileManager.default
                guard parent.isEmpty || files.fileExists(atPath: parent, isDirectory: &isDirectory) && isDirectory
                else {
                    throw ConfigValueError(
                        "must be in an existing folder: \(DiagnosticText.quoted(parent))",
                        "create it, or correct the path")
                }
                if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory {
                    throw ConfigValueError(
                        "must be a file, not a folder: \(DiagnosticText.quoted(path))", "name a file in it")
                }
                return path
            }, render: { $0 })
    }
}

extension ValkeyConfiguration: ConfigSection {
    /// `session.valkey`. `addresses` has 1 to 16 servers, and is required if the store is selected.
    static let keys: [Key<Self>] = [
        Key("addresses", \.addresses, .restart) {
            $1.addresses = $0.nonEmptyList("addresses", as: .serverAddress) ?? []
        },
        Key("tls", \.tls, .restart) { scope, valkey in
            let tls = scope.section("tls")
            let isEnabled = tls.value("enabled", as: .flag, default: true)
            let configuration = UpstreamTLSConfiguration(from: tls, targets: nil)
            valkey.tls = isEnabled ? configuration : nil
        },
        Key("topology", \.topology, .choice(), .restart),
        Key(optional: "sentinelPrimary", \.sentinelPrimary, .name, .restart),
        Key(optional: "user", \.user, .text, .restart),
        Key(secret: "password", \.password, .password, .restart),
        Key(secret: "sentinelPassword", \.sentinelPassword, .password, .restart),
        Key("prefix", \.prefix, .keyPrefix, .restart),
        Key("timeout", \.timeout, .duration(.milliseconds(10) ... .seconds(60)), .restart),
        Key("replicas", \.replicas, .integer(0...5), .restart),
    ]

    /// Reports missing addresses.
    static func reportIfMissing(_ scope: ConfigScope) {
        guard !scope.isSet("addresses") else { return }
        scope.reading.reportMissing(
            scope.path + ["addresses"],
            ConfigValueError(
                "required key missing: the store valkey connects to a server",
                "write a list such as [127.0.0.1:6379]"))
    }

    func check(_ scope: ConfigScope) {
        checkAddresses(scope)
        checkTopology(scope)
        if sentinelPrimary == nil, !scope.isInvalid("sentinelPrimary") {
            for name in ["sentinelPassword", "sentinelPasswordFile"] where scope.isSetExplicitly(name) {
                scope.report(
                    ConfigValueError("not supported without sentinelPrimary", "set sentinelPrimary, or leave it out"),
                    at: name,
                    becauseOf: [scope.path + ["sentinelPrimary"]])
            }
        }
    }

    private func checkAddresses(_ scope: ConfigScope) {
        if addresses.count > 16 {
            scope.report(
                ConfigValueError("must be at most 16 addresses, not \(addresses.count)", "keep 16 or fewer"),
                at: "addresses")
        } else if scope.reportRepetition(in: addresses, at: "addresses") {
            return
        } else if addresses.count > 1, topology == .auto || topology == .single, sentinelPrimary == nil,
            !scope.isInvalid("sentinelPrimary"), !scope.isInvalid("topology")
        {
            scope.report(
                ConfigValueError(
                    "must be one server unless sentinelPrimary is set or topology is cluster",
                    "keep one; for sentinels, write the primary's name in sentinelPrimary; for a cluster, write"
                        + " topology: cluster"),
                at: "addresses", becauseOf: [scope.path + ["sentinelPrimary"], scope.path + ["topology"]])
        }
    }

    private func checkTopology(_ scope: ConfigScope) {
        guard !scope.isInvalid("topology"), !scope.isInvalid("sentinelPrimary") else { return }
        if sentinelPrimary != nil, topology == .single || topology == .cluster {
            scope.report(
                ConfigValueError(
                    "not supported with topology \(topology.rawValue)", "write topology: sentinel, or leave it out"),
                at: "sentinelPrimary", becauseOf: [scope.path + ["topology"]])
        } else if sentinelPrimary == nil, topology == .sentinel {
            scope.report(
                ConfigValueError(
                    "requires sentinelPrimary", "write the primary's name at the sentinels in sentinelPrimary"),
                at: "topology", becauseOf: [scope.path + ["sentinelPrimary"]])
        }
    }
}

extension ValueFormat where Value == HostAndPort {
    /// An address to connect to: `127.0.0.1:6379`, `[::1]:6379`, `valkey.internal:6379`.
    fileprivate static let serverAddress = ValueFormat("host and port") { text throws(ConfigValueError) in
        let example = "write host:port such as 127.0.0.1:6379"
        // Text that may contain a password is not printed.
        guard !text.contains("@") else {
            throw ConfigValueError("must be an address without user and password", example)
        }
        guard !text.contains("://") else {
            throw ConfigValueError("must be an address without a scheme", "\(example); enable TLS in tls")
        }
        guard let address = HostAndPort(text), !address.host.isEmpty, HostAndPort.isHost(address.host),
            address.port > 0
        else {
            throw ConfigValueError(
                "must be host:port, not \(DiagnosticText.quoted(text.prefix { !"/?#".contains($0) }))", example)
        }
        return address
    }
}

extension ValueFormat where Value == String {
    /// The prefix of all keys in a shared server.
    fileprivate static let keyPrefix = ValueFormat(
        "letters, digits, colons, hyphens and underscores, at most 64",
        parse: { text throws(ConfigValueError) in
            guard (1...64).contains(text.utf8.count),
                text.utf8.allSatisfy({ $0.isLetterOrDigit || ":-_".utf8.contains($0) })
            else {
                throw ConfigValueError(
                    "must be a prefix, not \(DiagnosticText.quoted(text))",
                    "write at most 64 letters, digits, colons, hyphens and underscores")
            }
            return text
        }, render: { $0 })
}
