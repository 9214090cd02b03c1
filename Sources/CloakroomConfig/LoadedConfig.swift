public import CloakroomCore

/// Where a configuration comes from, the weakest first: OpenTelemetry's variables, file, environment, flags.
public struct ConfigSources: Sendable, Unprintable {
    /// The YAML file; `nil` for none.
    public var file: String?
    /// The environment; only variables that begin with `CLOAKROOM_` or `OTEL_` are looked at.
    public var environment: [String: String]
    /// Flags: keys with dots, and their values; lists are separated by commas.
    public var overrides: [(key: String, value: String)]
    /// Whether files that the configuration names are left unread, for a check on a machine that does not have them. What
    /// is loaded that way can be checked, but not served.
    public var isOffline = false

    /// Names the sources.
    public init(file: String?, environment: [String: String] = [:], overrides: [(key: String, value: String)] = []) {
        self.file = file
        self.environment = environment.filter {
            $0.key.hasPrefix(EnvironmentVariableNames.variablePrefix)
                || $0.key.hasPrefix(EnvironmentVariableNames.openTelemetryPrefix)
        }
        self.overrides = overrides
    }
}

extension ConfigSources {
    /// Whether the value of a key, as it is written in a flag, is a secret.
    public static func isSecret(key: String) -> Bool {
        let path = OverrideProvider.path(key)
        return path.indices.contains { SecretFilesProvider.isSecret(Array(path[...$0])) }
    }
}

/// A configuration that passed every check.
public struct LoadedConfig: Sendable {
    /// What the gateway is built from.
    public let configuration: GatewayConfiguration
    /// When a running gateway reads the configuration again.
    public let reload: ReloadConfiguration
    /// Problems that do not keep the configuration from being used, in the order of the file.
    public let warnings: [ConfigDiagnostic]
    /// What the configuration means where it is easily misread, in the order of the file.
    public let notes: [ConfigDiagnostic]
    /// What is in effect and where each value came from, in the order of the documentation.
    public let values: [EffectiveValue]
    /// Every key that was looked for, those that are not given too.
    package let knownKeys: Set<[String]>
    /// The files that were read for it: the configuration itself and the secrets'. Certificates are not among them.
    public let files: [String]
    /// Where its values were given.
    let locations: ValueLocations

    /// Problems that only using the values shows, each at the place where its value was given, in the order of the file.
    public func problems(_ findings: [ConfigFinding]) -> [ConfigDiagnostic] {
        ConfigDiagnostics.ordered(
            findings.map { finding in
                locations.problem(
                    ConfigValueError(finding.message, finding.suggestion), key: finding.key,
                    origin: locations[finding.key],
                    severity: finding.isWarning ? .warning : .error)
            })
    }
}

/// A value in effect.
public struct EffectiveValue: Sendable, Equatable {
    /// The key, with dots.
    public let key: String
    /// The value in its shortest form; `<redacted>` for a secret.
    public let value: String
    /// `file:line:column`, `environment NAME`, `--set`, `secret file PATH` or `default`.
    public let origin: String
}

/// Reads and checks a configuration.
/// - Throws: ``ConfigDiagnostics`` with every mistake that could be found in one run.
public func loadConfig(_ sources: ConfigSources) throws(ConfigDiagnostics) -> LoadedConfig {
    var syntax: [ConfigDiagnostic] = []
    let tree: YAMLTree
    do {
        tree = try YAMLTree(file: sources.file) { syntax.append(ConfigDiagnostic($0, in: sources.file)) }
    } catch {
        throw ConfigDiagnostics([ConfigDiagnostic(error, in: sources.file)])
    }
    let reading = ConfigParser(sources, tree: tree)
    syntax.forEach(reading.add)
    let configuration = GatewayConfiguration(from: reading.root)
    let reload = ReloadConfiguration(from: reading.root.sectionWithDefaults("reload"))
    var unknown = UnknownKeys(reading)
    unknown.report()
    let problems = reading.problems(meant: unknown.likelyIntendedKeys)
    guard problems.isEmpty, let configuration else { throw ConfigDiagnostics(problems) }
    return LoadedConfig(
        configuration: configuration, reload: reload, warnings: ConfigDiagnostics.ordered(reading.warnings),
        notes: ConfigDiagnostics.ordered(reading.notes), values: reading.values,
        knownKeys: reading.trace.keys, files: reading.files,
        locations: reading.locations)
}

extension YAMLTree {
    fileprivate init(file: String?, complain: (YAMLSyntaxError) -> Void) throws(YAMLSyntaxError) {
        guard let file else {
            self.init()
            return
        }
        let text: String?
        do {
            text = String(validating: try ConfigRelativePath.contents(of: file), as: UTF8.self)
        } catch {
            throw YAMLSyntaxError(position: nil, key: nil, valueError: error)
        }
        guard let text else {
            throw YAMLSyntaxError(
                position: nil, key: nil,
                valueError: ConfigValueError("the file is not text in UTF-8", "save it as UTF-8"))
        }
        try self.init(yaml: text, complain: complain)
    }
}

extension ConfigDiagnostic {
    fileprivate init(_ valueError: YAMLTree.YAMLSyntaxError, in file: String?) {
        self.init(
            source: file ?? "configuration", position: valueError.position, key: valueError.key,
            message: valueError.valueError.message, suggestion: valueError.valueError.suggestion)
    }
}
