import ArgumentParser
import CloakroomConfig
import Foundation

/// `cloakroom config-reference`: prints the reference of all keys for the project's documentation.
struct ConfigReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config-reference", abstract: "Print the reference of all configuration keys in Markdown.",
        shouldDisplay: false)

    @Option(name: .long, help: "The file whose comments describe the keys.")
    var comments = "config/cloakroom.yaml"

    func run() throws {
        let yaml = try String(contentsOfFile: comments, encoding: .utf8)
        try FileHandle.standardOutput.write(contentsOf: Data(ConfigurationReference(comments: yaml).markdown.utf8))
    }
}
