import CloakroomCore
import Configuration
import Synchronization

/// One run of parsing a configuration: the reader over all layers, and the collected results.
///
/// Folder `Parsing/`: looks keys up in all sources and collects values, diagnostics, unknown keys and the documentation
/// of keys.
final class ConfigParser: Unprintable {
    let sources: ConfigSources
    let tree: YAMLTree
    /// The base of relative paths.
    let directory: String
    let reader: ConfigReader
    let trace = KeyAccessRecorder()

    /// The values parsed so far, in this order.
    private(set) var values: [EffectiveValue] = []
    private(set) var problems: [ConfigDiagnostic] = []
    /// Problems that depend on other keys; each is dropped if one of these keys is missing or malformed.
    private(set) var consequences: [(problem: ConfigDiagnostic, causes: [[String]])] = []
    /// Problems that do not reject the configuration.
    private(set) var warnings: [ConfigDiagnostic] = []
    /// Explanations of settings that are valid but easily misread.
    private(set) var notes: [ConfigDiagnostic] = []
    /// Missing required keys and their errors. Whether they are reported depends on the misspelled keys.
    private(set) var missing: [(key: [String], valueError: ConfigValueError)] = []
    /// Secrets with a value from the documentation's examples; see ``PlaceholderRules``.
    private(set) var placeholders: [[String]] = []
    /// Keys with an invalid value; keys below them are not reported.
    private(set) var invalidKeys: Set<[String]> = []

    let openTelemetry: OpenTelemetryProvider
    private let flags: OverrideProvider
    /// The locations of the values parsed so far.
    private(set) var locations: ValueLocations

    /// The documentation of each key; `nil` unless requested.
    private(set) var documentation: DocumentedKeys?

    init(_ sources: ConfigSources, tree: YAMLTree, isDocumenting: Bool = false) {
        documentation = isDocumenting ? DocumentedKeys() : nil
        let sources = MixedLists.expanding(sources)
        let tree = MixedLists.expanding(tree, sources: sources)
        self.sources = sources
        self.tree = tree
        locations = ValueLocations(name: sources.name, tree: tree)
        directory = sources.file.map(ConfigRelativePath.directory) ?? ""
        flags = OverrideProvider(sources.overrides)
        // Without variables a provider in the same place that has no values: it makes no names.
        let environment: any ConfigProvider =
            sources.hasVariables
            ? EnvironmentVariablesProvider(
                environmentVariables: sources.environment,
                secretsSpecifier: .dynamic { name, _ in SecretFilesProvider.isSecret(variable: name) }
            ).prefixKeys(with: ConfigKey([EnvironmentVariableNames.prefix]))
            : OverrideProvider([])
        let file = YAMLProvider(tree: tree)
        let secrets = SecretFilesProvider(
            reader: ConfigReader(providers: [flags, environment, file]), directory: directory,
            isOffline: sources.isOffline)
        openTelemetry = OpenTelemetryProvider(sources.environment)
        // In the order of `Layer`.
        reader = ConfigReader(providers: [flags, environment, secrets, file, openTelemetry], accessReporter: trace)
    }

    /// The top-level section.
    var root: ConfigScope { ConfigScope(reading: self, path: [], isPresent: true) }

    // MARK: - Lookup

    /// The value of one key from all layers.
    enum Found<Value> {
        case absent
        case broken
        case value(Value)
    }

    /// Looks up a single value.
    func text(_ path: [String], isSecret: Bool = false) -> Found<String> {
        let value = reader.string(forKey: ConfigKey(path), isSecret: isSecret)
        return found(value, at: path)
    }

    /// Looks up a list.
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
        case .environment:
            locations.origins[path] = .environment(variable(path))
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

    /// The key as configured, without synthetic components such as `#count`.
    private static func named(_ path: [String]) -> [String] {
        path.last?.hasPrefix("#") == true ? Array(path.dropLast()) : path
    }

    /// Whether a key is set in this layer itself rather than in a weaker one.
    func isSet(_ path: [String], in layer: SourceLayer) -> Bool {
        switch layer {
        case .flags: flags.values[path] != nil
        case .environment: sources.hasVariables && sources.environment[variable(path)] != nil
        case .secretFiles, .openTelemetry: false
        case .file: tree[path].map { $0.shape != .empty } ?? false
        }
    }

    /// Whether a key, or one below it, is set in any layer.
    func isSectionSet(_ path: [String]) -> Bool {
        if let entry = tree[path], entry.shape != .empty { return true }
        if flags.values.keys.contains(where: { $0.starts(with: path) }) { return true }
        guard sources.hasVariables else { return false }
        let prefix = variable(path) + "_"
        return sources.environment.keys.contains { $0.hasPrefix(prefix) }
    }

    /// The environment variable of a key.
    func variable(_ path: [String]) -> String { EnvironmentVariableNames.variable(path) }

