import ArgumentParser
import CloakroomBuild

/// The command line program with its subcommands.
///
/// Module `cloakroom`: the commands, and the composition of all modules; contains no decision about requests.
@main
struct Cloakroom: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloakroom",
        abstract: "A reverse proxy that handles authentication on behalf of its clients.",
        discussion: """
            To begin: init writes a configuration, doctor tries it with a user, serve runs it.
            The demo is a program of its own, cloakroom-demo.
            """,
        version: version,
        subcommands: [
            Init.self, Doctor.self, Serve.self, ReloadCommand.self, CheckConfig.self, PrintConfig.self,
            Explain.self, Routes.self, Prove.self, ReplayCommand.self, Health.self, Top.self, Why.self, AuditHash.self,
            VersionCommand.self,
            ConfigReferenceCommand.self,
        ])

    static func main() async {
        CommandLineSecrets.hide()
        do {
            try await execute(asyncParseAsRoot())
        } catch {
            let code = exitCode(for: error)
            guard code == .validationFailure, !(error is ExitCode) else { exit(withError: error) }
            var message = fullMessage(for: error)
            while message.last?.isNewline == true { message.removeLast() }
            if let unknown = UnknownName.message(Array(CommandLine.arguments.dropFirst())),
                let usage = message.firstRange(of: "\nUsage: ")
            {
                message = "Error: \(unknown)\(message[usage.lowerBound...])"
            }
            let text = CommandLineSecrets.redacted(message, CommandLine.arguments)
            exit(withError: (try? CommandFailure.exit(text, code)) ?? code)
        }
    }

    private static func execute(_ command: any ParsableCommand) async throws {
        var command = command
        do {
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as ValidationError {
            // The command line could be parsed. The library would add the usage of the program.
            throw try CommandFailure.exit("Error: \(error.message)", .validationFailure)
        }
    }

    static let version = "0.1.0"
    /// The commit of the build: 12 hexadecimal digits, with the suffix `-dirty` if files had uncommitted changes;
    /// `unknown` if the build did not set it.
    static let commit = String(cString: cloakroom_commit())
}
