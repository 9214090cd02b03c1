import CloakroomCore
import FoundationEssentials

extension SQLiteConfiguration {
    /// `session.sqlite`.
    ///
    /// - `path`: a file; relative paths start in the folder of the configuration. Required where it is used.
    /// - Parameter isUsed: Whether it is the store that was chosen: only then has the folder to be there.
    init(from scope: ConfigScope, isUsed: Bool) {
        let isChecked = isUsed && !scope.reading.sources.isOffline
        self.init(path: scope.optional("path", as: Self.file(in: scope.reading.directory, isChecked: isChecked)) ?? "")
        if isUsed, !scope.isSet("path") {
            scope.reading.reportMissing(
                scope.path + ["path"],
                ConfigValueError("is missing: the store sqlite keeps sessions in a file", "write its path"))
        }
    }

    private static func file(in directory: String, isChecked: Bool) -> ValueFormat<String> {
        ValueFormat(
            "path of a file",
            parse: { text throws(ConfigValueError) in
                _ = try ValueFormat<String>.text.parse(text)
                guard !text.hasPrefix(":"), !text.lowercased().hasPrefix("file:"), !text.hasSuffix("/") else {
                    throw ConfigValueError(
                        "\(DiagnosticText.quoted(text)) is not the path of a file", "write one such as sessions.sqlite")
                }
                let path = ConfigRelativePath.resolve(text, in: directory)
                guard isChecked else { return path }
                let parent = ConfigRelativePath.directory(of: path)
                var isDirectory = false
                let files = FileManager.default
                guard parent.isEmpty || files.fileExists(atPath: parent, isDirectory: &isDirectory) && isDirectory
                else {
                    throw ConfigValueError(
                        "there is no folder \(DiagnosticText.quoted(parent))", "create it, or correct the path")
                }
                if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory {
                    throw ConfigValueError("\(DiagnosticText.quoted(path)) is a folder", "name a file in it")
                }
                return path
            }, render: { $0 })
    }
}

extension ValkeyConfiguration {
    /// `session.valkey`.
    ///
    /// - `addresses`: a list of host:port, 1 to 16: one server, or the sentinels. Required where it is used.
    /// - `sentinelPrimary`: the primary's name among the sentinels; default none.
    /// - `user`: the ACL user; default none, which is the default user.
    /// - `password` or `passwordFile`; default none.
    /// - `sentinelPassword` or `sentinelPasswordFile`; default none.
    /// - `tls`: ``UpstreamTLSConfiguration``, and `enabled`: whether TLS is spoken; default `true` if the section is there.
    /// - `prefix`: letters, digits, `:`, `-` and `_`; default `cloakroom`.
    /// - `timeout`: 10ms to 1m; default 500ms.
    /// - Parameter isUsed: Whether it is the store that was chosen.
    init(from scope: ConfigScope, isUsed: Bool) {
        let defaults = ValkeyConfiguration()
        let addresses = scope.list("addresses", as: .serverAddress)
        let tls = scope.section("tls")
        let isTLSEnabled = tls.value("enabled", as: .flag, default: true)
        let upstreamTLS = UpstreamTLSConfiguration(from: tls, targets: nil)
        self.init(
            addresses: addresses ?? [],
            sentinelPrimary: scope.optional("sentinelPrimary", as: .name),
            user: scope.optional("user", as: .text),
            password: scope.secret("password", as: .password, isRequired: false),
            sentinelPassword: scope.secret("sentinelPassword", as: .password, isRequired: false),
            tls: isTLSEnabled ? upstreamTLS : nil,
            prefix: scope.value("prefix", as: .keyPrefix, default: defaults.prefix),
            timeout: scope.value(
                "timeout", as: .duration(.milliseconds(10) ... .seconds(60)), default: defaults.timeout))
        checkAddresses(addresses, scope)
        if isUsed, !scope.isSet("addresses") {
            scope.reading.reportMissing(
                scope.path + ["addresses"],
                ConfigValueError("is missing: the store valkey is a server", "write a list such as [127.0.0.1:6379]"))
        }
        if sentinelPrimary == nil, !scope.isInvalid("sentinelPrimary") {
            for name in ["sentinelPassword", "sentinelPasswordFile"] where scope.isSetExplicitly(name) {
                scope.report(
                    ConfigValueError("there are no sentinels", "set sentinelPrimary, or leave it out"), at: name,
                    becauseOf: [scope.path + ["sentinelPrimary"]])
            }
        }
    }

    private func checkAddresses(_ addresses: [HostAndPort]?, _ scope: ConfigScope) {
        guard let addresses else { return }
        if addresses.isEmpty {
            scope.report(ConfigValueError("is empty", "write at least one"), at: "addresses")
        } else if addresses.count > 16 {
            scope.report(ConfigValueError("holds \(addresses.count) addresses", "keep 16 or fewer"), at: "addresses")
        } else if Set(addresses).count < addresses.count {
            scope.report(ConfigValueError("names an address twice", "keep one of them"), at: "addresses")
        } else if addresses.count > 1, sentinelPrimary == nil, !scope.isInvalid("sentinelPrimary") {
            scope.report(
                ConfigValueError(
                    "names several servers",
                    "keep one; where they are sentinels, write the primary's name in sentinelPrimary"),
                at: "addresses", becauseOf: [scope.path + ["sentinelPrimary"]])
        }
    }
}

extension ValueFormat where Value == HostAndPort {
    /// An address to connect to: `127.0.0.1:6379`, `[::1]:6379`, `valkey.internal:6379`.
    fileprivate static let serverAddress = ValueFormat("host and port") { text throws(ConfigValueError) in
        let example = "write host:port such as 127.0.0.1:6379"
        // Whatever goes on like an address with a password in it is not repeated.
        guard !text.contains("@") else { throw ConfigValueError("an address takes no user and no password", example) }
        guard !text.contains("://") else {
            throw ConfigValueError("has a scheme", "\(example); TLS is switched on in tls")
        }
        guard let address = HostAndPort(text), !address.host.isEmpty, HostAndPort.isHost(address.host),
            address.port > 0
        else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(text.prefix { !"/?#".contains($0) })) is not host:port", example)
        }
        return address
    }
}

extension ValueFormat where Value == String {
    /// What keys in a shared server begin with.
    fileprivate static let keyPrefix = ValueFormat(
        "letters, digits, colons, hyphens and underscores, at most 64",
        parse: { text throws(ConfigValueError) in
            guard (1...64).contains(text.utf8.count),
                text.utf8.allSatisfy({ $0.isLetterOrDigit || ":-_".utf8.contains($0) })
            else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(text)) is not a prefix",
                    "write at most 64 letters, digits, colons, hyphens and underscores")
            }
            return text
        }, render: { $0 })
}
