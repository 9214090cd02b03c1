/// The locations of the values of a configuration; turns an error into a problem with a location.
struct ValueLocations: Sendable {
    /// The name of the configuration; see ``ConfigSources/name``.
    let name: String
    /// The positions of all keys and sections of the file. Values are not stored because some are secrets.
    private let keys: [[String]: FilePosition]
    /// The sources of all values that are not defaults.
    var origins: [[String]: ValueSource] = [:]

    init(name: String, tree: YAMLTree) {
        self.name = name
        keys = tree.entries.mapValues(\.key)
    }

    subscript(path: [String]) -> ValueSource { origins[path] ?? .defaultValue }

    /// A problem for an error at a location.
    func problem(
        _ valueError: ConfigValueError, key path: [String], origin: ValueSource,
        severity: ConfigDiagnostic.Severity = .error
    ) -> ConfigDiagnostic {
        var source = name
        var key = path.joined(separator: ".")
        var position: FilePosition?
        switch origin {
        case .flag: source = ValueSource.flagName
        case .environment(let variable):
            source = ValueSource.environmentName
            key = variable
        case .secretFile:
            let twin = path.dropLast() + [SecretFilesProvider.fileKey(of: path.last ?? "")]
            return problem(valueError, key: Array(twin), origin: self[Array(twin)], severity: severity)
        case .file(let place): position = place
        case .defaultValue: position = nearestPosition(path)
        }
        return ConfigDiagnostic(
            source: source, position: position, key: key, message: valueError.message,
            suggestion: valueError.suggestion,
            severity: severity)
    }

    /// A location as printed in reports.
    func description(of origin: ValueSource) -> String {
        switch origin {
        case .flag: ValueSource.flagName
        case .environment(let name): "environment \(name)"
        case .secretFile(let path): "secret file \(path.escaped)"
        case .file(let place): "\(name):\(place.line):\(place.column)"
        case .defaultValue: "default"
        }
    }

    /// The position of a key in the file; for an absent key, of its innermost existing section.
    private func nearestPosition(_ path: [String]) -> FilePosition? {
        var path = path
        while !path.isEmpty {
            if let place = keys[path] { return place }
            path.removeLast()
        }
        return nil
    }
}

/// A position in a text file. Line and column start at 1; columns count Unicode scalars.
struct FilePosition: Hashable, Sendable {
    let line: Int
    let column: Int
}

enum ValueSource: Hashable, Sendable {
    /// A flag `--set key=value`.
    case flag
    /// An environment variable of the gateway or of the OpenTelemetry specification.
    case environment(String)
    /// A file named by a `…File` key.
    case secretFile(String)
    /// The configuration file.
    case file(FilePosition)
    /// The default.
    case defaultValue

    static let environmentName = "environment"
    static let flagName = "--set"
}

/// The layers of sources, strongest first: the order of the reader's providers.
enum SourceLayer: Int, CaseIterable {
    case flags, environment, secretFiles, file, openTelemetry
}
