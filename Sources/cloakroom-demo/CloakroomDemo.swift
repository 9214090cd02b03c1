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
}

/// The reason why the demo cannot run.
struct DemoError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The failure of a system call.
    static func last(_ what: String) -> DemoError { DemoError("\(what): \(String(cString: strerror(errno)))") }
}
