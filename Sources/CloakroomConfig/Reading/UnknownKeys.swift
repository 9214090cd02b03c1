/// Finds keys that are given and that nobody read: they are typos.
struct UnknownKeys {
    private let reading: ConfigParser
    private let known: Set<[String]>
    /// For each section the names of the keys and sections in it.
    private let members: [[String]: Set<String>]
    /// Keys that somebody seems to have meant; to call them missing too would be one complaint too many.
    private(set) var likelyIntendedKeys: Set<[String]> = []

    /// Takes all keys that were read so far for known.
    init(_ reading: ConfigParser) {
        self.reading = reading
        let known = reading.trace.keys
        var members: [[String]: Set<String>] = [:]
        for key in known {
            for depth in key.indices {
                // A list or mapping without items has no members and is known all the same.
                let member: Set<String> = key[depth].hasPrefix("#") ? [] : [key[depth]]
                members[Array(key[..<depth]), default: []].formUnion(member)
            }
        }
        self.known = known.filter { $0.last?.hasPrefix("#") != true }
        self.members = members
    }

    /// Notes every unknown key of the file, the environment and the flags.
    mutating func report() {
        var skipped: Set<[String]> = reading.invalidKeys
        for path in reading.tree.order {
            guard !skipped.contains(path), !skipped.contains(Array(path.dropLast())) else {
                skipped.insert(path)
                continue
            }
            guard let entry = reading.tree[path] else { continue }
            if known.contains(path) {
                skipped.insert(path)
            } else if members[path] == nil {
                skipped.insert(path)
                report(path, at: .file(entry.key))
            }
        }
        for path in reading.flagPaths where !known.contains(path) {
            if members[path] != nil {
                reading.add(
                    ConfigValueError("is a section", "set one of the keys in it"), key: path, origin: .flag)
            } else {
                report(path, at: .flag)
            }
        }
        reportUnknownVariables()
    }

    private mutating func report(_ path: [String], at origin: ValueSource) {
        let parent = Array(path.dropLast())
        let name = path.last ?? ""
        let siblings = members[parent]?.sorted() ?? []
        if let nearest = NameSuggestion.nearest(to: name, among: siblings) {
            likelyIntendedKeys.insert(parent + [nearest])
        }
        if parent.last == "messages" {
            reading.add(
                ConfigValueError(
                    "there is no such message code", NameSuggestion.suggestion(for: name, among: siblings)), key: path,
                origin: origin)
            return
        }
        var suggestion = NameSuggestion.suggestion(for: name, among: siblings)
        if siblings.isEmpty, let nearest = nearestKey(to: path) { suggestion = "did you mean \(nearest)?" }
        reading.add(ConfigValueError("there is no such key", suggestion), key: path, origin: origin)
    }

    private func nearestKey(to path: [String]) -> String? {
        NameSuggestion.nearest(to: path.joined(separator: "."), among: known.lazy.map { $0.joined(separator: ".") })
    }

    private mutating func reportUnknownVariables() {
        let variables = Dictionary(known.map { (reading.variable($0), $0) }) { first, _ in first }
        for (name, value) in reading.sources.environment where name.hasPrefix(EnvironmentVariableNames.variablePrefix) {
            guard variables[name] == nil, !EnvironmentVariableNames.isServiceLink(name, value: value) else { continue }
            // What all names have in common must not make them look alike.
            let shared = EnvironmentVariableNames.variablePrefix
            let nearest = NameSuggestion.nearest(
                to: String(name.dropFirst(shared.count)),
                among: variables.keys.lazy.map { String($0.dropFirst(shared.count)) }
            ).map { shared + $0 }
            if let nearest, let path = variables[nearest] { likelyIntendedKeys.insert(path) }
            reading.add(
                ConfigValueError(
                    "there is no such variable",
                    nearest.map { "did you mean \($0)?" } ?? "unset it, or see print-config for the keys there are"),
                key: [name], origin: .environment(name))
        }
    }
}
