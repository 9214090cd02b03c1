import Configuration

/// Finds keys that are set but unknown: typos.
struct UnknownKeys {
    private let reading: ConfigParser
    private let known: Set<[String]>
    /// The names of the keys and subsections of each section.
    private let members: [[String]: Set<String>]
    /// Likely intended keys of misspelled ones; they are not reported as missing too.
    private(set) var likelyIntendedKeys: Set<[String]> = []
    /// The known keys and sections by their last name.
    private lazy var places = Dictionary(grouping: known.union(members.keys)) { $0.last ?? "" }

    /// Treats all keys looked up so far as known.
    init(_ reading: ConfigParser) {
        self.reading = reading
        let known = reading.trace.keys
        var members: [[String]: Set<String>] = [:]
        for key in known {
            for depth in key.indices {
                // A list or mapping without items has no members but is a known key.
                let member: Set<String> = key[depth].hasPrefix("#") ? [] : [key[depth]]
                members[Array(key[..<depth]), default: []].formUnion(member)
            }
        }
        self.known = known.filter { $0.last?.hasPrefix("#") != true }
        self.members = members
    }

    /// Reports every unknown key of the file, the environment and the flags.
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
                    ConfigValueError("must be a key, not a section", "set one of the keys in it"), key: path,
                    origin: .flag)
            } else if let item = path.last, Int(item) != nil, known.contains(Array(path.dropLast())) {
                let remedy = "write the whole list: \(path.dropLast().joined(separator: "."))=one,another"
                reading.add(
                    ConfigValueError("must be a key, not an item of a list", remedy), key: path, origin: .flag)
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
        let nearest = NameSuggestion.nearest(to: name, among: siblings)
        if let nearest { likelyIntendedKeys.insert(parent + [nearest]) }
        var suggestion = NameSuggestion.suggestion(for: name, among: siblings)
        if let next = nextIndex(in: path) {
            suggestion = "the next index is \(next)"
        } else if siblings.isEmpty, let nearest = nearestKey(to: path) {
            suggestion = "did you mean \(nearest)?"
        } else if name.first?.isWhitespace == true {
            suggestion = "indent with spaces: the line begins with another kind of blank"
        } else if nearest == nil,
            case let names = Self.otherNames[name.lowercased().replacing("_", with: ""), default: []].filter({
                siblings.contains($0) || known.contains($0.split(separator: ".").map(String.init))
            }), !names.isEmpty
        {
            likelyIntendedKeys.formUnion(names.map { parent + [$0] })
            suggestion = "did you mean \(names.map(\.quoted).alternatives)?"
        } else if nearest == nil, let place = otherPlace(of: name, in: parent) {
            suggestion = place
        }
        let error = parent.last == "messages" ? "unknown message code" : "unknown key"
        reading.add(ConfigValueError(error, suggestion), key: path, origin: origin)
    }

    /// Names that keys have in other programs, in lower case and without underscores. A key with a dot is in another
    /// section.
    private static let otherNames = [
        "address": ["targets", "url"], "addresses": ["targets"], "auth": ["requiresAuthorization"],
        "authenticated": ["requiresAuthorization"], "backend": ["upstream", "targets"], "backends": ["upstreams"],
        "bind": ["address"], "ca": ["caFile"], "callback": ["accounts.publicURL"], "cert": ["certificateFile"],
        "certificate": ["certificateFile"], "clientsecret": ["client"], "clusters": ["upstreams"],
        "headers": ["requestFields", "responseFields"], "host": ["url"], "key": ["keyFile"], "listen": ["address"],
        "lifetime": ["absoluteTimeout", "idleTimeout"], "login": ["signIn"], "loglevel": ["logging"],
        "logout": ["revoke"], "match": ["path"], "maxage": ["absoluteTimeout", "persistent"],
        "metrics": ["admin", "telemetry"], "oidc": ["identities"], "port": ["address", "url"], "prefix": ["path"],
        "protected": ["requiresAuthorization"], "providers": ["identities"], "public": ["requiresAuthorization"],
        "redirecturi": ["accounts.publicURL"], "rewrite": ["forwardAs", "stripPrefix"], "server": ["targets"],
        "servers": ["targets"], "service": ["upstream"], "services": ["upstreams"], "static": ["files"],
        "timeout": ["responseHeadTimeout", "idleTimeout", "deadline"], "token": ["value", "valueFile"],
        "ttl": ["idleTimeout", "absoluteTimeout"], "type": ["store"], "uri": ["path"], "url": ["path", "targets"],
        "user": ["name"], "username": ["name"], "users": ["accounts"],
    ]

    /// Where a key of another section belongs, or its section: usually one of them is not indented as it should be.
    private mutating func otherPlace(of name: String, in parent: [String]) -> String? {
        if parent.count == 2,
            members[[parent[0]]]?.contains(where: { members[[parent[0], $0]]?.contains(parent[1]) == true }) == true
        {
            // What the section would need at its place is not missing.
            likelyIntendedKeys.formUnion((members[parent] ?? []).map { parent + [$0] })
            return "if \(parent[1]) belongs to one of \(parent[0]), indent it further"
        }
        let all = (places[name] ?? []).map { (path: $0, key: $0.joined(separator: ".")) }.sorted {
            ($0.path.count, $0.key) < ($1.path.count, $1.key)
        }
        let below = all.filter { !parent.isEmpty && $0.path.starts(with: parent) }
        let found = below.isEmpty ? all : below
        // A section such as tls belongs to one of those that the file has.
        let written = found.filter {
            parent.isEmpty && members[$0.path] != nil && reading.isSectionSet($0.path.dropLast())
        }
        if (1...4).contains(written.count) { return "did you mean \(written.map(\.key).alternatives)?" }
        let nearest = found.filter { $0.path.count == found.first?.path.count }
        return nearest.count == 1 ? "did you mean \(nearest[0].key)?" : nil
    }

    /// The index of the first item that a list of sections lacks, if the key is in a later one.
    private func nextIndex(in path: [String]) -> Int? {
        for depth in path.indices {
            guard let index = Int(path[depth]), let names = members[Array(path[..<depth])] else { continue }
            let items = names.compactMap { Int($0) }
            if !items.isEmpty, items.count == names.count, index > items.count { return items.count }
        }
        return nil
    }

    private func nearestKey(to path: [String]) -> String? {
        NameSuggestion.nearest(to: path.joined(separator: "."), among: known.lazy.map { $0.joined(separator: ".") })
    }

    private mutating func reportUnknownVariables() {
        guard reading.sources.hasVariables else { return }
        let variables = Dictionary(known.map { (reading.variable($0), $0) }) { first, _ in first }
        for (name, value) in reading.sources.environment where name.hasPrefix(EnvironmentVariableNames.variablePrefix) {
            guard variables[name] == nil, !EnvironmentVariableNames.isServiceLink(name, value: value) else { continue }
            // The common prefix would make all names similar and is not compared.
            let shared = EnvironmentVariableNames.variablePrefix
            var nearest = NameSuggestion.nearest(
                to: String(name.dropFirst(shared.count)),
                among: variables.keys.lazy.map { String($0.dropFirst(shared.count)) }
            ).map { shared + $0 }
            let kind = unnamedKind(of: name)
            // The variables of two names are similar.
            if kind != nil, NameSuggestion.distance(Array(name), Array(nearest ?? "")) > 2 { nearest = nil }
            let remedy = kind.map { "name the \($0) in the file first" }
            if nearest == nil { nearest = Self.extended(name, among: variables.keys) }
            if let nearest, let path = variables[nearest] { likelyIntendedKeys.insert(path) }
            reading.add(
                ConfigValueError(
                    "unknown variable",
                    nearest.map { "did you mean \($0)?" } ?? remedy
                        ?? "unset it, or see print-config for the keys there are"),
                key: [name], origin: .environment(name))
        }
    }

    /// The only variable whose words begin with those of the name: `…_LOGGING_LEVEL` for `…_LOG_LEVEL`.
    private static func extended(_ name: String, among variables: some Sequence<String>) -> String? {
        let words = name.split(separator: "_")
        let found = variables.filter { variable in
            let own = variable.split(separator: "_")
            return own.count == words.count && zip(own, words).allSatisfy { $0.hasPrefix($1) }
        }
        return found.count == 1 ? found[0] : nil
    }

    /// What a variable belongs to that the file does not name: a variable cannot, as its name is in upper case.
    private func unnamedKind(of name: String) -> String? {
        let kinds = ["identities": "identity", "rateLimits": "rate limit", "sites": "site", "upstreams": "upstream"]
        for (section, kind) in kinds where name.hasPrefix(reading.variable([section]) + "_") {
            let isNamed = (members[[section]] ?? []).contains {
                name.hasPrefix(reading.variable([section, $0]) + "_")
            }
            return isNamed ? nil : kind
        }
        return nil
    }
}

