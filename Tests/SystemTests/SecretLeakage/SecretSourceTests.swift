import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

@testable import cloakroom

/// Secrets of the configuration, from every source, in the output of every command at its most verbose level.
@Suite("Secrets of the configuration", .serialized, .timeLimit(.minutes(4)))
struct SecretSourceTests {
    private static func keys() async throws -> [SecretKey] {
        let reference = try await cloakroom(["config-reference"], directory: Executables.packageDirectory)
        return SecretKey.all(in: reference.output)
    }

    /// A failure message must not contain the secret itself.
    private func expectNoMarker(_ text: String, _ place: String, sourceLocation: SourceLocation = #_sourceLocation) {
        let found = text.matches(of: /canary-41-[a-z]+-[A-Za-z-]+/).prefix(3).map { String($0.output) }
        #expect(found == [], "a secret is in \(place)", sourceLocation: sourceLocation)
        #expect(!text.contains(CanaryConfiguration.prefix), "a secret is in \(place)", sourceLocation: sourceLocation)
    }

    @Test("The reference of all keys lists exactly the secret keys")
    func discovery() async throws {
        let names = try await Self.keys().map(\.name)
        expect(
            Set(names).isSuperset(of: [
                "admin.token", "upstreams.api.apiToken.value", "session.secrets", "session.valkey.password",
                "session.valkey.sentinelPassword", "tracing.otlp.headers", "upstreams.api.client.secret",
                "identities.company.client.secret",
            ]), "\(names)")
    }

    @Test(
        "Rule 41: no command prints a secret of the configuration at any level, whatever its source",
        arguments: SecretSource.allCases)
    func canaries(_ source: SecretSource) async throws {
        let keys = try await Self.keys()
        let markers = try CanaryConfiguration(source, keys: keys, upstream: "http://127.0.0.1:9")
        var settings = MockAPISettings.withTwoUsers
        settings.apiToken = markers.marker("upstreams.api.apiToken.value")
        settings.clientSecret = markers.marker("upstreams.api.client.secret")
        try await MockAPI.withServer(settings) { mock in
            let canary = try CanaryConfiguration(source, keys: keys, upstream: mock.baseURL)
            try await commands(canary)
            try await serve(canary)
            try await crash(canary)
        }
    }

    private func commands(_ canary: CanaryConfiguration) async throws {
        try canary.directory.write("secret\n", to: "password")
        let user = ["--user", "jo@example.com", "--password-file", canary.directory.path(of: "password")]
        for (command, more) in [
            ("check-config", []), ("check-config", ["--strict"]), ("check-config", ["--offline"]), ("print-config", []),
            ("explain", ["GET", "/videos/1"]), ("routes", []), ("doctor", user + ["--identity", "api"]),
            ("doctor", user + ["--identity", "api", "--json"]),
            ("routes", ["--diff", canary.directory.path(of: "cloakroom.yaml")]),
            // Invalid command lines.
            ("print-config", ["--set", canary.marker("admin.token")]), ("serve", ["--log-level", "loud"]),
        ] as [(String, [String])] {
            let result = try await cloakroom([command] + canary.arguments + more, environment: canary.environment)
            let said = result.output + result.errors
            expect(!said.isEmpty)
            expectNoMarker(said, "the output of \(command) \(more.first ?? "")")
            if command == "print-config", more.isEmpty {
                #expect(said.split(separator: "\n").count { $0.contains("<redacted>") } >= canary.keys.count, "\(said)")
            }
        }
    }

    /// Runs a gateway at its most verbose level while `body` runs.
    private func running(
        _ canary: CanaryConfiguration,
        _ body: (ChildProgram, _ client: WebClient, _ admin: WebClient) async throws -> Void
    ) async throws {
        let arguments = ["serve", "--log-level", "trace", "--set", "reload.interval=0s"] + canary.arguments
        try await ChildProgram.running(
            try Executables.cloakroom(), arguments, environment: canary.environment
        ) { program in
            func address(_ message: String) async throws -> String {
                try await program.waits(for: message) { program in
                    program.logLines.first { $0.message == message }?.address
                }
            }
            let client = WebClient("http://\(try await address("listening"))")
            try await body(program, client, WebClient("http://\(try await address("admin listener started"))"))
        }
    }

