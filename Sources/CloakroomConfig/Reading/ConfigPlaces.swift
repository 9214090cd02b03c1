/// Where the values of a configuration were given: what turns a mistake into a problem with a place.
struct ValueLocations: Sendable {
    /// The file, as it was named; `nil` if there is none.
    let file: String?
    /// Where each key and each section of the file stands. The values are not kept: there are secrets among them.
    private let keys: [[String]: FilePosition]
    /// Where each value was given that is not a default.
    var origins: [[String]: ValueSource] = [:]

    init(file: String?, tree: YAMLTree) {
        self.file = file
        keys = tree.entries.mapValues(\.key)
    }

    /// Where the value of a key was given.
    subscript(path: [String]) -> ValueSource { origins[path] ?? .defaultValue }

    /// A mistake at a place.
    func problem(
        _ valueError: ConfigValueError, key path: [String], origin: ValueSource,
        severity: ConfigDiagnostic.Severity = .error
    ) -> ConfigDiagnostic {
        var source = file ?? "configuration"
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

    /// A place as reports name it.
    func description(of origin: ValueSource) -> String {
        switch origin {
        case .flag: ValueSource.flagName
        case .environment(let name): "environment \(name)"
        case .secretFile(let path): "secret file \(DiagnosticText.escaped(path))"
        case .file(let place): "\(file ?? ""):\(place.line):\(place.column)"
        case .defaultValue: "default"
        }
    }

    /// Where a key stands in the file, or the innermost section that it would stand in.
    private func nearestPosition(_ path: [String]) -> FilePosition? {
        var path = path
        while !path.isEmpty {
            if let place = keys[path] { return place }
            path.removeLast()
        }
        return nil
    }
}
