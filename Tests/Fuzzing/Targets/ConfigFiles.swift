import CloakroomConfig
import FoundationEssentials

extension FuzzTarget {
    /// A configuration file: any contents give either a configuration or problems with their positions.
    static let config = FuzzTarget(
        "config",
        words: [
            "\n", "  ", "- ", ": ", "{", "}", "[", "]", "&a ", "*a", "<<: ", "\"", "'", "|", ">", "#", "~", "null",
            "true",
            "!!binary ", "---\n", "...\n", "%YAML 1.2\n", "\t", "\u{0}", "é", "-1", "0", "99999999999999999999", "1e9",
            "15m",
            "10MiB", "listeners:", "upstreams:", "routes:", "session:", "limits:", "path: /a/{b}", "methods: [GET]",
            "apiToken: { value: a }", "targets: [\"http://127.0.0.1:1\"]",
        ],
        times: [
            LinearTime(ConfigTexts.families, nanosecondsPerByte: 200_000) { _ = ConfigWire.entryCount(yaml: $0) },
            // Loading is measured as a whole, because each key takes several lookups and diagnostics. A mistake in each line
            // takes 480 to 1,130 µs per byte, the more keys a route has.
            LinearTime(ConfigTexts.wholeFamilies, shortest: 256, nanosecondsPerByte: 3_000_000) { bytes in
                _ = ConfigFile(bytes)?.load()
            },
        ]
    ) { bytes throws(Violation) in
        guard let file = ConfigFile(bytes) else { throw Violation("the file cannot be written") }
        let first = file.load()
        let second = file.load()
        try require(first.problems.map(\.description) == second.problems.map(\.description), "two loads differ")
        try require(first.values == second.values, "the values of two loads differ")
        let lineCount = bytes.split(separator: 0x0a, omittingEmptySubsequences: false).count
        for problem in first.problems {
            try require(!problem.message.isEmpty && !problem.source.isEmpty, "a problem without message or source")
            try require(
                !problem.description.utf8.contains { $0 < 0x20 }, "a problem of several lines: \(problem.description)")
            // YAML has line breaks other than LF; there is at most one in two bytes.
            try require(
                (problem.line ?? 1) >= 1 && (problem.line ?? 1) <= max(lineCount, bytes.count) + 1,
                "a line outside of the file")
            try require((problem.column ?? 1) >= 1, "a column below 1")
        }
        for value in first.values where value.key.hasSuffix("apiToken.value") && value.origin != "default" {
            try require(value.value == "<redacted>", "a secret is shown as \(value.key)")
        }
    }
}

/// A file that is deleted with its owner.
private struct ConfigFile: ~Copyable {
    private let path: String

    init?(_ bytes: [UInt8]) {
        let name = "cloakroom-fuzz-\(ProcessInfo.processInfo.processIdentifier)-\(UInt64.random(in: 0...(.max)))"
        path = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
        guard FileManager.default.createFile(atPath: path, contents: Data(bytes)) else { return nil }
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func load() -> (problems: [ConfigDiagnostic], values: [EffectiveValue]) {
        do throws(ConfigDiagnostics) {
            return ([], try loadConfig(ConfigSources(file: path)).values)
        } catch {
            return (error.problems, [])
        }
    }
}

private enum ConfigTexts {
    static let families: [LinearTime.Family] = [
        .numbered("many keys", separator: "\n") { "key\($0): \($0)" },
        .numbered("many keys, one of them duplicate", suffix: "\nkey0: 1\n", separator: "\n") { "key\($0): \($0)" },
        .numbered("many routes", prefix: "routes:\n", separator: "\n") {
            "- path: /a\($0)\n  methods: [GET]"
        },
        .repeated("routes with mistakes", "- pth: /a\n", prefix: "routes:\n"),
        .repeated("items", "a, ", prefix: "session: [", suffix: "a]"),
        .repeated("unclosed lists", "["), .repeated("unclosed mappings", "{a: "),
        .repeated("nested items", "- "), .repeated("comments", "# a\n"), .repeated("empty lines", "\n"),
        .repeated("blanks", " "), .repeated("escapes", "\\u0041", prefix: "session: \"", suffix: "\""),
        .repeated("quotes", "''", prefix: "session: '", suffix: "'"),
        .repeated("one long value", "a", prefix: "session: "), .repeated("one long key", "a", suffix: ": 1"),
        .repeated("lines of text", "  a\n", prefix: "session: |\n"),
        .repeated("folded lines", "  a\n", prefix: "session: >\n"),
        .numbered("anchors", separator: "\n") { "key\($0): &a\($0) b" },
        .repeated("aliases", ", *a", prefix: "session: [&a b", suffix: "]"),
        .repeated("documents", "---\na: b\n"), .repeated("tags", "!!str "), .repeated("tabs", "\t"),
    ]
    static let wholeFamilies: [LinearTime.Family] = [
        .repeated("one key", "session:\n"),
        .numbered("unknown keys", separator: "\n") { "key\($0): \($0)" },
        .numbered("routes", prefix: "routes:\n", separator: "\n") { "- path: /a\($0)\n  methods: [GET]" },
        .repeated("routes with mistakes", "- pth: /a\n", prefix: "routes:\n"),
        .numbered("upstreams", prefix: "upstreams:\n", separator: "\n") {
            "  u\($0): {targets: [\"http://127.0.0.1:\($0)\"]}"
        },
        .numbered("long unknown keys", separator: "\n") { String(repeating: "a", count: 200) + "\($0): 1" },
    ]
}