    private func serve(_ canary: CanaryConfiguration) async throws {
        try await running(canary) { program, client, admin in
            expectNoMarker(program.commandLine, "the command line")
            expect(program.commandLine.contains("reload.interval=0s"))
            expect(program.commandLine.contains("admin.token=*"), equals: canary.source == .flag)
            // Secrets from the command line are effective nevertheless.
            try await expect(client.get("/episodes").status, equals: 200)
            try await expect(client.signIn(password: "wrong").status, equals: 401)
            try await expect(client.signIn().status, equals: 200)
            try await expect(client.get("/videos/1").status, equals: 200)
            try await expect(client.send("DELETE", "/auth").status, equals: 204)
            _ = try await program.waits(for: "a failed revocation") { $0.output.contains("revoke_failed") ? true : nil }
            let right = [
                ("Authorization", "Bearer \(canary.marker("admin.token"))"), ("Content-Type", "application/json"),
            ]
            let wrong = [("Authorization", "Bearer \(canary.marker("admin.token"))x")]
            let body = #"{"email":"jo@example.com"}"#
            var responses = [try await admin.send("POST", "/sessions/revoke", wrong, body: body)]
            expect(responses[0].status, equals: 401)
            responses.append(try await admin.send("POST", "/sessions/revoke", right, body: body))
            expect(responses[1].status != 401)
            for page in ["/metrics", "/status.json", "/", "/ready", "/nothing"] {
                responses.append(try await admin.get(page))
            }
            // A busy machine may take longer than the 2 s that the command waits.
            try await eventually("health succeeds") {
                let health = try await cloakroom(
                    ["health", "--admin", String(admin.base.dropFirst("http://".count))],
                    environment: canary.environment)
                expectNoMarker(health.output + health.errors, "the output of health")
                return health.ending.status == 0
            }

            program.send(SIGHUP)
            _ = try await program.waits(for: "a reload") { $0.output.contains("configuration reloaded") ? true : nil }
            let broken = canary.yaml.replacing("\"/episodes\"", with: "\"episodes\"").replacing(
                "secrets", with: "secretz")
            try canary.directory.write(broken, to: "cloakroom.yaml")
            program.send(SIGHUP)
            _ = try await program.waits(for: "a failed reload") {
                $0.output.contains("configuration reload rejected") ? true : nil
            }
            for page in ["/status.json", "/"] { responses.append(try await admin.get(page)) }
            program.send(SIGTERM)
            try await expect(program.ending().status, equals: 0)
            try canary.directory.write(canary.yaml, to: "cloakroom.yaml")

            expectNoMarker(program.output, "the log")
            expectNoMarker(program.errors, "standard error")
            expectNoMarker(
                (responses + client.responses).map { "\($0.fields) \($0.body)" }.joined(separator: "\n"), "a response")
            // The output is not empty, so the checks above are effective.
            expect(program.output.contains("\"level\":\"debug\""))
            expect(program.output.contains("Starting service"))
        }
    }

    /// The output of a process that crashes: Swift's backtrace, with the memory that registers point to.
    private func crash(_ canary: CanaryConfiguration) async throws {
        var canary = canary
        canary.environment["SWIFT_BACKTRACE"] = "enable=yes,symbolicate=off,threads=all,color=no,interactive=no"
        try await running(canary) { program, _, _ in
            program.send(SIGABRT)
            _ = try await program.waits(for: "a backtrace") {
                ($0.output + $0.errors).contains("Backtrace took") ? true : nil
            }
            expectNoMarker(program.output, "the log of a crash")
            expectNoMarker(program.errors, "the text of a crash")
        }
    }

    @Test("A message about a command line keeps the names of commands and options, and no value of an argument")
    func redactedMessage() {
        let arguments = ["cloakroom", "reload", "--timeout=canary", "-x", "a b"]
        for (message, expected) in [
            ("The value 'canary' is invalid for '--timeout'", "The value (not shown) is invalid for '--timeout'"),
            ("2 unexpected arguments: '-x', 'a b'", "2 unexpected arguments: '-x', (not shown)"),
            ("Unexpected argument 'reload'", "Unexpected argument 'reload'"),
        ] { expect(CommandLineSecrets.redacted(message, arguments), equals: expected) }
    }

    @Test("A secret on the command line is found in both spellings of a flag, and nothing else is")
    func flags() {
        func hidden(_ argument: String, after previous: String) -> String? {
            CommandLineSecrets.secret(in: argument, after: previous).map {
                String(decoding: Array(argument.utf8)[$0], as: UTF8.self)
            }
        }
        expect(hidden("admin.token=a=b", after: "--set"), equals: "a=b")
        expect(hidden("--set=admin.token=ä", after: "serve"), equals: "ä")
        expect(hidden("upstreams.x.apiToken.value=v", after: "--set"), equals: "v")
        expect(hidden("session.secrets.0=v", after: "--set"), equals: "v")
        expect(hidden("session.idleTimeout=5m", after: "--set"), equals: nil)
        expect(hidden("admin.tokenFile=/run/token", after: "--set"), equals: nil)
        expect(hidden("admin.token=v", after: "--config"), equals: nil)
        expect(hidden("admin.token", after: "--set"), equals: nil)
    }
}
