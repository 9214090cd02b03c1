import CloakroomCore

/// The documentation of a key as recorded by the parser, so the reference always matches the parser.
struct KeyDocumentation: Equatable {
    let path: [String]
    /// The expected notation of its ``ValueFormat``.
    var expectation = ""
    /// The default in its shortest notation; `nil` if there is none.
    var defaultValue: String?
    var isRequired = false
    var isList = false
    /// Whether the value is redacted.
    var isSecret = false
}

/// The keys in the order of parsing.
struct DocumentedKeys {
    private(set) var keys: [KeyDocumentation] = []
    private var indices: [[String]: Int] = [:]

    /// Records documentation of a key. Several layers of the parser may contribute to one key.
    mutating func note(_ path: [String], _ change: (inout KeyDocumentation) -> Void) {
        let index = indices[path] ?? keys.count
        if index == keys.count {
            keys.append(KeyDocumentation(path: path))
            indices[path] = index
        }
        change(&keys[index])
    }
}

extension DocumentedKeys {
    /// A configuration with one item in every list and mapping of sections, so that the parser looks up every key. Its
    /// values are irrelevant.
    private static let exhaustiveExample = """
        listeners: [{ tls: { additionalCertificates: [{}] } }]
        upstreams: { NAME: { targets: [{}] }, OTHER: {} }
        identities: { NAME: { exchange: { NAME: {} } } }
        accounts: { apps: { NAME: {} } }
        sites: { NAME: {} }
        rateLimits: { NAME: {} }
        routes: [{ require: { anyOf: [{}] } }]
        prove: [{ unless: { session: true } }]

        """

    static func all() -> [KeyDocumentation] {
        // The text is valid; an invalid one would only omit keys.
        let tree = (try? YAMLTree(yaml: exhaustiveExample) { _ in }) ?? YAMLTree()
        let reading = ConfigParser(ConfigSources(file: nil), tree: tree, isDocumenting: true)
        _ = GatewayConfiguration(from: reading.root)
        var reload = ReloadConfiguration()
        reload.read(from: reading.root.sectionWithDefaults("reload"))
        _ = Statement.all(reading.root, nil)
        return (reading.documentation?.keys ?? []).filter { !$0.path.starts(with: ["upstreams", "OTHER"]) }
    }
}

/// The comments of the example configuration file by key.
///
/// A comment is the lines that begin with `# ` directly above a key. The key itself may be commented out with one `#`.
struct YAMLKeyComments {
    /// Dotted keys without list indices; all upstream names are `NAME`.
    private(set) var comments: [String: String] = [:]

    init(yaml: String) {
        var stack: [(indent: Int, name: String)] = []
        var comment: [Substring] = []
        for line in yaml.split(separator: "\n", omittingEmptySubsequences: false) {
            var text = line.drop { $0 == " " }
            var indent = line.count - text.count
            if text.hasPrefix("# ") {
                comment.append(text.dropFirst(2))
                continue
            }
            defer { comment = [] }
            if text.hasPrefix("#") { text = text.dropFirst() }
            if text.hasPrefix("- ") {
                text = text.dropFirst(2)
                indent += 2
            }
            guard let colon = text.firstIndex(of: ":"), text[..<colon].allSatisfy(Self.isNameCharacter) else {
                continue
            }
            stack.removeAll { $0.indent >= indent }
            stack.append((indent, String(text[..<colon])))
            var names = stack.map(\.name)
            for index in names.indices.dropFirst() where Self.isMapping(names[..<index]) { names[index] = "NAME" }
            let key = names.joined(separator: ".")
            // If a list has several items, the comment of the first applies.
            if comments[key] == nil, !comment.isEmpty { comments[key] = comment.joined(separator: " ") }
        }
    }

    subscript(path: [String]) -> String? { comments[path.joined(separator: ".")] }

    /// Whether the members of a section are named by the operator.
    private static func isMapping(_ section: ArraySlice<String>) -> Bool {
        switch Array(section) {
        case ["upstreams"], ["identities"], ["accounts", "apps"], ["sites"], ["rateLimits"],
            ["rateLimits", "NAME", "when"],
            ["identities", "NAME", "parameters"], ["identities", "NAME", "passParameters"],
            ["identities", "NAME", "exchange"],
            ["routes", "require", "claims"], ["routes", "require", "anyOf", "claims"],
            ["routes", "files", "names", "types"], ["prove", "claims"], ["prove", "unless", "claims"],
            ["upstreams", "NAME", "claimHeaders"],
            ["upstreams", "NAME", "signIn", "static"], ["upstreams", "NAME", "refresh", "static"],
            ["upstreams", "NAME", "revoke", "static"]:
            true
        case let path:
            path.dropLast().last?.hasSuffix("Fields") == true && ["set", "add", "default"].contains(path.last)
        }
    }

    private static func isNameCharacter(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "-"
    }
}
