import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
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
        try expect(warnings(directory), equals: [])
        try change(0o604, "token", in: directory)
        try expect(
            warnings(directory),
            equals: [
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
        try expect(warnings(directory), equals: [])
        try change(0o644, "in/data", in: directory)
        try expect(warnings(directory).count, equals: 1)
        try change(0o750, "in", in: directory)
        try expect(warnings(directory), equals: [])
    }

    @Test("A secret file, a folder above it, or a configuration that others can write is a warning")
    func writable() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing("{ value: demo }", with: "{ valueFile: in/token }"))
        try FileManager.default.createDirectory(atPath: directory.path + "/in", withIntermediateDirectories: true)
        try directory.write(Self.canary, to: "in/token")
        // The group of the file may write it.
        for (path, mode) in [("cloakroom.yaml", 0o664), ("in", 0o770), ("in/token", 0o660)] {
            try change(mode, path, in: directory)
        }
        try expect(warnings(directory), equals: [])
        let others = "can be changed or replaced by other users of this machine"
        let remedy = "(check the owner and the write permissions of it and of the folders above it)"
        let secret =
            "cloakroom.yaml:6:28: warning: upstreams.api.apiToken.valueFile: \"in/token\" \(others) \(remedy)"
        try change(0o662, "in/token", in: directory)
        try expect(warnings(directory), equals: [secret])
        try change(0o660, "in/token", in: directory)
        try change(0o772, "in", in: directory)
        try expect(warnings(directory), equals: [secret])
        // Only the owner of a file can replace it in a folder with the sticky bit.
        try change(0o1772, "in", in: directory)
        try expect(warnings(directory), equals: [])
        try change(0o666, "cloakroom.yaml", in: directory)
        try expect(warnings(directory), equals: ["cloakroom.yaml: warning: \"cloakroom.yaml\" \(others) \(remedy)"])
        var sources = directory.sources()
        sources.isOffline = true
        try expect(loadConfig(sources).warnings, equals: [])
    }

    @Test("A device or a FIFO is read neither as a secret nor as the configuration", .timeLimit(.minutes(1)))
    func special() throws {
        let directory = try ConfigFixture(ConfigFixture.good.replacing("{ value: demo }", with: "{ valueFile: token }"))
        try directory.link("token", to: "/dev/zero")
        expect(directory.valueErrors().map { $0.contains("must be a file with content") }, equals: [true])
        let remedy = "(grant read permission to the gateway's user; a pipe or device is not read)"
        let problem =
            "cloakroom.yaml:6:28: upstreams.api.apiToken.valueFile: must be a readable file: \"token\" \(remedy)"
        try FileManager.default.removeItem(atPath: directory.path + "/token")
        expect(mkfifo(directory.path + "/token", 0o600), equals: 0)
        expect(directory.valueErrors(), equals: [problem])
        try FileManager.default.removeItem(atPath: directory.path + "/cloakroom.yaml")
        expect(mkfifo(directory.path + "/cloakroom.yaml", 0o600), equals: 0)
        expect(
            directory.valueErrors(), equals: ["cloakroom.yaml: must be a readable file: \"cloakroom.yaml\" \(remedy)"])
    }

    @Test("A folder of the session database in which others can create files is a warning")
    func databaseFolder() throws {
        let store = "session:\n  store: sqlite\n  sqlite: { path: db/a }\n  secrets: [\(Self.canary)]\n"
        let directory = try ConfigFixture(ConfigFixture.good.replacing("session:\n", with: store))
        try FileManager.default.createDirectory(atPath: directory.path + "/db", withIntermediateDirectories: true)
        try change(0o700, "db", in: directory)
        try expect(warnings(directory), equals: [])
        try change(0o1777, "db", in: directory)
        try expect(
            warnings(directory).map { $0.contains("session.sqlite.path: \"db\" can be changed") }, equals: [true])
    }

    @Test("The owner of a file, of a folder above it, or of a link to it can write it")
    func owners() throws {
        let directory = try ConfigFixture()
        let file = directory.path + "/cloakroom.yaml"
        try directory.link("link", to: "cloakroom.yaml")
        // Root can create a file of another user.
        let isRoot = geteuid() == 0
        let owner = isRoot ? 12_345 : geteuid()
        if isRoot { expect(chown(file, owner, 0), equals: 0) }
        for path in [file, directory.path + "/link"] {
            expect(!FileAccess.isWritable(path, byOthersThan: owner, getegid()))
            expect(FileAccess.isWritable(path, byOthersThan: owner + 1, getegid()))
        }
        if isRoot {
            expect(chown(file, 0, 0) == 0 && lchown(directory.path + "/link", owner, 0) == 0)
            expect(FileAccess.isWritable(directory.path + "/link", byOthersThan: 0, 0))
            expect(!FileAccess.isWritable(file, byOthersThan: 0, 0))
        }
    }

    @Test("A world-readable key file is a warning")
    func keyFile() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing(
                "127.0.0.1:0\n", with: "127.0.0.1:0\n    tls: { certificateFile: a.crt, keyFile: a.key }\n"))
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "a.crt")
        try directory.write("-----BEGIN PRIVATE KEY-----\n", to: "a.key")
        try change(0o600, "a.key", in: directory)
        try expect(warnings(directory), equals: [])
        try change(0o644, "a.key", in: directory)
        let place = "cloakroom.yaml:3:45: warning: listeners.0.tls.keyFile: \"a.key\" can be read by every user"
        try expect(warnings(directory).map { $0.hasPrefix(place) }, equals: [true])
    }

    @Test("A secret in a flag is a warning that suggests the right place and does not print the secret")
    func flag() throws {
        let directory = try ConfigFixture()
        let warnings = try warnings(
            directory, overrides: [("admin.token", Self.canary), ("session.idleTimeout", "5m")])
        expect(warnings.count, equals: 1)
        let warning = warnings.first ?? ""
        expect(warning.hasPrefix("--set: warning: admin.token: a secret on the command line"), "\(warning)")
        expect(warning.contains("set CLOAKROOM_ADMIN_TOKEN, or name a file that holds it in admin.tokenFile"))
        expect(!warning.contains(Self.canary))
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
                expect(!text.contains("canary-e02d"))
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
        expect(report.exitCode, equals: 0, "\(report.text)")
        expect(
            report.text.hasSuffix(": ok (1 route, 1 upstream, secrets and certificates not read)\n"), "\(report.text)")
        // A check that is not offline reports each missing file.
        try expect(ConfigFixture(Self.offlineYAML).valueErrors().count, equals: 12)
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
        expect(report.exitCode, equals: 1)
        expect(report.text.split(separator: "\n").count, equals: 1, "\(report.text)")
        expect(report.text.contains(": \(key): "), "\(report.text)")
    }
}
