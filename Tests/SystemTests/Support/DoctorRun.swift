import Foundation
import TestSupport
import Testing

/// A run of `cloakroom doctor` as a process, and what it reports.
struct DoctorRun {
    /// The part of the JSON document that the tests check.
    struct Report: Decodable {
        struct Section: Decodable {
            var identity, kind: String
            var steps: [Step]
        }
        struct Step: Decodable {
            struct Call: Decodable {
                var method, url: String
                var fields: [String]
                var status: Int?
                var contentType: String?
                var bytes: Int?
                var milliseconds: Double
            }
            struct Lookup: Decodable {
                var setting, path, result: String
            }
            struct Change: Decodable {
                var key, advice: String
            }
            var step, outcome: String
            var facts: [String]
            var calls: [Call]
            var lookups: [Lookup]
            var keys: [String]?
            var problem: String?
            var changes: [Change]
        }
        var passed: Bool
        var identities: [Section]

        func step(_ name: String) -> Step? {
            identities.flatMap(\.steps).first { $0.step.hasPrefix(name) }
        }
    }

    /// The password of the mock API's user.
    static let password = "secret"

    let ending: ChildProgram.Ending
    let output, errors: String
    let report: Report

    /// Runs the command with `--json` in a folder with the configuration.
    init(
        yaml: String, user: String = "jo@example.com", password: String = Self.password, set: [String] = [],
        more: [String] = []
    ) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(yaml, to: "cloakroom.yaml")
        try directory.write(password + "\n", to: "password")
        let result = try await ChildProgram.run(
            try Executables.cloakroom(),
            ["doctor", "--config", "cloakroom.yaml", "--user", user, "--password-file", "password", "--json"]
                + set.flatMap { ["--set", $0] } + more, directory: directory.url)
        report = try require(
            try? JSONDecoder().decode(Report.self, from: Data(result.output.utf8)), "\(result.output)\(result.errors)")
        (ending, output, errors) = (result.ending, result.output, result.errors)
    }

    func step(_ name: String) throws -> Report.Step { try require(report.step(name), "\(output)\(errors)") }
}
