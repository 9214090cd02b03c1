import ArgumentParser
import CloakroomConfig

/// A command or an option that does not exist, in a command line that could not be parsed. The library's own message
/// suggests no command, and names an unknown option only if everything before it is valid.
enum UnknownName {
    /// What is unknown, with a suggestion; `nil` if the commands and options exist.
    /// - Parameter arguments: Without the name of the program.
    static func message(_ arguments: [String]) -> String? {
        let commands = Cloakroom.configuration.subcommands
        let name = arguments.first.flatMap { $0.hasPrefix("-") || $0.isEmpty ? nil : $0 }
        let command = commands.first { $0._commandName == name }
        if let name, command == nil, name != "help" {
            let shown = commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
            let demo = "the demo is a program of its own: cloakroom-demo"
            let other = name == "demo" ? demo : otherNames[name].map { "did you mean \"\($0)\"?" }
            let suggestion = other ?? NameSuggestion.suggestion(for: name, among: shown)
            return "unknown command '\(name)' (\(suggestion))"
        }
        let all = options(Cloakroom.helpMessage(for: command ?? Cloakroom.self, includeHidden: true))
        let given = arguments.prefix { $0 != "--" }.map { String($0.prefix { $0 != "=" }) }.filter(isOption)
        guard let option = given.first(where: { !all.contains($0) && !builtIn.contains($0) }) else { return nil }
        let known = all.filter { $0.hasPrefix("--") }
        let isFile = ["-f", "--file"].contains(option) && known.contains("--config")
        let suggestion =
            isFile ? "did you mean \"--config\"?" : NameSuggestion.suggestion(for: option, among: known)
        return "unknown option '\(option)' (\(suggestion))"
    }

    /// Whether an argument is a long option, or a short one, which is a letter.
    private static func isOption(_ argument: String) -> Bool {
        argument.hasPrefix("--") || argument.wholeMatch(of: /-[A-Za-z]/) != nil
    }

    /// Names that commands have in other programs.
    private static let otherNames = ["run": "serve", "start": "serve", "status": "top", "validate": "check-config"]

    /// Options of the library that no help describes.
    private static let builtIn = ["--experimental-dump-help", "--generate-completion-script", "--help-hidden"]

    /// The options that a help text describes: `  -c, --config <file>   The same as FILE.`
    private static func options(_ help: String) -> [String] {
        help.split(separator: "\n").filter { $0.hasPrefix("  -") }.flatMap { line in
            line.split { $0 == " " || $0 == "," || $0 == "/" }.prefix(4).map(String.init).filter(isOption)
        }
    }
}