    /// The files that were read, the configuration first.
    var files: [String] {
        let secrets = locations.origins.values.compactMap { if case .secretFile(let path) = $0 { path } else { nil } }
        return (sources.file.map { [$0] } ?? []) + Set(secrets).sorted()
    }

    /// The keys set by flags.
    var flagPaths: [[String]] { sources.overrides.map { OverrideProvider.path($0.key) } }

    // MARK: - Collecting results

    /// Records an effective value for `print-config`.
    func note(_ path: [String], _ rendered: String) {
        values.append(
            EffectiveValue(
                key: path.joined(separator: "."), value: rendered, origin: locations.description(of: origin(path))))
    }

    /// Records documentation of a key if a reference is being generated.
    func document(_ path: [String], _ change: (inout KeyDocumentation) -> Void) {
        documentation?.note(path, change)
    }

    func reportMissing(
        _ path: [String], _ valueError: ConfigValueError = ConfigValueError("required key missing", "write it")
    ) {
        missing.append((path, valueError))
    }

    /// All problems except consequences of other problems: keys that are missing because they, or their section, are
    /// misspelled or malformed, and problems that depend on such keys.
    /// - Parameter meant: The likely intended keys and sections of misspelled ones.
    func problems(meant: Set<[String]>) -> [ConfigDiagnostic] {
        let missing = missing.filter { !isExplained($0.key, by: meant) && !isExplained($0.key, by: invalidKeys) }
        let absent = meant.union(invalidKeys).union(missing.map(\.key))
        return problems
            + consequences.filter { consequence in
                !consequence.causes.contains { isExplained($0, by: absent) }
            }.map(\.problem)
            + missing.map { locations.problem($0.valueError, key: $0.key, origin: .defaultValue) }
    }

    /// Whether a key is one of these keys or below one of them.
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

    /// Records a secret that equals an example of the documentation.
    func recordPlaceholder(_ path: [String]) {
        placeholders.append(path)
    }

    func origin(_ path: [String]) -> ValueSource { locations[path] }

    /// Reports an error at the location of a value.
    func report(_ valueError: ConfigValueError, at path: [String]) {
        invalidKeys.insert(path)
        add(valueError, key: path, origin: locations[path])
    }

    /// Reports a warning at a location.
    func warn(_ warning: ConfigValueError, key path: [String], origin: ValueSource) {
        warnings.append(locations.problem(warning, key: path, origin: origin, severity: .warning))
    }

    /// Reports a note at the location of a value.
    func inform(_ valueError: ConfigValueError, at path: [String]) {
        notes.append(locations.problem(valueError, key: path, origin: locations[path], severity: .note))
    }

    /// Reports an error that depends on other keys. The error is dropped if one of them is misspelled, malformed or
    /// missing.
    func report(_ valueError: ConfigValueError, at path: [String], becauseOf causes: [[String]]) {
        consequences.append((locations.problem(valueError, key: path, origin: locations[path]), causes))
    }

    /// Marks a key as invalid if the error is reported at one of its items.
    func noteBroken(_ path: [String]) {
        invalidKeys.insert(path)
    }

    /// Reports an error at a location without a value.
    func add(_ valueError: ConfigValueError, key path: [String], origin: ValueSource) {
        problems.append(locations.problem(valueError, key: path, origin: origin))
    }

    func add(_ problem: ConfigDiagnostic) {
        problems.append(problem)
    }
}

/// Records the keys that were looked up and the result of the last lookup.
///
/// The keys distinguish known from unknown names. The last lookup gives the source of a value, and the error of a
/// malformed value that the reader itself does not report.
final class KeyAccessRecorder: AccessReporter {
    /// The result of a lookup in the deciding layer.
    struct Lookup: Sendable {
        let layer: SourceLayer
        /// The name of the key in this layer.
        let name: String
        /// The error if a value is set but invalid.
        let failure: ConfigValueError?
    }

    private struct State {
        var keys: Set<[String]> = []
        var last: Lookup?
    }

    private let state = Mutex(State())

    /// All keys looked up so far.
    var keys: Set<[String]> { state.withLock { $0.keys } }

    /// The last lookup; `nil` if no layer has the key.
    var last: Lookup? { state.withLock { $0.last } }

    func report(_ event: AccessEvent) {
        let lookup = Self.lookup(event)
        state.withLock { state in
            state.keys.insert(event.metadata.key.components)
            state.last = lookup
        }
    }

    private static func lookup(_ event: AccessEvent) -> Lookup? {
        guard let deciding = event.providerResults.last,
            let layer = SourceLayer(rawValue: event.providerResults.count - 1)
        else { return nil }
        switch deciding.result {
        case .success(let result):
            return result.value == nil ? nil : Lookup(layer: layer, name: result.encodedKey, failure: nil)
        case .failure(let error):
            let valueError =
                error as? ConfigValueError ?? ConfigValueError("must be a valid value", "write another value")
            return Lookup(layer: layer, name: "", failure: valueError)
        }
    }
}
