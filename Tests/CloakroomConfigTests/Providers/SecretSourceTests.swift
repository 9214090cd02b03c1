import CloakroomConfig
import CloakroomCore
import Foundation
import Testing

@Suite("Sources of secrets")
struct SecretSourceTests {
    private static let canary = "canary-e02d-canary-e02d-canary-e02d"
    private static let openToAll = "can be read by every user of this machine"

    private func change(_ mode: Int, _ name: String, in directory: ConfigFixture) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: directory.path + "/" + name)
    }

    /// The warnings, without the path of the folder.
    private func warnings(_ directory: ConfigFixture, overrides: [(key: String, value: String)] = []) throws -> [String]
    {
        try directory.load(overrides: overrides).warnings.map {
            $0.description.replacingOccurrences(of: directory.path + "/", with: "")
        }
    }

    @Test("A world-readable secret file is a warning with its line; a group-readable one is not")
    func secretFile() throws {
        let directory = try ConfigFixture(ConfigFixture.good.replacing("{ value: demo }", with: "{ valueFile: token }"))
        try directory.write(Self.canary, to: "token")
        try change(0o640, "token", in: directory)
        #expect(try warnings(directory) == [])
        try change(0o604, "token", in: directory)
        #expect(
            try warnings(directory) == [
                "cloakroom.yaml:6:28: warning: upstreams.api.apiToken.valueFile: \"token\" \(Self.openToAll)"
                    + " (remove the permissions of others: chmod o-rwx)"
            ])
    }

    @Test(
        "Links are resolved before the check, and folders that others cannot traverse protect their files")
    func linksAndDirectories() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing("{ value: demo }", with: "{ valueFile: in/token }"))
        try FileManager.default.createDirectory(atPath: directory.path + "/in", withIntermediateDirectories: true)
        try directory.write(Self.canary, to: "in/data")
        try directory.link("in/token", to: "data")
        try change(0o600, "in/data", in: directory)
        try change(0o755, "in", in: directory)
        #expect(try warnings(directory) == [])
        try change(0o644, "in/data", in: directory)
        #expect(try warnings(directory).count == 1)
        try change(0o750, "in", in: directory)
        #expect(try warnings(directory) == [])
    }

    @Test("A world-readable key file is a warning")
    func keyFile() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing(
                "127.0.0.1:0\n", with: "127.0.0.1:0\n    tls: { certificateFile: a.crt, keyFile: a.key }\n"))
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "a.crt")
        try directory.write("-----BEGIN PRIVATE KEY-----\n", to: "a.key")
        try change(0o600, "a.key", in: directory)
        #expect(try warnings(directory) == [])
        try change(0o644, "a.key", in: directory)
        let place = "cloakroom.yaml:3:45: warning: listeners.0.tls.keyFile: \"a.key\" can be read by every user"
        #expect(try warnings(directory).map { $0.hasPrefix(place) } == [true])
    }

    @Test("A secret in a flag is a warning that suggests the right place and does not print the secret")
    func flag() throws {
        let directory = try ConfigFixture()
        let warnings = try warnings(
            directory, overrides: [("admin.token", Self.canary), ("session.idleTimeout", "5m")])
        #expect(warnings.count == 1)
        let warning = warnings.first ?? ""
        #expect(warning.hasPrefix("--set: warning: admin.token: a secret on the command line"), "\(warning)")
        #expect(warning.contains("set CLOAKROOM_ADMIN_TOKEN, or name a file that holds it in admin.tokenFile"))
        #expect(!warning.contains(Self.canary))
    }

    @Test("Rule 41: types that hold configuration sources print none of their values, in any representation")
    func printing() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing("value: demo", with: "value: \(Self.canary)-file"))
        let sources = directory.sources(
            environment: ["CLOAKROOM_ADMIN_TOKEN": Self.canary, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=\(Self.canary)"],
            overrides: [("session.secrets", Self.canary)])
        let config = try loadConfig(sources)
        struct Holder { let sources: ConfigSources, config: LoadedConfig }
        let holder = Holder(sources: sources, config: config)
        for value in [sources, config, holder, [sources], ["a": config]] as [Any] {
            var dumped = ""
            dump(value, to: &dumped)
            for text in ["\(value)", String(describing: value), String(reflecting: value), dumped] {
                #expect(!text.contains("canary-e02d"))
            }
        }
    }

    // MARK: - Offline

    private static let offlineYAML = """
        listeners:
          - address: 127.0.0.1:0
            tls: { certificateFile: /nowhere/tls.crt, keyFile: /nowhere/tls.key, clientCertificates: { caFile: /nowhere/ca } }
        admin: { tokenFile: /nowhere/admin-token }
        upstreams:
          api:
            targets: ["https://a.test"]
            tls: { caFile: /nowhere/ca, certificateFile: /nowhere/a, keyFile: /nowhere/b }
            apiToken: { valueFile: /nowhere/token }
            signIn: { path: /auth }
        session:
          store: sqlite
          secretsFile: /nowhere/secrets
          sqlite: { path: /nowhere/sessions.sqlite }
          valkey: { passwordFile: /nowhere/password }
        tracing: { otlp: { headersFile: /nowhere/headers } }
        routes:
          - { name: a, methods: [GET], path: /a, requiresAuthorization: true, inject: [apiToken, bearer] }

        """

    private func offline(_ yaml: String) throws -> CommandReport {
        try ConfigFixture(yaml).report { sources in
            var sources = sources
            sources.isOffline = true
            return CommandReport.checkConfig(sources, isStrict: true) { _ in
                [ConfigFinding(key: ["a"], message: "a file was read", suggestion: "")]
            }
        }
    }

    @Test("An offline check opens none of the files that a configuration references")
    func offline() throws {
        let report = try offline(Self.offlineYAML)
        #expect(report.exitCode == 0, "\(report.text)")
        #expect(
            report.text.hasSuffix(": ok (1 route, 1 upstream, secrets and certificates not read)\n"), "\(report.text)")
        // A check that is not offline reports each missing file.
        #expect(try ConfigFixture(Self.offlineYAML).valueErrors().count == 12)
    }

    @Test(
        "An offline check finds all other errors",
        arguments: [
            ("path: /a,", "path: a,", "routes.0.path"), ("[apiToken, bearer]", "[apitokn]", "routes.0.inject.0"),
            ("tokenFile: /nowhere/admin-token", "token: short", "admin.token"),
            ("secretsFile", "secretFile", "session.secretFile"),
            ("keyFile: /nowhere/tls.key, ", "", "listeners.0.tls.keyFile"),
            ("store: sqlite", "store: disk", "session.store"),
            ("valueFile: /nowhere/token", "value: '${TOKEN}'", "upstreams.api.apiToken.value"),
        ])
    func offlineValueErrors(_ piece: String, _ change: String, _ key: String) throws {
        let report = try offline(Self.offlineYAML.replacing(piece, with: change))
        #expect(report.exitCode == 1)
        #expect(report.text.split(separator: "\n").count == 1, "\(report.text)")
        #expect(report.text.contains(": \(key): "), "\(report.text)")
    }
}
