import ArgumentParser
import Foundation

/// `cloakroom reload`: reloads the configuration of a running gateway and reports the result.
struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Reload the configuration and certificates of a running gateway.",
        discussion: """
            Asks the gateway through its control socket, and waits. Exits with 0 if the configuration and all certificates \
            were applied; otherwise with 1, prints the reasons, and the gateway keeps the previous ones.
            """)

    @OptionGroup var options: ControlSocketOptions

    @Option(help: ArgumentHelp("Maximum wait for the result, in seconds: 1 to 3600.", valueName: "seconds"))
    var timeout = 60

    func validate() throws {
        guard (1...3_600).contains(timeout) else { throw ValidationError("--timeout must be 1 to 3600 seconds") }
    }

    func run() async throws {
        guard let path = try options.running() else {
            throw ValidationError(
                "no control socket configured (write --control-socket PATH, with the same path as for cloakroom serve;"
                    + " or send SIGHUP to the gateway)")
        }
        try await CommandFailure.report {
            let response = try await ControlSocketClient.reload(path, timeout: .seconds(timeout))
            for warning in response.warnings { try Self.printError(warning) }
            guard response.reloaded else {
                for problem in response.problems { try Self.printError(problem) }
                throw ReloadRejected()
            }
            try CommandOutput.print("reloaded, configuration \(response.hash)\n")
        }
    }

    private static func printError(_ line: String) throws {
        try FileHandle.standardError.write(contentsOf: Data("\(line)\n".utf8))
    }

    private struct ReloadRejected: Error, CustomStringConvertible {
        let description = "the reload failed; the gateway keeps the previous configuration and certificates"
    }
}

/// The option for the control socket, of `serve`, `reload`, `health` and `why`.
struct ControlSocketOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Unix socket of the gateway for `cloakroom reload`, `health` and `why`, of at most"
                + " \(ControlSocket.maximumPathBytes) bytes. Default of all but health: \(ControlSocket.fileName) in"
                + " \(ControlSocket.directoryVariable), which systemd sets; of reload and why, otherwise"
                + " \(ControlSocket.servicePath).",
            valueName: "path"))
    var controlSocket: String?

    /// The path of a running gateway's socket; `nil` if there is none.
    func running() throws -> String? {
        let service = ControlSocket.servicePath
        return try path() ?? (FileManager.default.fileExists(atPath: service) ? service : nil)
    }

    /// The socket's path; `nil` if there is none.
    /// - Throws: If the path is empty or too long.
    func path() throws -> String? {
        let path = ControlSocket.path(controlSocket, environment: ProcessInfo.processInfo.environment)
        guard (1...ControlSocket.maximumPathBytes).contains(path?.utf8.count ?? 1) else {
            throw ValidationError(
                "--control-socket must have 1 to \(ControlSocket.maximumPathBytes) bytes"
                    + " (write --control-socket /run/cloakroom/control.sock)")
        }
        return path
    }
}
