import CloakroomConfig
import Foundation
import TestSupport
import Testing

/// A temporary folder with a configuration, deleted after the test.
final class ConfigFixture {
    static let fileName = "cloakroom.yaml"

    /// Five lines: a listener and an upstream.
    static let head = """
        listeners:
          - address: 127.0.0.1:0
        upstreams:
          api:
            targets: ["http://127.0.0.1:9000"]
        """
    /// Six lines: a listener behind a proxy and an upstream, whose further keys may follow.
    static let proxied = head.replacing("upstreams:", with: "    behindTLSProxy: true\nupstreams:")
    /// Four lines: an identity, whose further keys may follow.
    static let company = """
        identities:
          company:
            issuer: https://id.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
        """

    /// A valid configuration. Tests depend on its line numbers.
    static let good = """
        \(head)
            apiToken: { value: demo }
            signIn: { path: /auth }
          other:
            targets: ["http://127.0.0.1:9001"]
        session:
          idleTimeout: 15m
          cookie: { secure: false }
        routes:
          - name: episodes
            methods: [GET]
            path: /episodes
            upstream: api
            requiresAuthorization: false
            inject: [apiToken]
          - name: video
            methods: [GET]
            path: /videos/{id}
            upstream: api
            requiresAuthorization: true
            inject: [apiToken, bearer]

        """

    private let directory: TemporaryDirectory

    init(_ yaml: String = ConfigFixture.good) throws {
        directory = try TemporaryDirectory()
        try write(yaml, to: Self.fileName)
    }

    var path: String { directory.path }

    func write(_ text: String, to name: String) throws {
        try directory.write(text, to: name)
    }

    func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: path + "/" + name, withDestinationPath: target)
    }

    func sources(
        environment: [String: String] = [:], overrides: [(key: String, value: String)] = []
    ) -> ConfigSources {
        ConfigSources(file: path + "/" + Self.fileName, environment: environment, overrides: overrides)
    }

    /// The report of a command on the folder's configuration. The folder exists until the command has completed.
    func report(_ command: (ConfigSources) -> CommandReport) -> CommandReport {
        withExtendedLifetime(self) { command(sources()) }
    }

    /// The report of `routes --diff` if this configuration replaces another.
    func changes(since old: ConfigFixture) -> CommandReport {
        report { new in old.report { CommandReport.routes(new, comparedWith: $0) } }
    }

    func load(
        environment: [String: String] = [:], overrides: [(key: String, value: String)] = []
    ) throws -> LoadedConfig {
        try loadConfig(sources(environment: environment, overrides: overrides))
    }

    /// The errors, one line each, without the path of the folder.
    func valueErrors(
        environment: [String: String] = [:], overrides: [(key: String, value: String)] = []
    ) -> [String] {
        do throws(ConfigDiagnostics) {
            _ = try loadConfig(sources(environment: environment, overrides: overrides))
            return []
        } catch {
            return error.problems.map { $0.description.replacingOccurrences(of: path + "/", with: "") }
        }
    }

    /// The errors of the valid configuration after one replacement in its text.
    static func valueErrors(replacing piece: String, by other: String) throws -> [String] {
        guard let range = good.range(of: piece) else { throw ReplacementNotFound(piece: piece) }
        return try ConfigFixture(good.replacingCharacters(in: range, with: other)).valueErrors()
    }

    /// A text with a replacement of each occurrence of a piece, of which there is one at least.
    static func changed(_ text: String, _ piece: String, _ other: String) throws -> String {
        guard text.contains(piece) else { throw ReplacementNotFound(piece: piece) }
        return text.replacing(piece, with: other)
    }

    /// The errors of a configuration with a replacement of each occurrence of a piece.
    static func valueErrors(in text: String, replacing piece: String, by other: String) throws -> [String] {
        try ConfigFixture(changed(text, piece, other)).valueErrors()
    }

    /// Expects an error of a configuration with a replacement.
    /// - Parameter place: Line and column, or the beginning of them; empty for any.
    static func expectError(
        _ message: String, at place: String = "", in text: String, replacing piece: String, by other: String
    ) throws {
        let errors = try valueErrors(in: text, replacing: piece, by: other)
        expect(
            errors.contains { $0.contains(message) && (place.isEmpty || $0.contains("cloakroom.yaml:\(place)")) },
            "\(errors)")
    }

    struct ReplacementNotFound: Error {
        let piece: String
    }
}

extension CommandReport {
    /// The lines of the text, with one space between columns.
    var rows: [String] { text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") } }
}

/// Rows of a table in text: a line with what is given, and below it what is expected, each line after an arrow. `\n` is a
/// line break, and `\\` a backslash.
func rows(_ text: String) -> [(given: String, expected: [String])] {
    var rows: [(given: String, expected: [String])] = []
    for line in text.split(separator: "\n") {
        let isExpected = line.hasPrefix("→ ")
        let parts = line.dropFirst(isExpected ? 2 : 0).components(separatedBy: #"\\"#)
        let text = parts.map { $0.replacing(#"\n"#, with: "\n") }.joined(separator: #"\"#)
        if isExpected, !rows.isEmpty {
            rows[rows.count - 1].expected.append(text)
        } else {
            rows.append((text, []))
        }
    }
    return rows
}

/// The same for rows with one expected line each.
func pairs(_ text: String) -> [(String, String)] { rows(text).map { ($0.given, $0.expected.joined(separator: "\n")) } }
