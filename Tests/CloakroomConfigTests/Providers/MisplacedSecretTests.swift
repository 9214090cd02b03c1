import CloakroomConfig
import Foundation
import TestSupport
import Testing

/// Secrets as values of other keys must not appear in diagnostics, which are logged and shown on the status page.
@Suite("Misplaced secrets")
struct MisplacedSecretTests {
    static let canary = "canary-7f3a"

    /// Forms of secrets: a word; base64 with a slash in the middle, at the beginning or at the end; a path; a long one.
    static let secrets = [
        canary, "\(canary)/f+g=", "/\(canary)", "//\(canary)", "\(canary)/", "a/b/\(canary)", "../\(canary)/x",
        String(repeating: canary, count: 40),
    ]

    /// The sections with keys for secret files, to be appended to the valid configuration, and the key.
    static let twins = [
        ("admin: { tokenFile: \"VALUE\" }", "admin.tokenFile"),
        ("session: { secretsFile: \"VALUE\", cookie: { secure: false } }", "session.secretsFile"),
        (
            "session: { store: valkey, valkey: { addresses: [\"a:1\"], passwordFile: \"VALUE\" } }",
            "session.valkey.passwordFile"
        ),
        (
            "session: { valkey: { addresses: [\"a:1\"], sentinelPrimary: a, sentinelPasswordFile: \"VALUE\" } }",
            "session.valkey.sentinelPasswordFile"
        ),
        ("tracing: { otlp: { headersFile: \"VALUE\" } }", "tracing.otlp.headersFile"),
        ("upstreams: { api: { apiToken: { valueFile: \"VALUE\" } } }", "upstreams.api.apiToken.valueFile"),
    ]

    /// The texts and the JSON of all reports on a configuration.
    private func reports(_ sources: ConfigSources) -> String {
        [
            CommandReport.checkConfig(sources), CommandReport.printConfig(sources), CommandReport.routes(sources),
            CommandReport.explain(sources, method: "GET", target: "/episodes"),
        ].map { $0.text + $0.json }.joined()
    }

    @Test("A secret instead of the path of its file is not printed, for each key", arguments: twins, secrets)
    func twin(_ twin: (yaml: String, key: String), _ secret: String) throws {
        let section = twin.yaml.replacing("VALUE", with: secret)
        let name = section.prefix { $0 != ":" }
        // If the valid configuration already contains the section, the file consists of this section only.
        let isThere = ConfigFixture.good.contains("\n\(name):")
        let directory = try ConfigFixture((isThere ? "" : ConfigFixture.good) + section + "\n")
        let report = reports(directory.sources())
        expect(report.contains("must be an existing file"), "\(report)")
        expect(report.contains(twin.key), "\(report)")
        expect(!report.contains(Self.canary), "\(report)")
    }

    @Test("A secret instead of a path is not printed from a variable or a flag either", arguments: secrets)
    func elsewhere(_ secret: String) throws {
        let directory = try ConfigFixture()
        for sources in [
            directory.sources(environment: ["CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALUE_FILE": secret]),
            directory.sources(environment: ["CLOAKROOM_ADMIN_TOKEN_FILE": secret]),
            directory.sources(overrides: [("tracing.otlp.headersFile", secret)]),
        ] {
            let report = reports(sources)
            expect(report.contains("must be an existing file"), "\(report)")
            expect(!report.contains(Self.canary), "\(report)")
        }
    }

    @Test("An unused path is printed only if the file exists")
    func notRead() throws {
        let yaml = ConfigFixture.good.replacing("{ value: demo }", with: "{ valueFile: \(Self.canary) }")
        let directory = try ConfigFixture(yaml)
        let sources = directory.sources(overrides: [("upstreams.api.apiToken.value", "other")])
        expect(CommandReport.printConfig(sources).exitCode, equals: 0)
        expect(!reports(sources).contains(Self.canary))
        try directory.write("x", to: Self.canary)
        expect(CommandReport.printConfig(sources).text.contains("valueFile"))
        expect(CommandReport.printConfig(sources).text.contains(Self.canary))
    }

    private func expectHidden(_ invalid: [ConfigSources]) {
        for sources in invalid {
            let report = CommandReport.checkConfig(sources)
            expect(report.exitCode, equals: 1)
            expect(!report.text.contains(Self.canary), "\(report.text)")
        }
    }

    @Test(
        "An address that contains a key is not printed",
        arguments: [
            "collector:4318/v1?key=CANARY", "collector?key=CANARY", "grpc://c:4317/?key=CANARY", "CANARY",
            "grpc://u:CANARY@c", "u:CANARY@c", "http://c/CANARY path", "http://c:0/CANARY", "http:///CANARY",
            "http://c/v1#CANARY", "ftp://c/CANARY", "https://c:x/CANARY?a",
        ])
    func collector(_ text: String) throws {
        let text = text.replacing("CANARY", with: Self.canary)
        let inFile = try ConfigFixture(ConfigFixture.good + "tracing: { otlp: { endpoint: \"\(text)\" } }\n")
        let directory = try ConfigFixture()
        expectHidden([
            inFile.sources(), directory.sources(overrides: [("tracing.otlp.endpoint", text)]),
            directory.sources(environment: ["CLOAKROOM_TRACING_OTLP_ENDPOINT": text]),
            directory.sources(environment: ["OTEL_EXPORTER_OTLP_ENDPOINT": text]),
            directory.sources(environment: ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": text]),
        ])
    }

    @Test(
        "A target that contains a key is not printed",
        arguments: [
            "http://h/?key=CANARY", "http://h?key=CANARY", "https://h:1/CANARY", "https://u:CANARY@h", "h?key=CANARY",
            "h:1/CANARY", "http://h#CANARY", "ftp://h/?key=CANARY", "unix:CANARY", "unix:a?CANARY", "h2://h?CANARY",
        ])
    func target(_ text: String) throws {
        let text = text.replacing("CANARY", with: Self.canary)
        let inFile = try ConfigFixture(ConfigFixture.good.replacing("http://127.0.0.1:9000", with: text))
        let directory = try ConfigFixture()
        expectHidden([
            inFile.sources(), directory.sources(overrides: [("upstreams.api.targets", text)]),
            directory.sources(environment: ["CLOAKROOM_UPSTREAMS_API_TARGETS": text]),
        ])
    }

    @Test(
        "An origin, a session store address or a PEM key that contains a secret is not printed",
        arguments: [
            ("csrf.trustedOrigins", "https://u:CANARY@*.a"), ("csrf.trustedOrigins", "ftp://a?CANARY"),
            ("cors.origins", "https://*.a/?CANARY"), ("cors.origins", "https://a?CANARY"),
            ("session.valkey.addresses", "redis://:CANARY@a:1"), ("session.valkey.addresses", "redis://a/CANARY"),
            ("session.valkey.addresses", "a?password=CANARY"),
            ("upstreams.api.tls.keyFile", "-----BEGIN PRIVATE KEY----- CANARY"),
            ("listeners.0.tls.keyFile", "-----BEGIN PRIVATE KEY-----\nCANARY"),
        ])
    func others(_ key: String, _ text: String) throws {
        let directory = try ConfigFixture()
        let report = CommandReport.checkConfig(
            directory.sources(overrides: [(key, text.replacing("CANARY", with: Self.canary))]))
        expect(report.exitCode, equals: 1)
        expect(report.text.contains(key), "\(report.text)")
        expect(!report.text.contains(Self.canary), "\(report.text)")
    }
}
