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
            $0.key.hasPrefix(EnvironmentNames.variablePrefix)
                || $0.key.hasPrefix(EnvironmentNames.openTelemetryPrefix)
        }
        self.overrides = overrides
    }
}

extension ConfigSources {
    /// Whether the value of a key, as it is written in a flag, is a secret.
    public static func isSecret(key: String) -> Bool {
        let path = FlagsProvider.path(key)
        return path.indices.contains { SecretFilesProvider.isSecret(Array(path[...$0])) }
    }
}

/// A configuration that passed every check.
public struct LoadedConfig: Sendable {
    /// What the gateway is built from.
    public let plan: GatewayPlan
    /// When a running gateway reads the configuration again.
    public let reload: ReloadPlan
    /// Problems that do not keep the configuration from being used, in the order of the file.
    public let warnings: [ConfigProblem]
    /// What the configuration means where it is easily misread, in the order of the file.
    public let notes: [ConfigProblem]
    /// What is in effect and where each value came from, in the order of the documentation.
    public let values: [EffectiveValue]
    /// Every key that was looked for, those that are not given too.
    package let knownKeys: Set<[String]>
    /// The files that were read for it: the configuration itself and the secrets'. Certificates are not among them.
    public let files: [String]
    /// Where its values were given.
    let places: ConfigPlaces

    /// Problems that only using the values shows, each at the place where its value was given, in the order of the file.
    public func problems(_ findings: [ConfigFinding]) -> [ConfigProblem] {
        ConfigProblems.ordered(
            findings.map { finding in
                places.problem(
                    Mistake(finding.message, finding.suggestion), key: finding.key, origin: places[finding.key],
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
/// - Throws: ``ConfigProblems`` with every mistake that could be found in one run.
public func loadConfig(_ sources: ConfigSources) throws(ConfigProblems) -> LoadedConfig {
    var syntax: [ConfigProblem] = []
    let tree: ConfigTree
    do {
        tree = try ConfigTree(file: sources.file) { syntax.append(ConfigProblem($0, in: sources.file)) }
    } catch {
        throw ConfigProblems([ConfigProblem(error, in: sources.file)])
    }
    let reading = ConfigReading(sources, tree: tree)
    syntax.forEach(reading.add)
    let plan = GatewayPlan(from: reading.root)
    let reload = ReloadPlan(from: reading.root.always("reload"))
    var unknown = UnknownKeys(reading)
    unknown.complain()
    let problems = reading.problems(meant: unknown.meant)
    guard problems.isEmpty, let plan else { throw ConfigProblems(problems) }
    return LoadedConfig(
        plan: plan, reload: reload, warnings: ConfigProblems.ordered(reading.warnings),
        notes: ConfigProblems.ordered(reading.notes), values: reading.values,
        knownKeys: reading.trace.keys, files: reading.files,
        places: reading.places)
}

extension ConfigTree {
    fileprivate init(file: String?, complain: (SyntaxMistake) -> Void) throws(SyntaxMistake) {
        guard let file else {
            self.init()
            return
        }
        let text: String?
        do {
            text = String(validating: try PathInConfig.contents(of: file), as: UTF8.self)
        } catch {
            throw SyntaxMistake(position: nil, key: nil, mistake: error)
        }
        guard let text else {
            throw SyntaxMistake(
                position: nil, key: nil, mistake: Mistake("the file is not text in UTF-8", "save it as UTF-8"))
        }
        try self.init(yaml: text, complain: complain)
    }
}

extension ConfigProblem {
    fileprivate init(_ mistake: ConfigTree.SyntaxMistake, in file: String?) {
        self.init(
            source: file ?? "configuration", position: mistake.position, key: mistake.key,
            message: mistake.mistake.message, suggestion: mistake.mistake.suggestion)
    }
}
