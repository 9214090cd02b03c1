import ArgumentParser
import CloakroomConfig

/// `cloakroom prove`: decides the statements of a configuration for all requests.
struct Prove: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Decide the statements under prove for all requests.",
        discussion: """
            Prints for each statement whether it holds, and otherwise the shortest request that breaks it, as a line for curl. \
            Sends nothing. Exits with 3 if a statement fails, and with 1 if one is vacuous.
            """)

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    @Option(
        help: ArgumentHelp(
            "An older configuration file; that a change from it to FILE opens nothing is then a further statement.",
            valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var against: String?

    func validate() throws {
        if against == "-", options.config == "-" || options.file == "-" {
            throw ValidationError("FILE and --against cannot both be standard input (write one of them into a file)")
        }
    }

    func run() throws {
        let other = try against.map { try ConfigPlace($0).sources() }
        try CommandReport.prove(options.sources, comparedWith: other).finish(asJSON: output.json)
    }
}
