import Foundation
import TestSupport
import Testing

/// `cloakroom init`, as a process.
@Suite("init", .serialized, .timeLimit(.minutes(3)))
struct InitTests {
    private func cloakroom(
        _ arguments: String..., environment: [String: String] = [:], in directory: TemporaryDirectory
    ) async throws -> ChildProgram.Outcome {
        try await ChildProgram.run(
            try Executables.cloakroom(), arguments, directory: directory.url, environment: environment)
    }

    @Test("Two options are sufficient for a file that check-config accepts and only its owner can read")
    func smallest() async throws {
        let directory = try TemporaryDirectory()
        let result = try await cloakroom(
            "init", "--upstream", "https://api.example.com", "--sign-in", "POST /login", in: directory)
        expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
        expect(result.output.contains("cloakroom.yaml: written (1 route)"))
        let attributes = try FileManager.default.attributesOfItem(atPath: directory.path(of: "cloakroom.yaml"))
        expect(attributes[.posixPermissions] as? Int, equals: 0o600)
        try expect(FileManager.default.contentsOfDirectory(atPath: directory.url.path), equals: ["cloakroom.yaml"])
        let check = try await cloakroom("check-config", "--strict", "--config", "cloakroom.yaml", in: directory)
        expect(check.ending, equals: ChildProgram.Ending(status: 0), "\(check.output)")
    }

