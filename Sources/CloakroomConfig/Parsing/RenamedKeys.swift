import CloakroomCore

/// A key or section whose old name is still read, with a warning.
struct RenamedKey {
    /// The old key; `#` stands for the index of a list item.
    let old: [String]
    /// The last component of the new key.
    let name: String
    /// Whether the key is a section or a list of sections. Variables of other keys have no further words.
    private let isSection: Bool
    private let oldWords: [Substring]
    private let newVariable: [Substring]

    init(_ old: String, to name: String, isSection: Bool = false) {
        self.old = old.split(separator: ".").map(String.init)
        self.name = name
        self.isSection = isSection
        oldWords = Self.words(self.old)
        newVariable = Self.words(self.old.dropLast() + [name])
    }

    /// The words of a key's environment variable; an index is `#`.
    private static func words(_ key: [String]) -> [Substring] {
        EnvironmentVariableNames.variable(key.map { $0 == "#" ? "0" : $0 }).split(separator: "_")
            .map { $0 == "0" ? "#" : $0 }
    }

    private static func isPrefix<Part: StringProtocol>(_ pattern: [Part], of parts: [Part]) -> Bool {
        parts.count >= pattern.count
            && zip(pattern, parts).allSatisfy { $0 == $1 || $0 == "#" && $1.allSatisfy(\.isNumber) }
    }

    /// The new key of a path at or below the old key; `nil` for other paths.
    func renamed(_ path: [String]) -> [String]? {
        guard Self.isPrefix(old, of: path) else { return nil }
        var path = path
        path[old.count - 1] = name
        return path
    }

    /// The new names of a variable and of its key for a path at or below the old key; `nil` for other variables.
    func renamed(variable: String) -> (variable: String, key: String)? {
        let words = variable.split(separator: "_", omittingEmptySubsequences: false)
        guard Self.isPrefix(oldWords, of: words), isSection || words.count == oldWords.count else { return nil }
        let start = zip(newVariable, words).map { $0 == "#" ? $1 : $0 } + newVariable.dropFirst(words.count)
        return (
            (start + words.dropFirst(oldWords.count)).joined(separator: "_"), start.joined(separator: "_")
        )
    }
}

/// The sources of a configuration with old key names replaced by new ones.
///
/// A stronger source overrides a weaker one whichever name each of them uses. One source must not use both names.
struct RenamedKeys {
    /// All keys that were renamed. The table of `Operations.md` specifies until when the old names are read.
    static let all = [
        RenamedKey("trustedPeers", to: "trustedProxies"),
        RenamedKey("listeners.#.tls.moreCertificates", to: "additionalCertificates", isSection: true),
        RenamedKey("listeners.#.tlsTerminatedInFront", to: "behindTLSProxy"),
        RenamedKey("session.localSessions", to: "cacheSize"),
    ]

    private(set) var tree = YAMLTree()
    private(set) var sources: ConfigSources
    /// The variables that were set by their old names, by the new name.
    private(set) var oldVariables: [String: String] = [:]
    private(set) var warnings: [ConfigDiagnostic] = []
    private(set) var problems: [ConfigDiagnostic] = []

    init(_ sources: ConfigSources, tree: YAMLTree) {
        self.sources = sources
        rename(tree)
        renameVariables()
        renameFlags()
    }

    private mutating func rename(_ file: YAMLTree) {
        for path in file.order {
            guard let entry = file[path] else { continue }
            guard let (key, new) = Self.renamed(path) else {
                tree.insert(entry, at: path)
                continue
            }
            let newKey = Array(new.prefix(key.old.count))
            let isConflict = file[newKey] != nil
            if path.count == key.old.count {
                report(
                    path.joined(separator: "."), key.name, isConflict, in: sources.name, entry.key)
            }
            if !isConflict { tree.insert(entry, at: new) }
        }
    }

    private mutating func renameVariables() {
        let given = sources.environment.filter { !EnvironmentVariableNames.isServiceLink($0.key, value: $0.value) }
        for (old, value) in given {
            guard let (new, key) = Self.all.lazy.compactMap({ $0.renamed(variable: old) }).first else { continue }
            let isConflict = given.keys.contains { $0 == key || $0.hasPrefix(key + "_") }
            report(old, new, isConflict, in: ValueSource.environmentName)
            sources.environment[old] = nil
            guard !isConflict else { continue }
            sources.environment[new] = value
            oldVariables[new] = old
        }
    }

    private mutating func renameFlags() {
        let given = sources.overrides.map { OverrideProvider.path($0.key) }
        for (index, path) in given.enumerated() {
            guard let (key, new) = Self.renamed(path) else { continue }
            let newKey = new.prefix(key.old.count)
            report(
                path.joined(separator: "."), key.name, given.contains { $0.starts(with: newKey) },
                in: ValueSource.flagName)
            sources.overrides[index].key = new.joined(separator: ".")
        }
    }

    private static func renamed(_ path: [String]) -> (RenamedKey, [String])? {
        all.lazy.compactMap { key in key.renamed(path).map { (key, $0) } }.first
    }

    private mutating func report(
        _ old: String, _ new: String, _ isConflict: Bool, in source: String, _ position: FilePosition? = nil
    ) {
        if isConflict {
            problems.append(
                ConfigDiagnostic(
                    source: source, position: position, key: old, message: "conflicts with \(new)",
                    suggestion: "keep only \(new): \(old) is its old name"))
        } else {
            warnings.append(
                ConfigDiagnostic(
                    source: source, position: position, key: old, message: "is deprecated: use \(new)",
                    severity: .warning))
        }
    }
}
