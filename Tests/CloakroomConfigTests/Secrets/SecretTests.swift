import CloakroomConfig
import CloakroomCore
import Foundation
import Testing

@Suite struct SecretTests {
    static let canary = "canary-7f3a"

    private func folder(_ apiToken: String) throws -> ConfigFolder {
        try ConfigFolder(ConfigFolder.good.replacingOccurrences(of: "{ value: demo }", with: apiToken))
    }

    private func token(_ config: LoadedConfig) -> Secret? { config.plan.upstreams[0].apiToken?.value }

    @Test func aSecretIsReadFromItsFileThroughALink() throws {
        let folder = try folder("{ valueFile: token }")
        try folder.write("\(Self.canary)\n", to: "..data")
        try folder.link("token", to: "..data")
        let config = try folder.load()
        #expect(token(config) == Secret(Self.canary))
        let value = config.values.first { $0.key == "upstreams.api.apiToken.value" }
        #expect(value?.value == "<redacted>")
        #expect(value?.origin == "secret file \(folder.path)/token")
    }

    @Test func theEnvironmentGoesBeforeSecretFilesAndTheseBeforeTheFile() throws {
        let variable = "CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALUE"
        let named = try folder("{ valueFile: token }")
        try named.write("from-file", to: "token")
        #expect(token(try named.load(environment: [variable: "from-variable"])) == Secret("from-variable"))
        let inline = try folder("{ value: inline }")
        try inline.write("from-file", to: "token")
        #expect(token(try inline.load(environment: [variable + "_FILE": "token"])) == Secret("from-file"))
        #expect(token(try inline.load(overrides: [("upstreams.api.apiToken.value", "flag")])) == Secret("flag"))
    }

    @Test func aSecretAndItsFileInOnePlaceAreAMistake() throws {
        let folder = try folder("{ value: \(Self.canary), valueFile: token }")
        try folder.write("x", to: "token")
        #expect(
            folder.mistakes() == [
                "cloakroom.yaml:6:48: upstreams.api.apiToken.valueFile: stands beside value (keep one of the two)"
            ])
    }

    @Test(arguments: [
        ("", "\"token\" is empty (put the secret into it)"),
        ("\n", "\"token\" is empty (put the secret into it)"),
        (
            "\(canary)\n\n",
            "holds characters that cannot stand in a header field"
                + " (use visible ASCII; a file may end with one line break)"
        ),
        (
            "\(canary)\r\nX-Other: 1",
            "holds characters that cannot stand in a header field"
                + " (use visible ASCII; a file may end with one line break)"
        ),
        (
            "\(canary)é",
            "holds characters that cannot stand in a header field"
                + " (use visible ASCII; a file may end with one line break)"
        ),
    ])
    func aFileThatCannotBeASecretIsAMistake(_ content: String, _ mistake: String) throws {
        let folder = try folder("{ valueFile: token }")
        try folder.write(content, to: "token")
        #expect(folder.mistakes() == ["cloakroom.yaml:6:28: upstreams.api.apiToken.valueFile: \(mistake)"])
    }

    @Test func aSecretFileThatIsNotThereOrAFolderIsAMistake() throws {
        let place = "cloakroom.yaml:6:28: upstreams.api.apiToken.valueFile: "
        let missing =
            "there is no such file (create it, or correct the path;"
            + " a secret itself stands in the key without File at its end)"
        #expect(try folder("{ valueFile: token }").mistakes() == [place + missing])
        let path = NSTemporaryDirectory() + "nobody-has-this"
        #expect(
            try folder("{ valueFile: \(path) }").mistakes() == [
                place + "there is no file \"\(path)\" (create it, or correct the path)"
            ])
        #expect(try folder("{ valueFile: / }").mistakes() == [place + "\"/\" is a folder (name a file)"])
        let dangling = try folder("{ valueFile: token }")
        try dangling.link("token", to: "nowhere")
        #expect(dangling.mistakes() == [place + missing])
    }

    @Test func noSecretStandsInAnyReportOrMistake() throws {
        let folder = try folder("{ value: \(Self.canary) }")
        let bad = [
            "{ value: \"\(Self.canary)\\n\" }", "{ value: [\(Self.canary)] }", "{ value: { a: \(Self.canary) } }",
            "{ vlaue: \(Self.canary) }", "{ value: \(Self.canary), value: \(Self.canary) }",
            "{ value: \(Self.canary), valueFile: nowhere }", "{ value: \(Self.canary)", "{ value: \"\(Self.canary) }",
            "{ value: @\(Self.canary) }", "{ header: Host, value: \(Self.canary) }",
        ]
        for apiToken in bad {
            let report = Report.checkConfig(try self.folder(apiToken).sources())
            #expect(report.exitCode == 1, "\(apiToken)")
            #expect(!report.text.contains(Self.canary), "\(apiToken)")
        }
        let environment = ["CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALU": Self.canary]
        let overrides = [(key: "upstreams.api.apiToken.value", value: Self.canary + "\n")]
        for report in [
            Report.printConfig(folder.sources()), Report.explain(folder.sources(), method: "GET", target: "/episodes"),
            Report.routes(folder.sources()), Report.checkConfig(folder.sources(environment: environment)),
            Report.checkConfig(folder.sources(overrides: overrides)),
        ] {
            #expect(!report.text.isEmpty)
            #expect(!report.text.contains(Self.canary))
        }
        #expect(!String(reflecting: try folder.load()).contains(Self.canary))
    }
}
