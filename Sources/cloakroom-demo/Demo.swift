import ArgumentParser
import Foundation

/// `cloakroom-demo demo`: runs the gateway with a mock API.
///
/// This process becomes the gateway, so that signals and the exit status are the gateway's. Before, it starts itself a
/// second time as ``DemoBackend``, which serves the mock API and ends after the gateway, however that ends.
struct Demo: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a demo: the gateway with a mock API as its upstream and one test user.",
        discussion: "Prints the addresses of all listeners and example commands. Ctrl-C ends it.")

    @OptionGroup var options: DemoOptions

    func run() throws {
        let gateway = try gatewayProgram()
        var ends: [Int32] = [0, 0]
        // Closed in the backend by SOCK_CLOEXEC, so that its input ends with this process.
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw DemoError.last("a pair of sockets") }
        let backend = Process()
        backend.executableURL = Self.program
        backend.arguments = [DemoBackend.name] + CommandLine.arguments.dropFirst().drop { $0 == "demo" }
        backend.standardInput = FileHandle(fileDescriptor: ends[1])
        try backend.run()
        close(ends[1])
        let folder = String(decoding: FileHandle(fileDescriptor: ends[0]).availableData, as: UTF8.self)
        // It has ended and printed why.
        guard !folder.isEmpty else { throw ExitCode.failure }

        // Stays open in the gateway.
        _ = fcntl(ends[0], F_SETFD, 0)
        setenv("NOTIFY_SOCKET", DemoBackend.notifySocket(in: folder), 1)
        let arguments = [gateway, "serve", "--config", DemoBackend.configurationFile(in: folder)]
        execv(gateway, arguments.map { strdup($0) } + [nil])
        throw DemoError.last(gateway)
    }

    private static let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()

    private func gatewayProgram() throws -> String {
        let path =
            options.gateway ?? Self.program.deletingLastPathComponent().appending(path: "cloakroom").path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw DemoError("the gateway \(path) is not a program (build it: deploy/build.sh, or write --gateway PATH)")
        }
        return path
    }
}

struct DemoOptions: ParsableArguments {
    @Option(help: "The gateway's TLS port, 0 for a free one.")
    var port = 8_443

    @Option(help: "The gateway's clear-text port, 0 for a free one.")
    var clearPort = 8_080

    @Option(help: "The admin listener's port, 0 for a free one.")
    var adminPort = 9_464

    @Option(help: "The API's port, 0 for a free one.")
    var apiPort = 9_000

    @Option(
        help: ArgumentHelp(
            "The issuer of an OpenID Provider that users can sign in with too. Its client has the redirect URI"
                + " https://localhost:PORT/auth/callback.", valueName: "URL"))
    var issuer: String?

    @Option(help: "The name of the provider, as the page shows it.")
    var identity = "provider"

    @Option(help: "The id of the client at the provider.")
    var clientID = "cloakroom"

    @Option(help: "A file that contains the secret of the client, with an optional trailing line break.")
    var clientSecretFile: String?

    @Option(
        help: ArgumentHelp("The program cloakroom. Default: the one in the folder of this program.", valueName: "path"))
    var gateway: String?

    func validate() throws {
        if issuer != nil {
            guard clientSecretFile != nil else { throw ValidationError("--issuer requires --client-secret-file") }
            guard port != 0 else { throw ValidationError("--issuer requires a --port that the provider knows") }
        }
        for (name, value) in [
            ("--port", port), ("--clear-port", clearPort), ("--admin-port", adminPort), ("--api-port", apiPort),
        ] where !(0...65_535).contains(value) {
            throw ValidationError("\(name) must be a port, 0 to 65535")
        }
    }

    /// The provider that users can sign in with; `nil` for none.
    var provider: DemoProvider? {
        guard let issuer, let clientSecretFile else { return nil }
        return DemoProvider(
            name: identity, issuer: issuer, clientID: clientID,
            clientSecretFile: URL(fileURLWithPath: clientSecretFile).path)
    }
}
