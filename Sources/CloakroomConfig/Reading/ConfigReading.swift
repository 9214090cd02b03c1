import CloakroomCore
import Configuration

/// One run of reading a configuration: the reader over all layers, and what is found on the way.
final class ConfigParser: Unprintable {
    let sources: ConfigSources
    let tree: YAMLTree
    /// What relative paths are relative to.
    let directory: String
    let reader: ConfigReader
    let trace = KeyAccessRecorder()

    /// The values read so far, in the order of reading.
    private(set) var values: [EffectiveValue] = []
    private(set) var problems: [ConfigDiagnostic] = []
    /// Problems that follow from keys being missing or malformed, each with these keys.
    private(set) var consequences: [(problem: ConfigDiagnostic, causes: [[String]])] = []
    /// Problems that do not keep the configuration from being used.
    private(set) var warnings: [ConfigDiagnostic] = []
    /// What a configuration means where it is easily misread; nothing is wrong there.
    private(set) var notes: [ConfigDiagnostic] = []
    /// Keys that are required and stand nowhere, and what to say of it. Whether that is worth saying depends on what was
    /// misspelled.
    private(set) var missing: [(key: [String], valueError: ConfigValueError)] = []
    /// Secrets whose value is one of the examples in the documentation; see ``PlaceholderRules``.
    private(set) var placeholders: [[String]] = []
    /// Keys whose value is broken, so that nothing below them is worth a second complaint.
    private(set) var invalidKeys: Set<[String]> = []

    let openTelemetry: OpenTelemetryProvider
    private let flags: OverrideProvider
    private let environment: KeyMappingProvider<EnvironmentVariablesProvider>
    /// Where the values read so far were given.
    private(set) var locations: ValueLocations

    /// What there is to know of each key; `nil` unless somebody asks.
    private(set) var documentation: DocumentedKeys?

    init(_ sources: ConfigSources, tree: YAMLTree, isDocumenting: Bool = false) {
        documentation = isDocumenting ? DocumentedKeys() : nil
        self.sources = sources
        self.tree = tree
        locations = ValueLocations(file: sources.file, tree: tree)
        directory = sources.file.map(ConfigRelativePath.directory) ?? ""
        flags = OverrideProvider(sources.overrides)
        environment = EnvironmentVariablesProvider(
            environmentVariables: sources.environment,
            secretsSpecifier: .dynamic { name, _ in SecretFilesProvider.isSecret(variable: name) }
        ).prefixKeys(with: ConfigKey([EnvironmentVariableNames.prefix]))
        let file = YAMLProvider(tree: tree)
        let secrets = SecretFilesProvider(
            reader: ConfigReader(providers: [flags, environment, file]), directory: directory,
            isOffline: sources.isOffline)
        openTelemetry = OpenTelemetryProvider(sources.environment)
        // In the order of `Layer`.
        reader = ConfigReader(providers: [flags, environment, secrets, file, openTelemetry], accessReporter: trace)
    }

    /// The top of the configuration.
    var root: ConfigScope { ConfigScope(reading: self, path: [], isPresent: true) }

    // MARK: - Looking values up

    /// What the layers say about one key.
    enum Found<Value> {
        case absent
        case broken
        case value(Value)
    }

    /// Looks a single value up.
    func text(_ path: [String], isSecret: Bool = false) -> Found<String> {
        let value = reader.string(forKey: ConfigKey(path), isSecret: isSecret)
        return found(value, at: path)
    }

    /// Looks a list up.
    func list(_ path: [String]) -> Found<[String]> {
        let value = reader.stringArray(forKey: ConfigKey(path))
        // An empty variable or flag is an empty list.
        let isEmpty = value == [""] && trace.last?.layer != .file
        return found(isEmpty ? [] : value, at: path)
    }

    private func found<Value>(_ value: Value?, at path: [String]) -> Found<Value> {
        guard let lookup = trace.last else { return .absent }
        switch lookup.layer {
        case .flags: locations.origins[path] = .flag
        case .environment: locations.origins[path] = .environment(variable(path))
        case .secretFiles: locations.origins[path] = .secretFile(lookup.name)
        case .file: locations.origins[path] = tree[Self.named(path)].map { .file($0.value) }
        case .openTelemetry: locations.origins[path] = openTelemetry.variable(for: path).map { .environment($0) }
        }
        if let failure = lookup.failure {
            report(failure, at: Self.named(path))
            return .broken
        }
        return value.map { .value($0) } ?? .broken
    }

    /// The key that somebody wrote: without the part that only the reader knows.
    private static func named(_ path: [String]) -> [String] {
        path.last?.hasPrefix("#") == true ? Array(path.dropLast()) : path
    }

    /// Whether a key is given in a layer, and not only in a weaker one.
    func isSet(_ path: [String], in layer: SourceLayer) -> Bool {
        switch layer {
        case .flags: flags.values[path] != nil
        case .environment: sources.environment[variable(path)] != nil
        case .secretFiles, .openTelemetry: false
        case .file: tree[path].map { $0.shape != .empty } ?? false
        }
    }

