import Foundation
import Glibc
import TestSupport
import Testing

/// The commands that read a configuration and open no connection.
@Suite("Commands", .serialized, .timeLimit(.minutes(3)))
struct CommandTests {
    /// A configuration with five mistakes.
    static let mistaken = """
        listeners:
          - address: 127.0.0.1
        upstreams:
          api:
            targets: ["ftp://127.0.0.1:9000"]
            apiToken: { value: demo-api-token }
            signIn: { path: auth }
        session:
          idleTimeout: fifteen minutes
          cookie: { secure: false }
        routes:
          - name: video
            methods: [GET]
            path: /videos/{id}
            upstream: apy
            requiresAuthorization: true
            inject: [apiToken, bearer]

        """

    @Test(
        "check-config reports five mistakes in five lines and exits with 1; serve rejects the file with the same lines")
    func fiveValueErrors() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.mistaken, to: "five.yaml")
        let file = directory.path(of: "five.yaml")
        let check = try await cloakroom(["check-config", "--config", file])
        #expect(check.ending == ChildProgram.Ending(status: 1))
        let lines = check.output.split(separator: "\n")
        #expect(lines.count == 5, "\(check.output)")
        #expect(lines.allSatisfy { $0.wholeMatch(of: /.*five\.yaml:\d+:\d+: [^:]+: .+/) != nil }, "\(check.output)")
        let keys = ["listeners.0.address", "upstreams.api.targets", "signIn.path", "idleTimeout", "routes.0.upstream"]
        for (line, key) in zip(lines, keys) { #expect(line.contains(key)) }

        let serve = try await cloakroom(["serve", "--config", file])
        #expect(serve.ending == ChildProgram.Ending(status: 1))
        #expect(serve.errors == check.output)
        #expect(serve.output == "")
    }

    @Test("The configuration that is shipped with the project is valid")
    func referenceConfiguration() async throws {
        let check = try await cloakroom(
            ["check-config", "--config", "config/cloakroom.yaml"], directory: Executables.packageDirectory)
        #expect(check.ending == ChildProgram.Ending(status: 0), "\(check.output)")
        #expect(check.output.hasPrefix("config/cloakroom.yaml: ok"))
    }

    @Test("A missing file is reported as missing")
    func missingFile() async throws {
        let directory = try TemporaryDirectory()
        for command in ["check-config", "serve", "print-config"] {
            let result = try await cloakroom([command, "--config", directory.path(of: "nothing.yaml")])
            #expect(result.ending.status == 1)
            #expect((result.output + result.errors).contains("nothing.yaml"))
        }
    }

    @Test("print-config shows the effective values and their sources: flags, environment, secret files, file")
    func printConfig() async throws {
        let directory = try TemporaryDirectory()
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.apiTokenFile = "token.txt"
        try directory.write("canary-api-token\n", to: "token.txt")
        try directory.write(configuration.yaml, to: "gateway.yaml")
        let result = try await cloakroom(
            ["print-config", "--config", directory.path(of: "gateway.yaml"), "--set", "session.idleTimeout=7m"],
            environment: ["CLOAKROOM_SESSION_IDLE_TIMEOUT": "8m", "CLOAKROOM_SESSION_ABSOLUTE_TIMEOUT": "9h"])
        #expect(result.ending.status == 0)
        func line(_ key: String) -> String {
            result.output.split(separator: "\n").first { $0.hasPrefix(key + " ") || $0.hasPrefix(key + ":") }
                .map(String.init) ?? ""
        }
        #expect(line("session.idleTimeout").contains("7m"))
        #expect(line("session.idleTimeout").contains("--set"))
        #expect(line("session.absoluteTimeout").contains("9h"))
        #expect(line("session.absoluteTimeout").contains("CLOAKROOM_SESSION_ABSOLUTE_TIMEOUT"))
        #expect(line("session.maxSessions").contains("default"))
        #expect(line("session.cookie.secure").contains("gateway.yaml:"))
        #expect(line("upstreams.api.apiToken.value").contains("<redacted>"))
        #expect(line("upstreams.api.apiToken.value").contains("token.txt"))
        #expect(!result.output.contains("canary"))
    }

    @Test("explain shows how a request would be routed")
    func explain() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9000").yaml, to: "gateway.yaml")
        let file = directory.path(of: "gateway.yaml")
        let video = try await cloakroom(["explain", "--config", file, "GET", "/videos/1?p=/episodes"])
        #expect(video.ending.status == 0)
        for word in ["video", "X-API-TOKEN", "Authorization", "127.0.0.1:9000"] {
            #expect(video.output.contains(word), "\(video.output)")
        }
        #expect(!video.output.contains("demo-api-token"))
        let unlisted = try await cloakroom(["explain", "--config", file, "GET", "/nothing"])
        #expect(unlisted.output.contains("404"), "\(unlisted.output)")
    }

    @Test("routes lists the route table, and exits with 3 if a route became public")
    func routes() async throws {
        let directory = try TemporaryDirectory()
        let yaml = GatewayYAML(upstream: "http://127.0.0.1:9000").yaml
        try directory.write(yaml, to: "old.yaml")
        // The last route but one no longer requires a session.
        let name = try #require(yaml.range(of: "name: user"))
        let lock = try #require(yaml.range(of: "requiresAuthorization: true", range: name.upperBound..<yaml.endIndex))
        try directory.write(
            yaml.replacingCharacters(in: lock, with: "requiresAuthorization: false")
                .replacingOccurrences(of: "name: echo", with: "name: parrot"), to: "new.yaml")
        let (old, new) = (directory.path(of: "old.yaml"), directory.path(of: "new.yaml"))
        let list = try await cloakroom(["routes", "--config", old])
        #expect(list.ending.status == 0)
        for path in ["/episodes", "/videos/{id}", "/user"] { #expect(list.output.contains(path)) }
        let opened = try await cloakroom(["routes", "--config", new, "--diff", old])
        #expect(opened.ending == ChildProgram.Ending(status: 3), "\(opened.output)")
        #expect(opened.output.contains("/user"))
        let closed = try await cloakroom(["routes", "--config", old, "--diff", new])
        #expect(closed.ending.status == 0, "\(closed.output)")
    }

    @Test("An invalid command line is rejected with a hint")
    func usage() async throws {
        let unknown = try await cloakroom(["serv"])
        #expect(unknown.ending.status == 64)
        #expect(unknown.errors.contains("Usage"))
        let incomplete = try await cloakroom(["explain", "GET"])
        #expect(incomplete.ending.status == 64)
        #expect(incomplete.errors.contains("<target>"))
    }
}
