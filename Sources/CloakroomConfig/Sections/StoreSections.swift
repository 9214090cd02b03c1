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
            scope.reportMissing("path", "the store sqlite keeps sessions in a file", "write its path")
        }
    }

    private static func file(in directory: String, isChecked: Bool) -> ValueFormat<String> {
        ValueFormat("path of a file") { text throws(ConfigValueError) in
            _ = try ValueFormat<String>.text.parse(text)
            try require(
                !text.hasPrefix(":") && !text.lowercased().hasPrefix("file:") && !text.hasSuffix("/"),
                "must be the path of a file, not \(text.quoted)", "write one such as sessions.sqlite")
            let path = ConfigRelativePath.resolve(text, in: directory)
            guard isChecked else { return path }
            let parent = ConfigRelativePath.directory(of: path)
            var isDirectory = false
            let files = FileManager.default
            try require(
                parent.isEmpty || files.fileExists(atPath: parent, isDirectory: &isDirectory) && isDirectory,
                "must be in an existing folder: \(parent.quoted)", "create it, or correct the path")
            if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory {
                throw ConfigValueError("must be a file, not a folder: \(path.quoted)", "name a file in it")
            }
            return path
        }
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
        scope.reportMissing(
            "addresses", "the store valkey connects to a server", "write a list such as [127.0.0.1:6379]")
    }

    func check(_ scope: ConfigScope) {
        checkAddresses(scope)
        checkTopology(scope)
        if sentinelPrimary == nil, !scope.isInvalid("sentinelPrimary") {
            for name in ["sentinelPassword", "sentinelPasswordFile"] where scope.isSetExplicitly(name) {
                scope.report(
                    "not supported without sentinelPrimary", "set sentinelPrimary, or leave it out", at: name,
                    becauseOf: [scope.path + ["sentinelPrimary"]])
            }
        }
    }

    private func checkAddresses(_ scope: ConfigScope) {
        if addresses.count > 16 {
            scope.report("must be at most 16 addresses, not \(addresses.count)", "keep 16 or fewer", at: "addresses")
        } else if scope.reportRepetition(in: addresses, at: "addresses") {
            return
        } else if addresses.count > 1, topology == .auto || topology == .single, sentinelPrimary == nil,
            !scope.isInvalid("sentinelPrimary"), !scope.isInvalid("topology")
        {
            scope.report(
                "must be one server unless sentinelPrimary is set or topology is cluster",
                "keep one; for sentinels, write the primary's name in sentinelPrimary; for a cluster, write"
                    + " topology: cluster", at: "addresses",
                becauseOf: [scope.path + ["sentinelPrimary"], scope.path + ["topology"]])
        }
    }

    private func checkTopology(_ scope: ConfigScope) {
        guard !scope.isInvalid("topology"), !scope.isInvalid("sentinelPrimary") else { return }
        if sentinelPrimary != nil, topology == .single || topology == .cluster {
            scope.report(
                "not supported with topology \(topology.rawValue)", "write topology: sentinel, or leave it out",
                at: "sentinelPrimary", becauseOf: [scope.path + ["topology"]])
        } else if sentinelPrimary == nil, topology == .sentinel {
            scope.report(
                "requires sentinelPrimary", "write the primary's name at the sentinels in sentinelPrimary",
                at: "topology", becauseOf: [scope.path + ["sentinelPrimary"]])
        }
    }
}

extension ValueFormat where Value == HostAndPort {
    /// An address to connect to: `127.0.0.1:6379`, `[::1]:6379`, `valkey.internal:6379`.
    fileprivate static let serverAddress = ValueFormat("host and port") { text throws(ConfigValueError) in
        let example = "write host:port such as 127.0.0.1:6379"
        // Text that may contain a password is not printed.
        try require(!text.contains("@"), "must be an address without user and password", example)
        try require(!text.contains("://"), "must be an address without a scheme", "\(example); enable TLS in tls")
        // Without a usual port there has to be one.
        guard let address = HostAndPort(connecting: text, usualPort: 0) else {
            throw ConfigValueError("must be host:port, not \(text.prefix { !"/?#".contains($0) }.quoted)", example)
        }
        return address
    }
}

extension ValueFormat where Value == String {
    /// The prefix of all keys in a shared server.
    fileprivate static let keyPrefix = text(
        "letters, digits, colons, hyphens and underscores, at most 64", mustBe: "a prefix",
        "write at most 64 letters, digits, colons, hyphens and underscores"
    ) { (1...64).contains($0.utf8.count) && $0.consists(ofLettersDigitsOr: ":-_") }
}
