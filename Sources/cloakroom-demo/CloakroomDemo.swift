import ArgumentParser
import Foundation

/// The program for trying out the gateway: the demo, and the mocks that it and trials use.
///
/// Module `cloakroom-demo`: separate from the gateway, because a program that forges tokens does not belong into
/// production.
@main
struct CloakroomDemo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloakroom-demo", abstract: "A demo of the gateway Cloakroom, and mocks for trying it out.",
        subcommands: [Demo.self, DemoBackend.self, MockAPICommand.self, MockProviderCommand.self],
        defaultSubcommand: Demo.self)

    static func main() async {
        do {
            // The library would take it for an argument of the default command.
            if let name = CommandLine.arguments.dropFirst().first, let message = unknownCommand(name) {
                throw ValidationError(message)
            }
            var command = try await asyncParseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            exit(withError: error)
        }
    }

    /// - Returns: `nil` if there is such a command, or the word is an option.
    static func unknownCommand(_ name: String) -> String? {
        let commands = configuration.subcommands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
        guard !name.hasPrefix("-"), !commands.contains(name), name != "help", name != DemoBackend.name else {
            return nil
        }
        return "unknown command '\(name)' (write one of: \(commands.joined(separator: ", ")))"
    }
}

/// The reason why the demo cannot run.
struct DemoError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The failure of a system call.
    static func last(_ what: String) -> DemoError { DemoError("\(what): \(String(cString: strerror(errno)))") }
}
