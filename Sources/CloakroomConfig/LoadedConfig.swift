public import CloakroomCore

/// The sources of a configuration, weakest first: OpenTelemetry variables, file, environment, flags.
///
/// Module `CloakroomConfig`: turns flags, variables and the file into a ``GatewayConfiguration``, or into diagnostics
/// with a line and a suggestion.
public struct ConfigSources: Sendable, Unprintable {
    /// The YAML file; `nil` for none.
    public var file: String?
    /// The YAML text, if it was read from standard input; ``file`` is then `nil`. Relative paths start at the working
    /// directory. A reload parses the same text again.
    public var standardInput: [UInt8]?
    /// The environment; only variables that begin with `CLOAKROOM_` or `OTEL_` are kept.
    public var environment: [String: String]
    /// Flags: dotted keys and their values; lists are separated by commas.
    public var overrides: [(key: String, value: String)]
    /// Whether files named by the configuration are not read, for a check on a machine that does not have them. Such a
    /// configuration can be checked but not served.
    public var isOffline = false

    package init(file: String?, environment: [String: String] = [:], overrides: [(key: String, value: String)] = []) {
        self.file = file
        self.environment = environment.filter {
            $0.key.hasPrefix(EnvironmentVariableNames.variablePrefix)
                || $0.key.hasPrefix(EnvironmentVariableNames.openTelemetryPrefix)
        }
        self.overrides = overrides
    }
}

extension ConfigSources {
    /// The name of the configuration in diagnostics: the file as given by the caller, or `standard input`.
    public var name: String { file ?? (standardInput == nil ? "configuration" : "standard input") }

    /// Whether a variable of the gateway is set. If not, no key needs the name of its variable: to make the names of all
    /// keys of 40 routes takes 72 % of the instructions of `check-config`.
    var hasVariables: Bool { environment.keys.contains { $0.hasPrefix(EnvironmentVariableNames.variablePrefix) } }

    /// Whether the value of a key, in the notation of flags, is a secret.
    public static func isSecret(key: String) -> Bool {
        let path = OverrideProvider.path(key)
        return path.indices.contains { SecretFilesProvider.isSecret(Array(path[...$0])) }
    }
}

/// A configuration that passed every check.
public struct LoadedConfig: Sendable {
    /// The configuration of the gateway.
    public let configuration: GatewayConfiguration
    /// When a running gateway reloads the configuration.
    public let reload: ReloadConfiguration
    /// What `prove` decides; the gateway ignores it.
    let statements: [Statement]
    /// Problems that do not reject the configuration, in file order.
    public let warnings: [ConfigDiagnostic]
    /// Explanations of settings that are easily misread, in file order.
    public let notes: [ConfigDiagnostic]
    /// The effective values with their sources, in the order of the documentation.
    public let values: [EffectiveValue]
    /// Every known key, set or not.
    package let knownKeys: Set<[String]>
    /// The files that were read: the configuration and secret files, without certificates.
    public let files: [String]
    let locations: ValueLocations

    /// Problems found when the values are used, each at the location of its value, in file order.
    public func problems(_ findings: [ConfigFinding]) -> [ConfigDiagnostic] {
        ConfigDiagnostics.ordered(
            findings.map { finding in
                locations.problem(
                    ConfigValueError(finding.message, finding.suggestion), key: finding.key,
                    origin: locations[finding.key],
                    severity: finding.isNote ? .note : finding.isWarning ? .warning : .error)
            })
    }
}

/// An effective value.
public struct EffectiveValue: Sendable, Equatable, Encodable {
    /// The dotted key.
    public let key: String
    /// The value in its shortest form; `<redacted>` for a secret.
    public let value: String
    /// `file:line:column`, `environment NAME`, `--set`, `secret file PATH` or `default`.
    public let origin: String
}

/// Reads and validates a configuration.
/// - Throws: ``ConfigDiagnostics`` with all errors that one run can find.
public func loadConfig(_ sources: ConfigSources) throws(ConfigDiagnostics) -> LoadedConfig {
    var syntax: [ConfigDiagnostic] = []
    let tree: YAMLTree
    do {
        tree = try YAMLTree(sources) { syntax.append(ConfigDiagnostic($0, in: sources.name)) }
    } catch {
        throw ConfigDiagnostics([ConfigDiagnostic(error, in: sources.name)])
    }
    let reading = ConfigParser(sources, tree: tree)
    syntax.forEach(reading.add)
    let configuration = GatewayConfiguration(from: reading.root)
    var reload = ReloadConfiguration()
    reload.read(from: reading.root.sectionWithDefaults("reload"))
    let statements = Statement.all(reading.root, configuration)
    var unknown = UnknownKeys(reading)
    unknown.report()
    let problems = reading.problems(meant: unknown.likelyIntendedKeys)
    var warnings = reading.warnings
    if let file = sources.file, !sources.isOffline, FileAccess.isWritableByOthers(file) {
        let warning = ConfigValueError.writableByOthers(file)
        warnings.append(
            ConfigDiagnostic(
                source: file, message: warning.message, suggestion: warning.suggestion, severity: .warning))
    }
    guard problems.isEmpty, let configuration else {
        let misspelled = Set(unknown.likelyIntendedKeys.map { $0.joined(separator: ".") })
        throw ConfigDiagnostics(problems, warnings: warnings.filter { !misspelled.contains($0.key ?? "") })
    }
    return LoadedConfig(
        configuration: configuration, reload: reload, statements: statements,
        warnings: ConfigDiagnostics.ordered(warnings),
        notes: ConfigDiagnostics.ordered(reading.notes), values: reading.values,
        knownKeys: reading.trace.keys, files: reading.files,
        locations: reading.locations)
}

extension YAMLTree {
    fileprivate init(_ sources: ConfigSources, report: (YAMLSyntaxError) -> Void) throws(YAMLSyntaxError) {
        var bytes: [UInt8]
        if let standardInput = sources.standardInput {
            bytes = standardInput
        } else if let file = sources.file {
            do {
                bytes = try ConfigRelativePath.contents(of: file)
            } catch {
                throw YAMLSyntaxError(error.message, error.suggestion, at: nil)
            }
        } else {
            self.init()
            return
        }
        // A byte order mark would move the keys of the first line by a column.
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw YAMLSyntaxError("the file must be in UTF-8", "save it as UTF-8", at: nil)
        }
        try self.init(yaml: text, report: report)
    }
}

extension ConfigDiagnostic {
    fileprivate init(_ valueError: YAMLTree.YAMLSyntaxError, in source: String) {
        self.init(
            source: source, position: valueError.position, key: valueError.key,
            message: valueError.valueError.message, suggestion: valueError.valueError.suggestion)
    }
}
