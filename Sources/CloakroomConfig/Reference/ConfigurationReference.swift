import CloakroomCore

/// The reference of all keys: made from the reading itself and from the comments of the file that comes with the project.
public struct ConfigurationReference {
    /// The reference in Markdown.
    public let markdown: String
    /// Keys that no comment says anything of. They are left without a meaning.
    public let uncommented: [String]

    /// Makes the reference.
    /// - Parameter yaml: A configuration with a comment above each key.
    public init(comments yaml: String) {
        let environment = ConfigParser(ConfigSources(file: nil), tree: YAMLTree())
        // Sentences by code are one key for whoever reads about them.
        let entries = DocumentedKeys.all().filter { !Self.isFurtherMessage($0) }
            .map { ReferenceEntry($0, variable: environment.variable) }
        var text = ReferenceText(comments: YAMLKeyComments(yaml: yaml))
        text.add(entries, below: [])
        markdown = Self.introduction + text.markdown
        uncommented = text.uncommented
    }

    private static let introduction = """
        # Configuration reference

        Every key of the configuration file. This page is written by `cloakroom config-reference`; do not edit it.

        Lists stand in brackets (`[GET, POST]`) or one item a line. Durations have a unit (`500ms`, `30s`, `15m`, `8h`,
        `1d`, `1h30m`); sizes are bytes or have one (`16KiB`, `10MiB`, `1GiB`). Relative paths start in the folder of the
        file. `N` stands for the index of an item of a list, from 0; `NAME` for the name of an upstream, upper case in
        variables, with underscores for all that is neither letter nor digit.

        Of several sources for a key the strongest counts: flags (`--set session.idleTimeout=5m`), variables
        (`CLOAKROOM_SESSION_IDLE_TIMEOUT=5m`), files of secrets (`…File`), the configuration file, and for `tracing` the
        variables of the OpenTelemetry specification. `cloakroom print-config` shows what is in effect and why.

        SIGHUP, and a change of the file, put a new configuration to use: all of it, or nothing where it has a mistake or
        changes a key that takes a restart.

        """

    private static func isFurtherMessage(_ key: KeyDocumentation) -> Bool {
        key.path.dropLast().last == "messages" && key.path.last != ProblemCode.allCases.first?.rawValue
    }
}

/// The reference section by section: the keys of a section first, then the sections in it.
private struct ReferenceText {
    let comments: YAMLKeyComments
    var markdown = ""
    var uncommented: [String] = []

    mutating func add(_ entries: [ReferenceEntry], below section: [String]) {
        for entry in entries where !section.isEmpty && entry.path.count == section.count + 1 { add(entry) }
        var done: Set<String> = []
        for entry in entries where section.isEmpty || entry.path.count > section.count + 1 {
            let path = Array(entry.path[...section.count])
            guard done.insert(path.joined(separator: ".")).inserted else { continue }
            // Items of a list have no heading of their own.
            if path.last != "N" { addHeading(path, isKey: entry.path == path) }
            let members = entries.filter { $0.path.starts(with: path) }
            if entry.path == path { add(entry) } else { add(members, below: path) }
        }
    }

    private mutating func addHeading(_ path: [String], isKey: Bool) {
        markdown += "\n\(path.count == 1 ? "##" : "###") \(path.joined(separator: "."))\n"
        if !isKey, let comment = comments[path.filter { $0 != "N" }] { markdown += "\n\(Markdown.escaped(comment))\n" }
    }

    private mutating func add(_ entry: ReferenceEntry) {
        let comment = entry.isMessage ? Self.messageCodes : comments[entry.path.filter { $0 != "N" }]
        if comment == nil { uncommented.append(entry.name) }
        markdown += entry.markdown(comment)
    }

    private static let messageCodes =
        "CODE is one of " + ProblemCode.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", ") + "."
}

/// One key of the reference.
struct ReferenceEntry {
    let key: KeyDocumentation
    /// The key as people write it about: `routes.N.path`.
    let path: [String]
    /// Whether it stands for all sentences by code.
    let isMessage: Bool
    private let variables: [String]

    init(_ key: KeyDocumentation, variable: ([String]) -> String) {
        self.key = key
        isMessage = key.path.dropLast().last == "messages"
        path = key.path.map { $0 == "0" ? "N" : $0 }.dropLast(isMessage ? 1 : 0) + (isMessage ? ["CODE"] : [])
        variables = [variable(path)] + (OpenTelemetryVariables.names[key.path] ?? [])
    }

    var name: String { path.joined(separator: ".") }

    /// The key with all that there is to say of it.
    func markdown(_ comment: String?) -> String {
        var lines = ["", "#### `\(name)`", ""]
        if let comment { lines += [Markdown.escaped(comment), ""] }
        lines.append("- Value: \(key.isList ? "list, each " : "")\(key.expectation)\(key.isSecret ? "; a secret" : "")")
        if key.isRequired {
            lines.append(
                path.count > 1 ? "- Required within `\(path.dropLast().joined(separator: "."))`" : "- Required")
        } else {
            lines.append("- Default: \(key.defaultValue.map { "`\($0)`" } ?? "none")")
        }
        lines.append("- Reload: \(RestartRequiredKeys.contains(key.path) ? "takes a restart" : "taken over")")
        lines.append(
            "- \(variables.count == 1 ? "Variable" : "Variables"): "
                + variables.map { "`\($0)`" }.joined(separator: ", "))
        return lines.map { $0 + "\n" }.joined()
    }
}

/// Plain text as Markdown shows it.
enum Markdown {
    /// The text with a backslash before what would mean something outside of code.
    static func escaped(_ text: String) -> String {
        var result = ""
        var isCode = false
        for character in text {
            if character == "`" { isCode.toggle() }
            if !isCode, "*_<>[]|\\".contains(character) { result.append("\\") }
            result.append(character)
        }
        return result
    }
}
