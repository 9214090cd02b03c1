import Configuration

/// Finds keys that are set but unknown: typos.
struct UnknownKeys {
    private let reading: ConfigParser
    private let known: Set<[String]>
    /// The names of the keys and subsections of each section.
    private let members: [[String]: Set<String>]
    /// Likely intended keys of misspelled ones; they are not reported as missing too.
    private(set) var likelyIntendedKeys: Set<[String]> = []

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

    /// The last two names of keys that are constants or had no effect; only the last one after a user-defined name.
    private static let removed: Set<String> = [
        "backChannel", "balance.failurePenalty", "balance.halfLife", "cors.maxAge", "dns.eachAddress", "eject.longest",
        "eject.most", "eject.statuses", "eject.time", "eject.volume", "health.host", "health.method", "health.rise",
        "health.start", "inFlight.upstream", "limits.requestsPerConnection", "limits.target", "login.pending",
        "login.timeout", "otlp.batchLimit", "otlp.timeout", "panicBelow", "pool.congestedAfter",
        "pool.congestedTimeout", "pool.connectionLifetime", "pool.requestsPerConnection", "pool.streams", "retry.on",
        "retry.perSecond", "revoke.accessToken", "revoke.expiresIn", "revoke.refreshToken", "revoke.success",
        "tls.additionalCertificates", "tls.cipherSuites", "tls.minimumVersion", "user.accessToken", "user.credentials",
        "user.expiresIn", "user.refreshToken", "valkey.replicationTimeout",
    ]

    /// What to write instead of keys that have moved, by their last two names.
    private static let moved: [String: String] = [
        "refresh.client": "move it up, to the upstream", "revoke.client": "move it up, to the upstream",
        "signIn.client": "move it up, to the upstream", "refresh.errorCode": "move it up, to the upstream",
        "signIn.errorCode": "move it up, to the upstream",
        "reload.watch": "for false, write interval: 0s; for true, leave it out",
    ]

    private mutating func report(_ path: [String], at origin: ValueSource) {
        func add(_ error: String, _ remedy: String) {
            reading.add(ConfigValueError(error, remedy), key: path, origin: origin)
        }
        let parent = Array(path.dropLast())
        let name = path.last ?? ""
        let siblings = members[parent]?.sorted() ?? []
        let lastNames = path.suffix(2).joined(separator: ".")
        if Self.removed.contains(lastNames) || Self.removed.contains(name) {
            return add("unknown key: its default is fixed", "remove it")
        }
        if let remedy = Self.moved[lastNames] { return add("unknown key", remedy) }
        if let nearest = NameSuggestion.nearest(to: name, among: siblings) {
            likelyIntendedKeys.insert(parent + [nearest])
        }
        var suggestion = NameSuggestion.suggestion(for: name, among: siblings)
        if let next = nextIndex(in: path) {
            suggestion = "the next index is \(next)"
        } else if siblings.isEmpty, let nearest = nearestKey(to: path) {
            suggestion = "did you mean \(nearest)?"
        }
        add(parent.last == "messages" ? "unknown message code" : "unknown key", suggestion)
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
            if let nearest, let path = variables[nearest] { likelyIntendedKeys.insert(path) }
            reading.add(
                ConfigValueError(
                    "unknown variable",
                    nearest.map { "did you mean \($0)?" } ?? remedy
                        ?? "unset it, or see print-config for the keys there are"),
                key: [name], origin: .environment(name))
        }
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
