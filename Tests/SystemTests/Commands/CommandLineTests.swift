import Foundation
import Glibc
import TestSupport
import Testing

/// The command line itself: where the configuration comes from, JSON, colors, exit codes, version and completions.
@Suite("Command line", .serialized, .timeLimit(.minutes(3)))
struct CommandLineTests {
    static let good = GatewayYAML(upstream: "http://127.0.0.1:9000").yaml
    /// A configuration with five mistakes.
    private static let mistaken = """
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

    @Test("Too few descriptors are an error with the limit and the required number")
    func fewDescriptors() async throws {
        let program = try Executables.cloakroom().path
        let result = try await ChildProgram.run(
            URL(filePath: "/bin/sh"), ["-c", "ulimit -n 16 && exec '\(program)' serve -"], input: Self.good)
        expect(result.ending, equals: ChildProgram.Ending(status: 1))
        expect(result.errors.contains("the limit of open files is 16, at least "))
    }

    // MARK: - Where the configuration comes from

    @Test(
        "A configuration can be given in each way, to every command that reads one",
        arguments: [
            ["check-config"], ["print-config"], ["routes"], ["explain", "GET", "/videos/1"],
        ])
    func ways(_ command: [String]) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.good, to: "cloakroom.yaml")
        let expected = try await cloakroom(command + ["--config", "./cloakroom.yaml"], directory: directory.url)
        expect(expected.ending, equals: ChildProgram.Ending(status: 0), "\(expected.output)\(expected.errors)")
        for arguments in [
            ["--config=./cloakroom.yaml"], ["-c", "./cloakroom.yaml"], ["./cloakroom.yaml"], [],
        ] {
            let result = try await cloakroom(command + arguments, directory: directory.url)
            expect(result.ending, equals: expected.ending, "\(arguments)")
            expect(result.output, equals: expected.output, "\(arguments)")
        }
        for arguments in [["-"], ["--config", "-"], ["-c", "-"]] {
            let result = try await cloakroom(command + arguments, input: Self.good)
            expect(result.ending, equals: expected.ending, "\(arguments)")
            expect(
                result.output.replacing("standard input", with: "./cloakroom.yaml"), equals: expected.output,
                "\(arguments)")
        }
    }

    @Test("A configuration that is given twice, or has no name, is a mistake in the command line")
    func twice() async throws {
        let twice = try await cloakroom(["serve", "--config", "a.yaml", "b.yaml"])
        expect(twice.ending, equals: ChildProgram.Ending(status: 64))
        expect(twice.errors.contains("the configuration is given twice (write FILE or --config FILE, not both)"))
        expect(twice.errors.contains("Usage: cloakroom serve"))
        let empty = try await cloakroom(["check-config", ""])
        expect(empty.ending, equals: ChildProgram.Ending(status: 64))
        let both = try await cloakroom(["routes", "-", "--diff", "-"], input: Self.good)
        expect(both.ending, equals: ChildProgram.Ending(status: 64))
    }

    @Test("A default file that other users can replace is read only if it is named, with a warning")
    func foreign() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.good, to: "cloakroom.yaml")
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.path)
        let found = try await cloakroom(["check-config"], directory: directory.url)
        expect(found.ending, equals: ChildProgram.Ending(status: 64), "\(found.output)")
        expect(found.errors.contains("./cloakroom.yaml could have been written by another user"), "\(found.errors)")
        let named = try await cloakroom(["check-config", "cloakroom.yaml"], directory: directory.url)
        expect(named.ending, equals: ChildProgram.Ending(status: 0), "\(named.output)\(named.errors)")
        expect(named.output.contains("can be changed or replaced by other users"), "\(named.output)")
    }

    @Test(
        "A secret in the place of another argument is not printed",
        arguments: [
            ["check-config", "canary"], ["check-config", "a.yaml", "canary"], ["doctor", "--config", "canary"],
            ["doctor", "--password", "canary"], ["doctor", "a.yaml", "--user", "jo", "canary"],
            ["reload", "--timeout", "canary"], ["reload", "--timeout=canary"], ["top", "--token-file", "canary"],
        ])
    func misplacedSecret(_ arguments: [String]) async throws {
        let result = try await cloakroom(arguments)
        expect(result.ending, equals: ChildProgram.Ending(status: 64), "\(arguments)")
        expect(result.errors.hasPrefix("Error: "), "\(result.errors)")
        expect(!(result.output + result.errors).contains("canary"), "\(result.output)\(result.errors)")
    }

    @Test("Standard input of more than 1 MiB is rejected, the largest permitted one is read")
    func size() async throws {
        let filler = String(repeating: "#", count: (1 << 20) - Self.good.utf8.count - 1)
        let largest = Self.good + filler + "\n"
        expect(largest.utf8.count, equals: 1 << 20)
        let read = try await cloakroom(["check-config", "-"], input: largest)
        expect(read.ending, equals: ChildProgram.Ending(status: 0), "\(read.output)\(read.errors)")
        let rejected = try await cloakroom(["check-config", "-"], input: largest + "#")
        expect(rejected.ending, equals: ChildProgram.Ending(status: 1))
        expect(
            rejected.errors,
            equals: "standard input: must be at most 1MiB (write the configuration into a file)\n")
    }

    @Test("serve runs a configuration from standard input, and SIGHUP applies it again")
    func served() async throws {
        let program = try Executables.cloakroom()
        try await ChildProgram.running(program, ["serve", "-"], input: Self.good) { program in
            let address = try await program.waits(for: "clients can connect") { program in
                program.logLines.first { $0.message == "listening" }?.address
            }
            program.send(SIGHUP)
            _ = try await program.waits(for: "the reload") { program in
                program.logLines.first { $0.message == "configuration reloaded" }
            }
            let response = try await WebClient("http://\(address)").get("/nothing")
            expect(response.status, equals: 404)
            program.send(SIGTERM)
            try await expect(program.ending(), equals: ChildProgram.Ending(status: 0))
        }
    }

    // MARK: - Output

    @Test(
        "--json prints one document with the name of the configuration, and no secret",
        arguments: [["check-config"], ["print-config"], ["routes"], ["explain", "GET", "/videos/1"]])
    func json(_ command: [String]) async throws {
        struct Document: Decodable {
            var configuration: String
            var valid: Bool
        }
        let result = try await cloakroom(command + ["-", "--json"], input: Self.good)
        expect(result.ending, equals: ChildProgram.Ending(status: 0))
        let document = try JSONDecoder().decode(Document.self, from: Data(result.output.utf8))
        expect(document.configuration, equals: "standard input")
        expect(document.valid)
        expect(!result.output.contains("demo-api-token"))
        let invalid = try await cloakroom(command + ["-", "--json"], input: "listeners: 1\n")
        expect(invalid.ending, equals: ChildProgram.Ending(status: 1))
        try expect(JSONDecoder().decode(Document.self, from: Data(invalid.output.utf8)).valid, equals: false)
    }

    /// Runs a command with a terminal as standard output and standard error.
    private func onTerminal(_ arguments: [String], environment: [String: String]) async throws -> ChildProgram.Outcome {
        let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
        return try await ChildProgram.run(
            try Executables.onPath("python3", package: "python3"),
            ["-c", script, try Executables.cloakroom().path] + arguments, environment: environment)
    }

    @Test(
        "Severities are colored on a terminal, not with NO_COLOR, and not on a terminal that shows no colors",
        arguments: [
            (["TERM": "xterm-256color"], true), (["TERM": "xterm-256color", "NO_COLOR": ""], true),
            (["TERM": "xterm-256color", "NO_COLOR": "1"], false), (["TERM": "dumb"], false), ([:], false),
        ])
    func colors(_ environment: [String: String], _ isColored: Bool) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.mistaken, to: "five.yaml")
        let file = directory.path(of: "five.yaml")
        for command in ["check-config", "serve"] {
            let result = try await onTerminal([command, file], environment: environment)
            expect(result.ending, equals: ChildProgram.Ending(status: 1), "\(result.output)\(result.errors)")
            expect(result.output.contains("\u{1b}[1;31m\(file):2:"), equals: isColored, "\(result.output)")
            expect(result.output.contains("\u{1b}"), equals: isColored, "\(result.output)")
        }
        guard isColored else { return }
        let json = try await onTerminal(["check-config", file, "--json"], environment: environment)
        expect(!json.output.contains("\u{1b}"))
    }

    @Test("Output to a file or a pipe is never colored")
    func noColors() async throws {
        let result = try await cloakroom(
            ["check-config", "-"], environment: ["TERM": "xterm-256color"], input: Self.mistaken)
        expect(result.output.contains("standard input:2:14: listeners.0.address: "), "\(result.output)")
        expect(!result.output.contains("\u{1b}"))
    }

    // MARK: - Exit codes

    @Test(
        "Exit codes are those of the documentation",
        arguments: [
            (0, ["--version"]), (0, ["--help"]), (0, ["version"]), (0, ["help", "serve"]),
            (0, ["check-config", "good.yaml"]), (0, ["routes", "good.yaml", "--diff", "open.yaml"]),
            (0, ["explain", "GET", "/nothing", "good.yaml"]),
            (1, ["check-config", "bad.yaml"]), (1, ["check-config", "missing.yaml"]),
            (1, ["check-config", "warned.yaml", "--strict"]), (1, ["serve", "bad.yaml"]),
            (1, ["print-config", "bad.yaml"]), (1, ["explain", "GET", "/", "bad.yaml"]),
            (1, ["routes", "good.yaml", "--diff", "bad.yaml"]), (1, ["health", "--admin", "127.0.0.1:1"]),
            (3, ["routes", "open.yaml", "--diff", "good.yaml"]),
            (64, ["unknown"]), (64, ["check-config", "good.yaml", "--unknown"]), (64, ["explain", "GET"]),
            (64, ["check-config", "good.yaml", "--set", "key"]), (64, ["demo"]),
        ])
    func exitCodes(_ code: Int, _ arguments: [String]) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.good, to: "good.yaml")
        try directory.write(Self.mistaken, to: "bad.yaml")
        try directory.write(
            Self.good.replacing("requiresAuthorization: true", with: "requiresAuthorization: false")
                .replacing(", bearer", with: ""), to: "open.yaml")
        try directory.write(Self.good.replacing("methods: [POST]", with: "methods: [POST, GETT]"), to: "warned.yaml")
        let result = try await cloakroom(arguments, directory: directory.url)
        expect(result.ending, equals: ChildProgram.Ending(status: Int32(code)), "\(result.output)\(result.errors)")
        // Mistakes in the command line are never among the results.
        if code == 64 { expect(result.output == "" && result.errors.contains("Usage: cloakroom")) }
    }

    @Test(
        "If a command line can be parsed, and its values cannot be used, only the reason is printed",
        arguments: [
            ["top", "--once", "--token-file", "missing"], ["health", "--admin", "nonsense"], ["reload"],
            ["audit-hash", "good.yaml", "--user", "jo@example.com"], ["init", "--upstream", "https://api.example.com"],
            ["doctor", "good.yaml", "--identity", "other"],
        ])
    func unusableValues(_ arguments: [String]) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.good, to: "good.yaml")
        let result = try await cloakroom(arguments, directory: directory.url)
        expect(result.ending, equals: ChildProgram.Ending(status: 64), "\(result.output)\(result.errors)")
        expect(result.output, equals: "")
        expect(result.errors.wholeMatch(of: /Error: [^\n]+ \((write|set|check) [^\n]+\)\n/) != nil, "\(result.errors)")
    }

    @Test(
        "What is unknown or too much is named with what was likely intended, before anything else is checked",
        arguments: [
            (["chek-config"], "unknown command 'chek-config' (did you mean \"check-config\"?)"),
            (["rotues", "--diff", "a"], "unknown command 'rotues' (did you mean \"routes\"?)"),
            (["check"], "unknown command 'check' (did you mean \"check-config\"?)"),
            (["start", "my.yaml"], "unknown command 'start' (did you mean \"serve\"?)"),
            (["demo"], "unknown command 'demo' (the demo is a program of its own: cloakroom-demo)"),
            (["check-config", "--strikt"], "unknown option '--strikt' (did you mean \"--strict\"?)"),
            (["serve", "--confg=missing.yaml"], "unknown option '--confg' (did you mean \"--config\"?)"),
            (["--verion"], "unknown option '--verion' (did you mean \"--version\"?)"),
            (["serve", "-f", "my.yaml"], "unknown option '-f' (did you mean \"--config\"?)"),
            (["check-config", "--file=my.yaml"], "unknown option '--file' (did you mean \"--config\"?)"),
            (["check-config", "a.yaml", "b.yaml"], "only one configuration is read (run the command for each)"),
        ])
    func unknownNames(_ arguments: [String], _ message: String) async throws {
        let directory = try TemporaryDirectory()
        let result = try await cloakroom(arguments, directory: directory.url)
        expect(result.ending, equals: ChildProgram.Ending(status: 64))
        expect(result.errors.hasPrefix("Error: \(message)\nUsage: cloakroom"), "\(result.errors)")
    }

    @Test(
        "explain names the order of its arguments if they are in another one",
        arguments: [
            ["good.yaml", "GET", "/x"], ["/x", "GET", "good.yaml"], ["GET", "good.yaml", "/x"], ["good", "GET", "/x"],
            ["-", "GET", "/x"], ["./good", "GET", "/x"],
        ])
    func explainOrder(_ arguments: [String]) async throws {
        let directory = try TemporaryDirectory()
        for name in ["good.yaml", "good"] { try directory.write(Self.good, to: name) }
        let result = try await cloakroom(["explain"] + arguments, directory: directory.url)
        expect(result.ending, equals: ChildProgram.Ending(status: 64), "\(result.output)")
        expect(result.errors.contains("the order is METHOD TARGET FILE"), "\(result.errors)")
        expect(result.errors.contains("Usage: cloakroom explain"), "\(result.errors)")
    }

    @Test("replay names the order of its arguments if the log is a configuration")
    func replayOrder() async throws {
        let directory = try TemporaryDirectory()
        for name in ["good.yaml", "access.log"] { try directory.write(Self.good, to: name) }
        let result = try await cloakroom(["replay", "good.yaml", "access.log"], directory: directory.url)
        expect(result.ending, equals: ChildProgram.Ending(status: 64), "\(result.output)")
        expect(result.errors.contains("the order is LOG FILE"), "\(result.errors)")
    }

    // MARK: - Version and completions

    @Test("version prints what a bug report needs, as text and as JSON; --version prints the version alone")
    func version() async throws {
        let text = try await cloakroom(["version"])
        let lines = text.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        expect(lines.map(\.first), equals: ["cloakroom", "commit", "swift", "build", "platform", "sqlite", "glibc"])
        let number = try await cloakroom(["--version"])
        expect(lines.first?.last, equals: number.output.trimmingCharacters(in: .newlines))
        let json = try await cloakroom(["version", "--json"])
        let members = try JSONDecoder().decode([String: String].self, from: Data(json.output.utf8))
        expect(Set(members.keys), equals: ["version", "commit", "swift", "build", "platform", "sqlite", "glibc"])
        expect(members["version"], equals: lines.first?.last)
        for line in lines.dropFirst() { expect(members[line[0]], equals: line.dropFirst().joined(separator: " ")) }
        for name in ["swift", "sqlite", "glibc"] {
            expect(members[name]?.wholeMatch(of: /\d+\.\d+(\.\d+)?/) != nil, "\(members)")
        }
    }

    @Test("The completions of bash complete commands, options and values")
    func bashCompletions() async throws {
        let directory = try TemporaryDirectory()
        let script = try await cloakroom(["--generate-completion-script", "bash"])
        expect(script.ending, equals: ChildProgram.Ending(status: 0))
        try directory.write(script.output, to: "completions")
        try directory.write("", to: "my.yaml")
        let bash = try Executables.onPath("bash", package: "bash")
        for (words, expected) in [
            (["che"], "check-config"), (["ro"], "routes"), (["check-config", "--str"], "--strict"),
            (["routes", "--di"], "--diff"), (["serve", "--config", "m"], "my.yaml"),
        ] {
            let line = (["cloakroom"] + words).joined(separator: " ")
            let program = """
                source ./completions
                COMP_WORDS=(\(line)) COMP_CWORD=\(words.count) COMP_LINE='\(line)' COMP_POINT=\(line.utf8.count) COMP_TYPE=9
                _cloakroom cloakroom '\(words.last ?? "")' '\(words.dropLast().last ?? "cloakroom")'
                printf '%s\\n' "${COMPREPLY[@]}"
                """
            let result = try await ChildProgram.run(bash, ["-c", program], directory: directory.url)
            expect(result.output, equals: expected + "\n", "\(line): \(result.errors)")
        }
    }
}