    @Test("All options, for each credential format", arguments: ["basic", "json", "form", "oauth"])
    func allOptions(format: String) async throws {
        let directory = try TemporaryDirectory()
        try directory.write("canary-token-of-the-api\n", to: "token")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: directory.path(of: "token"))
        let result = try await cloakroom(
            "init", "--upstream", "https://api.example.com:8443", "--sign-in", "POST /login", "--credentials", format,
            "--text-names", "--access-token", "data.token", "--refresh-token", "data.refresh", "--refresh", "/refresh",
            "--revoke", "POST /logout", "--user-path",
            "/me", "--user-id", "data.id", "--api-token-file", "token", "--api-token-header", "X-Key", "--public-url",
            "https://app.example.com", "--output", "my.yaml", in: directory)
        expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
        let check = try await cloakroom("check-config", "--strict", "--config", "my.yaml", in: directory)
        expect(check.ending, equals: ChildProgram.Ending(status: 0), "\(check.output)")
        let values = try await cloakroom("print-config", "--config", "my.yaml", in: directory)
        let effective: [(key: String, value: String)] = [
            ("upstreams.api.signIn.credentials", format), ("upstreams.api.signIn.accessToken", "data.token"),
            ("upstreams.api.refresh.refreshToken", "data.refresh"), ("upstreams.api.user.path", "/me"),
            ("upstreams.api.user.id", "data.id"), ("upstreams.api.apiToken.header", "X-Key"),
            ("accounts.name.kind", "text"), ("session.cookie.secure", "true"),
        ]
        for (key, value) in effective {
            let line = values.output.split(separator: "\n").first { $0.hasPrefix(key + " ") }
            expect(line?.split(separator: " ").dropFirst().first, equals: Substring(value), "\(key)")
        }
        let text = try String(contentsOfFile: directory.path(of: "my.yaml"), encoding: .utf8)
        expect(!text.contains("canary"))
        // The API that returns the refresh token under this name is expected to take it under this name.
        let hasMembers = format == "json" || format == "form"
        for call in ["refresh", "revoke"] {
            let key = "upstreams.api.\(call).members.refreshToken "
            let line = values.output.split(separator: "\n").first { $0.hasPrefix(key) }
            expect(line?.split(separator: " ").dropFirst().first == "refresh", equals: hasMembers, "\(call)")
        }
    }

    @Test(
        "An option without effect is rejected with what it requires",
        arguments: [
            (["--sign-in", "/login", "--name-member", "login"], "--name-member requires --credentials json or form"),
            (
                ["--sign-in", "/login", "--credentials", "oauth", "--password-member", "pin"],
                "--password-member requires --credentials json or form"
            ),
            (["--sign-in", "/login", "--client-id", "a"], "--client-id requires --provider"),
            (["--sign-in", "/login", "--client-secret-file", "a"], "--client-secret-file requires --provider"),
            (
                ["--sign-in", "/login", "--api-token-header", "X-Key"],
                "--api-token-header requires --api-token-file or --api-token-environment"
            ),
            (["--sign-in", "/login", "--user-id", "uid"], "--user-id requires --user"),
            (["--provider", "https://id.example.com", "--access-token", "a"], "--access-token requires --sign-in"),
            (["--provider", "https://id.example.com", "--refresh", "/refresh"], "--refresh requires --sign-in"),
            (["--files", "dist", "--text-names"], "--text-names requires --sign-in"),
            (["--sign-in", "/login", "--password-file", "a"], "--password-file requires --try-user"),
        ])
    func withoutEffect(_ options: [String], _ message: String) async throws {
        let directory = try TemporaryDirectory()
        let result = try await ChildProgram.run(
            try Executables.cloakroom(), ["init", "--upstream", "https://api.example.com"] + options,
            directory: directory.url)
        expect(result.ending.status, equals: 64)
        expect(result.errors.contains("\(message) (write it, or leave "), "\(result.errors)")
        try expect(empty: FileManager.default.contentsOfDirectory(atPath: directory.url.path))
    }

    @Test("A user for the trial whose name is no e-mail address: the option to write; calls that fail: what to change")
    func trialWithName() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("secret\n", to: "password")
        let port = try await BlackholePort(.rejects).port
        let options = [
            "init", "--upstream", "http://127.0.0.1:\(port)", "--sign-in", "/login", "--try-user", "jo",
            "--password-file", "password",
        ]
        let program = try Executables.cloakroom()
        let rejected = try await ChildProgram.run(program, options, directory: directory.url)
        expect(rejected.ending.status, equals: 64)
        expect(rejected.errors.contains("(write --text-names for names that are no e-mail"), "\(rejected.errors)")
        let written = try await ChildProgram.run(program, options + ["--text-names"], directory: directory.url)
        expect(written.ending.status, equals: 0, "\(written.errors)")
        expect(written.output.contains("next:\n  change in cloakroom.yaml what the steps above name\n"))
        let text = try String(contentsOfFile: directory.path(of: "cloakroom.yaml"), encoding: .utf8)
        expect(text.contains("  # Clients sign in with {\"username\": …"), "\(text)")
    }

    @Test("An app with files and an API below /api: links of the app and calls have their routes")
    func app() async throws {
        let directory = try TemporaryDirectory()
        let early = try await cloakroom(
            "init", "--files", "dist", "--api", "http://127.0.0.1:9000", "--output", "early.yaml", in: directory)
        expect(early.output.contains("next:\n  build the app: there is no folder dist\n"), "\(early.output)")
        try FileManager.default.createDirectory(
            atPath: directory.path(of: "dist"), withIntermediateDirectories: true)
        try directory.write("<!doctype html>", to: "dist/index.html")
        let page = try await cloakroom(
            "init", "--files", "dist/index.html", "--api", "http://127.0.0.1:9000", in: directory)
        expect(page.errors.contains("--files must be a folder, not a file (write --files dist)"), "\(page.errors)")
        let written = try await cloakroom(
            "init", "--files", "dist", "--api", "http://127.0.0.1:9000", "--sign-in", "/api/login", "--user", "/api/me",
            "--listener", "127.0.0.1:8081", in: directory)
        expect(written.ending.status, equals: 0, "\(written.errors)")
        let check = try await cloakroom("check-config", "--strict", "--config", "cloakroom.yaml", in: directory)
        expect(check.ending.status, equals: 0, "\(check.output)")
        for (path, route) in [("/episodes/1", "app"), ("/api/episodes", "api"), ("/api/me", "user")] {
            let explained = try await cloakroom("explain", "--config", "cloakroom.yaml", "GET", path, in: directory)
            expect(explained.output.contains("route:          \(route) "), "\(path): \(explained.output)")
        }
        // The paths of this API do not begin with /api.
        let other = try await cloakroom(
            "init", "--files", "dist", "--api", "http://127.0.0.1:9000", "--sign-in", "/sessions", "--user", "/profile",
            "--output", "other.yaml", in: directory)
        expect(other.ending.status, equals: 0, "\(other.errors)")
        let otherCheck = try await cloakroom("check-config", "--strict", "--config", "other.yaml", in: directory)
        expect(otherCheck.ending.status, equals: 0, "\(otherCheck.output)")
        let open = try await cloakroom(
            "init", "--files", "dist", "--api", "http://127.0.0.1:9000", "--output", "open.yaml", in: directory)
        expect(open.ending.status == 0 && !open.output.contains("build the app"), "\(open.errors)\(open.output)")
        let openCheck = try await cloakroom("check-config", "--config", "open.yaml", in: directory)
        expect(openCheck.ending.status, equals: 0, "\(openCheck.output)")
        for file in ["cloakroom.yaml", "other.yaml", "open.yaml"] {
            let proof = try await cloakroom("prove", "--config", file, in: directory)
            expect(proof.ending.status, equals: 0, "\(file): \(proof.output)")
            expect(proof.output.split(separator: "\n").count, equals: 3, "\(file): \(proof.output)")
        }
    }

    @Test("A provider: the configuration has no findings, and the next steps name the redirect URI and the secret")
    func provider() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("canary-client-secret\n", to: "client-secret")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: directory.path(of: "client-secret"))
        let cases: [(options: [String], origin: String)] = [
            ([], "http://127.0.0.1:8080"), (["--public-url", "https://app.example.com"], "https://app.example.com"),
        ]
        for (options, origin) in cases {
            let written = try await ChildProgram.run(
                try Executables.cloakroom(),
                ["init", "--provider", "https://id.example.com/realms/company", "--api", "https://api.example.com"]
                    + options + ["--force"], directory: directory.url)
            expect(written.ending.status, equals: 0, "\(written.errors)")
            expect(written.output.contains("register \(origin)/auth/callback as a redirect URI"), "\(written.output)")
            expect(written.output.contains("write the client secret to client-secret"))
            expect(written.output.contains("\n  open \(origin)\n"), "\(written.output)")
            let check = try await cloakroom("check-config", "--strict", "--config", "cloakroom.yaml", in: directory)
            expect(check.ending.status, equals: 0, "\(check.output)")
            expect(check.output, equals: "cloakroom.yaml: ok (1 route, 1 upstream)\n")
        }
        let both = try await cloakroom(
            "init", "--provider", "https://id.example.com", "--sign-in", "/login", "--api", "https://api.example.com",
            in: directory)
        expect(both.ending.status != 0 && both.errors.contains("--sign-in and --provider: write one of them"))
    }

    @Test("An existing file is replaced only with --force, and stays if the new one is invalid")
    func existingFile() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("mine", to: "cloakroom.yaml")
        let file = directory.path(of: "cloakroom.yaml")
        let plain = try await cloakroom(
            "init", "--upstream", "http://127.0.0.1:9000", "--sign-in", "/auth", in: directory)
        expect(plain.ending.status != 0)
        expect(plain.errors.contains("--force"))
        try expect(String(contentsOfFile: file, encoding: .utf8), equals: "mine")
        let invalid = try await cloakroom(
            "init", "--upstream", "ftp://127.0.0.1:9000", "--sign-in", "/auth", "--force", in: directory)
        expect(invalid.ending.status, equals: 1)
        expect(invalid.errors.contains("upstreams.api.targets"), "\(invalid.errors)")
        try expect(String(contentsOfFile: file, encoding: .utf8), equals: "mine")
        try expect(FileManager.default.contentsOfDirectory(atPath: directory.url.path), equals: ["cloakroom.yaml"])
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: file)
        let forced = try await cloakroom(
            "init", "--upstream", "http://127.0.0.1:9000", "--sign-in", "/auth", "--force", in: directory)
        expect(forced.ending.status, equals: 0, "\(forced.errors)")
        try expect(String(contentsOfFile: file, encoding: .utf8).contains("signIn:"))
        try expect(FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int, equals: 0o640)
    }

    @Test("Standard output needs no folder to write to")
    func standardOutput() async throws {
        let directory = try TemporaryDirectory()
        let result = try await cloakroom(
            "init", "--upstream", "http://127.0.0.1:9000", "--sign-in", "/auth", "--bearer", "Token", "--output", "-",
            environment: ["TMPDIR": directory.path(of: "nowhere")], in: directory)
        expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
        expect(result.output.contains("      scheme: Token\n"), "\(result.output)")
        try expect(empty: FileManager.default.contentsOfDirectory(atPath: directory.url.path))
    }

    @Test("With --api-token-environment the file refers to a variable")
    func tokenInTheEnvironment() async throws {
        let directory = try TemporaryDirectory()
        let result = try await cloakroom(
            "init", "--upstream", "http://127.0.0.1:9000", "--sign-in", "/auth", "--api-token-environment",
            in: directory)
        expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
        let without = try await cloakroom("check-config", "--config", "cloakroom.yaml", in: directory)
        expect(without.ending.status, equals: 1)
        expect(without.output.contains("upstreams.api.apiToken.value"))
        let with = try await cloakroom(
            "check-config", "--config", "cloakroom.yaml",
            environment: ["CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALUE": "a-token"], in: directory)
        expect(with.ending.status, equals: 0, "\(with.output)")
    }

    @Test("Without a terminal nothing is asked: the required options are named")
    func missingOptions() async throws {
        let directory = try TemporaryDirectory()
        let result = try await cloakroom("init", "--upstream", "http://127.0.0.1:9000", in: directory)
        expect(result.ending.status != 0)
        expect(result.errors.contains("--sign-in"))
        try expect(empty: FileManager.default.contentsOfDirectory(atPath: directory.url.path))
    }
}