/// Names of the environment variables of the configuration.
enum EnvironmentVariableNames {
    /// The first component of the key that a variable name is generated from.
    static let prefix = "cloakroom"
    /// The prefix of the configuration variables.
    static let variablePrefix = "CLOAKROOM_"
    /// The prefix of the OpenTelemetry variables.
    static let openTelemetryPrefix = "OTEL_"
    private static let encoder = EnvironmentVariablesProvider(environmentVariables: [:])
        .prefixKeys(with: ConfigKey([prefix]))

    /// The variable of a key.
    static func variable(_ path: [String]) -> String {
        (try? encoder.value(forKey: AbsoluteConfigKey(path), type: .string).encodedKey) ?? ""
    }

    /// Whether Kubernetes sets the variable for a service whose name begins with `cloakroom`; such a variable is not a
    /// typo.
    static func isServiceLink(_ name: String, value: String) -> Bool {
        if name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") { return true }
        let schemes = ["tcp://", "udp://", "sctp://"]
        if name.hasSuffix("_PORT"), schemes.contains(where: value.hasPrefix) { return true }
        guard let port = name.firstRange(of: "_PORT_") else { return false }
        let parts = name[port.upperBound...].split(separator: "_")
        return (2...3).contains(parts.count) && parts[0].allSatisfy(\.isNumber)
            && ["TCP", "UDP", "SCTP"].contains(parts[1])
            && (parts.count == 2 || ["PROTO", "PORT", "ADDR"].contains(parts[2]))
    }
}
