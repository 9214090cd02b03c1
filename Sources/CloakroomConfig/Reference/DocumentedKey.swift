import CloakroomCore

/// What the reading itself says of a key: what the reference is made from, so that it cannot say anything else.
struct KeyDocumentation: Equatable {
    let path: [String]
    /// What is expected, in the words of its ``ValueFormat``.
    var expectation = ""
    /// The default in its shortest form; `nil` if there is none.
    var defaultValue: String?
    var isRequired = false
    var isList = false
    /// Whether the value is never shown.
    var isSecret = false
}

/// The keys of a reading in their order.
struct DocumentedKeys {
    private(set) var keys: [KeyDocumentation] = []
    private var indices: [[String]: Int] = [:]

    /// Notes something about a key, which may be met several times on the way from one layer of the reading to the next.
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
    /// A configuration that has one of everything that there may be several of. What is read of it does not matter, what
    /// is looked for does.
    private static let exhaustiveExample = """
        listeners: [{ tls: { moreCertificates: [{}] } }]
        upstreams: { NAME: {}, OTHER: {} }
        routes: [{}]

        """

    /// All keys that there are.
    static func all() -> [KeyDocumentation] {
        // The text is right, and what does not matter is not there if it were not.
        let tree = (try? YAMLTree(yaml: exhaustiveExample) { _ in }) ?? YAMLTree()
        let reading = ConfigParser(ConfigSources(file: nil), tree: tree, isDocumenting: true)
        _ = GatewayConfiguration(from: reading.root)
        _ = ReloadConfiguration(from: reading.root.sectionWithDefaults("reload"))
        return (reading.documentation?.keys ?? []).filter { !$0.path.starts(with: ["upstreams", "OTHER"]) }
    }
}
