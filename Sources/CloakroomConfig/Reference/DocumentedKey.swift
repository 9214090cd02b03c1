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
    /// A configuration with one item in every list and mapping, so that the parser looks up every key. Its values are
    /// irrelevant.
    private static let exhaustiveExample = """
        listeners: [{ tls: { moreCertificates: [{}] } }]
        upstreams: { NAME: {}, OTHER: {} }
        routes: [{}]

        """

    /// All keys.
    static func all() -> [KeyDocumentation] {
        // The text is valid; an invalid one would only omit keys.
        let tree = (try? YAMLTree(yaml: exhaustiveExample) { _ in }) ?? YAMLTree()
        let reading = ConfigParser(ConfigSources(file: nil), tree: tree, isDocumenting: true)
        _ = GatewayConfiguration(from: reading.root)
        _ = ReloadConfiguration(from: reading.root.sectionWithDefaults("reload"))
        return (reading.documentation?.keys ?? []).filter { !$0.path.starts(with: ["upstreams", "OTHER"]) }
    }
}