    /// Whether a key, or one below it, is given anywhere.
    func isSectionSet(_ path: [String]) -> Bool {
        if let entry = tree[path], entry.shape != .empty { return true }
        if flags.values.keys.contains(where: { $0.starts(with: path) }) { return true }
        let prefix = variable(path) + "_"
        return sources.environment.keys.contains { $0.hasPrefix(prefix) }
    }

    /// The environment variable of a key.
    func variable(_ path: [String]) -> String {
        (try? environment.value(forKey: AbsoluteConfigKey(path), type: .string).encodedKey) ?? ""
    }

    /// The files that values were read from, the configuration first.
    var files: [String] {
        let secrets = locations.origins.values.compactMap { if case .secretFile(let path) = $0 { path } else { nil } }
        return (sources.file.map { [$0] } ?? []) + Set(secrets).sorted()
    }

    /// The flags' keys.
    var flagPaths: [[String]] { sources.overrides.map { OverrideProvider.path($0.key) } }

    // MARK: - Keeping what was found

    /// Notes a value for whoever asks what is in effect.
    func note(_ path: [String], _ rendered: String) {
        values.append(
            EffectiveValue(
                key: path.joined(separator: "."), value: rendered, origin: locations.description(of: origin(path))))
    }

    /// Notes what the reading knows of a key, where a reference is to be made of it.
    func document(_ path: [String], _ change: (inout KeyDocumentation) -> Void) {
        documentation?.note(path, change)
    }

    func reportMissing(_ path: [String], _ valueError: ConfigValueError = ConfigValueError("is missing", "write it")) {
        missing.append((path, valueError))
    }

    /// All problems, without those that another one explains: a key that was written under a misspelled name or in a
    /// section whose name was misspelled is not missing too, and neither is one that is there and malformed; and what
    /// follows from such a key is not a problem of its own.
    /// - Parameter meant: The keys and sections that were written under another name.
    func problems(meant: Set<[String]>) -> [ConfigDiagnostic] {
        let missing = missing.filter { !isExplained($0.key, by: meant) && !isExplained($0.key, by: invalidKeys) }
        let absent = meant.union(invalidKeys).union(missing.map(\.key))
        return problems
            + consequences.filter { consequence in
                !consequence.causes.contains { isExplained($0, by: absent) }
            }.map(\.problem)
            + missing.map { locations.problem($0.valueError, key: $0.key, origin: .defaultValue) }
    }

    /// Whether a key is one of some keys, or in one of them.
    private func isExplained(_ key: [String], by others: Set<[String]>) -> Bool {
        var key = key
        while !key.isEmpty {
            if others.contains(key) { return true }
            if let name = key.last, others.contains(key.dropLast() + [SecretFilesProvider.fileKey(of: name)]) {
                return true
            }
            key.removeLast()
        }
        return false
    }

    /// Notes a secret whose value is an example from the documentation.
    func recordPlaceholder(_ path: [String]) {
        placeholders.append(path)
    }

    /// Where the value of a key was given.
    func origin(_ path: [String]) -> ValueSource { locations[path] }

    /// Notes a mistake in the value of a key, at the place where the value was given.
    func report(_ valueError: ConfigValueError, at path: [String]) {
        invalidKeys.insert(path)
        add(valueError, key: path, origin: locations[path])
    }

    /// Notes a problem that does not keep the configuration from being used, at the place of a key's value.
    func warn(_ valueError: ConfigValueError, at path: [String]) {
        warnings.append(locations.problem(valueError, key: path, origin: locations[path], severity: .warning))
    }

    /// The same at an item of a list in the file.
    func warn(_ valueError: ConfigValueError, item: Int, of path: [String]) {
        let key = path + [String(item)]
        let origin = tree[key].map { ValueSource.file($0.value) } ?? locations[path]
        warnings.append(locations.problem(valueError, key: key, origin: origin, severity: .warning))
    }

    /// Adds an explanation of a key's value, at the place where the value was given.
    func inform(_ valueError: ConfigValueError, at path: [String]) {
        notes.append(locations.problem(valueError, key: path, origin: locations[path], severity: .note))
    }

    /// Notes a mistake that follows from what other keys say, and is none if one of them turns out to be misspelled,
    /// malformed or missing.
    func report(
        _ valueError: ConfigValueError, at path: [String], origin: ValueSource? = nil, becauseOf causes: [[String]]
    ) {
        consequences.append((locations.problem(valueError, key: path, origin: origin ?? locations[path]), causes))
    }

    /// Notes that a key's value is broken where the mistake is told at one of its items.
    func noteBroken(_ path: [String]) {
        invalidKeys.insert(path)
    }

    /// Notes a mistake at a place that no value was read from.
    func add(_ valueError: ConfigValueError, key path: [String], origin: ValueSource) {
        problems.append(locations.problem(valueError, key: path, origin: origin))
    }

    func add(_ problem: ConfigDiagnostic) {
        problems.append(problem)
    }
}
