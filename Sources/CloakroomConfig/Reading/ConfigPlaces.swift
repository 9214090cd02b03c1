/// Where the values of a configuration were given: what turns a mistake into a problem with a place.
struct ConfigPlaces: Sendable {
    /// The file, as it was named; `nil` if there is none.
    let file: String?
    /// Where each key and each section of the file stands. The values are not kept: there are secrets among them.
    private let keys: [[String]: Position]
    /// Where each value was given that is not a default.
    var origins: [[String]: Origin] = [:]

    init(file: String?, tree: ConfigTree) {
        self.file = file
        keys = tree.entries.mapValues(\.key)
    }

    /// Where the value of a key was given.
    subscript(path: [String]) -> Origin { origins[path] ?? .fallback }

    /// A mistake at a place.
    func problem(
        _ mistake: Mistake, key path: [String], origin: Origin, severity: ConfigProblem.Severity = .error
    ) -> ConfigProblem {
        var source = file ?? "configuration"
        var key = path.joined(separator: ".")
        var position: Position?
        switch origin {
        case .flag: source = Origin.flagName
        case .environment(let variable):
            source = Origin.environmentName
            key = variable
        case .secretFile:
            let twin = path.dropLast() + [SecretFilesProvider.twin(of: path.last ?? "")]
            return problem(mistake, key: Array(twin), origin: self[Array(twin)], severity: severity)
        case .file(let place): position = place
        case .fallback: position = nearestPosition(path)
        }
        return ConfigProblem(
            source: source, position: position, key: key, message: mistake.message, suggestion: mistake.suggestion,
            severity: severity)
    }

    /// A place as reports name it.
    func description(of origin: Origin) -> String {
        switch origin {
        case .flag: Origin.flagName
        case .environment(let name): "environment \(name)"
        case .secretFile(let path): "secret file \(Printable.escaped(path))"
        case .file(let place): "\(file ?? ""):\(place.line):\(place.column)"
        case .fallback: "default"
        }
    }

    /// Where a key stands in the file, or the innermost section that it would stand in.
    private func nearestPosition(_ path: [String]) -> Position? {
        var path = path
        while !path.isEmpty {
            if let place = keys[path] { return place }
            path.removeLast()
        }
        return nil
    }
}
