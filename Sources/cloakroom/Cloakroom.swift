import ArgumentParser
import CloakroomBuild

/// The command line: one program, one command for each thing one does with it.
@main
struct Cloakroom: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloakroom",
        abstract: "A reverse proxy that handles authentication on behalf of its clients.",
        version: version,
        subcommands: [
            Demo.self, Serve.self, CheckConfig.self, PrintConfig.self, Explain.self, Routes.self, Health.self,
            ConfigReferenceCommand.self, MockAPICommand.self,
        ])

    static func main() async {
        CommandLineSecrets.hide()
        await main(nil)
    }

    static let version = "0.1.0"
    /// Twelve digits, and `-dirty` behind them where files were changed; `unknown` where nobody said.
    static let commit = String(cString: cloakroom_commit())
}
