import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

@Suite struct SecretTests {
    static let canary = "canary-7f3a"

    private func directory(_ apiToken: String) throws -> ConfigFixture {
        try ConfigFixture(ConfigFixture.good.replacingOccurrences(of: "{ value: demo }", with: apiToken))
    }

    private func token(_ config: LoadedConfig) -> Secret? { config.configuration.upstreams[0].apiToken?.value }

    @Test func aSecretIsReadFromItsFileThroughALink() throws {
        let directory = try directory("{ valueFile: token }")
        try directory.write("\(Self.canary)\n", to: "..data")
        try directory.link("token", to: "..data")
        let config = try directory.load()
        expect(token(config), equals: Secret(Self.canary))
        let value = config.values.first { $0.key == "upstreams.api.apiToken.value" }
        expect(value?.value, equals: "<redacted>")
        expect(value?.origin, equals: "secret file \(directory.path)/token")
    }

    @Test func theEnvironmentGoesBeforeSecretFilesAndTheseBeforeTheFile() throws {
        let variable = "CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALUE"
        let named = try directory("{ valueFile: token }")
        try named.write("from-file", to: "token")
        expect(token(try named.load(environment: [variable: "from-variable"])), equals: Secret("from-variable"))
        let inline = try directory("{ value: inline }")
        try inline.write("from-file", to: "token")
        expect(token(try inline.load(environment: [variable + "_FILE": "token"])), equals: Secret("from-file"))
        expect(token(try inline.load(overrides: [("upstreams.api.apiToken.value", "flag")])), equals: Secret("flag"))
    }

    @Test func aSecretAndItsFileInOnePlaceAreAValueError() throws {
        let directory = try directory("{ value: \(Self.canary), valueFile: token }")
        try directory.write("x", to: "token")
        expect(
            directory.valueErrors(),
            equals: [
                "cloakroom.yaml:6:48: upstreams.api.apiToken.valueFile: conflicts with value (keep one of the two)"
            ])
    }

    private static let visible =
        "must be visible ASCII to fit in a header field (use visible ASCII; a file may end with one line break)"

    @Test(arguments: [
        ("", "must be a file with content: \"token\" (put the secret into it)"),
        ("\n", "must be a file with content: \"token\" (put the secret into it)"),
        ("\(canary)\n\n", visible), ("\(canary)\r\nX-Other: 1", visible), ("\(canary)é", visible),
        (
            String(repeating: "a", count: 65_537),
            "must be a file of at most 64 KiB: \"token\" (name a file that holds the secret only)"
        ),
    ])
    func aFileThatCannotBeASecretIsAValueError(_ content: String, _ valueError: String) throws {
        let directory = try directory("{ valueFile: token }")
        try directory.write(content, to: "token")
        expect(
            directory.valueErrors(), equals: ["cloakroom.yaml:6:28: upstreams.api.apiToken.valueFile: \(valueError)"])
    }

    @Test func aSecretFileThatIsNotThereOrADirectoryIsAValueError() throws {
        let place = "cloakroom.yaml:6:28: upstreams.api.apiToken.valueFile: "
        let missing =
            "must be an existing file (create it, or correct the path;"
            + " a secret itself belongs in the key without File at its end)"
        try expect(directory("{ valueFile: token }").valueErrors(), equals: [place + missing])
        let path = NSTemporaryDirectory() + "nobody-has-this"
        try expect(
            directory("{ valueFile: \(path) }").valueErrors(),
            equals: [
                place + "must be an existing file: \"\(path)\" (create it, or correct the path)"
            ])
        try expect(
            directory("{ valueFile: / }").valueErrors(),
            equals: [
                place + "must be a file, not a folder: \"/\" (name a file)"
            ])
        let dangling = try directory("{ valueFile: token }")
        try dangling.link("token", to: "nowhere")
        expect(dangling.valueErrors(), equals: [place + missing])
    }

    @Test func noSecretStandsInAnyReportOrValueError() throws {
        let directory = try directory("{ value: \(Self.canary) }")
        let bad = [
            "{ value: \"\(Self.canary)\\n\" }", "{ value: [\(Self.canary)] }", "{ value: { a: \(Self.canary) } }",
            "{ vlaue: \(Self.canary) }", "{ value: \(Self.canary), value: \(Self.canary) }",
            "{ value: \(Self.canary), valueFile: nowhere }", "{ value: \(Self.canary)", "{ value: \"\(Self.canary) }",
            "{ value: @\(Self.canary) }", "{ header: Host, value: \(Self.canary) }",
        ]
        for apiToken in bad {
            let report = CommandReport.checkConfig(try self.directory(apiToken).sources())
            expect(report.exitCode, equals: 1, "\(apiToken)")
            expect(!report.text.contains(Self.canary), "\(apiToken)")
            expect(!report.json.contains(Self.canary), "\(apiToken)")
        }
        let environment = ["CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALU": Self.canary]
        let overrides = [(key: "upstreams.api.apiToken.value", value: Self.canary + "\n")]
        for report in [
            CommandReport.printConfig(directory.sources()),
            CommandReport.explain(directory.sources(), method: "GET", target: "/episodes"),
            CommandReport.routes(directory.sources()),
            CommandReport.checkConfig(directory.sources(environment: environment)),
            CommandReport.checkConfig(directory.sources(overrides: overrides)),
        ] {
            expect(!report.text.isEmpty)
            expect(!report.text.contains(Self.canary))
            expect(!report.json.contains(Self.canary))
        }
        expect(!String(reflecting: try directory.load()).contains(Self.canary))
    }
}
