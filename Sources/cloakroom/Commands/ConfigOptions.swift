import ArgumentParser
import CloakroomConfig
import Foundation

/// The options of all commands that read a configuration: where it is, and values that override it.
struct ConfigOptions: ParsableArguments {
    @Option(
        name: [.customShort("c"), .long],
        help: ArgumentHelp("The same as FILE.", valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var config: String?

    @Option(
        help: ArgumentHelp(
            "A value that overrides the environment and the file, as key=value; repeatable.",
            valueName: "key=value"))
    var set: [String] = []

    @Argument(
        help: ArgumentHelp(
            "The configuration file (YAML), or - for standard input. Default: \(ConfigPlace.defaultFilesText).",
            valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var file: String?

    @Argument(help: .hidden)
    var others: [String] = []

    func validate() throws {
        guard others.isEmpty else {
            throw ValidationError("only one configuration is read (run the command for each)")
        }
        if set.contains(where: { !$0.contains("=") || $0.hasPrefix("=") }) {
            // The value may be a secret and is therefore not printed.
            throw ValidationError("--set must be key=value (write --set session.idleTimeout=5m)")
        }
        if config != nil, file != nil {
            throw ValidationError("the configuration is given twice (write FILE or --config FILE, not both)")
        }
        if config == "" || file == "" {
            throw ValidationError("the name of the configuration file is empty (write FILE, or leave it out)")
        }
        // Here, so that the usage of the command follows the error.
        _ = try ConfigPlace.find(config ?? file)
    }

    /// The sources of the configuration. Reads standard input if the configuration is `-`; therefore a command gets
    /// them once.
    /// - Throws: `ExitCode` if standard input cannot be used.
    var sources: ConfigSources {
        get throws {
            var sources = try ConfigPlace.find(config ?? file).sources()
            sources.overrides = set.map { assignment in
                let parts = assignment.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return (key: String(parts[0]), value: parts.count > 1 ? String(parts[1]) : "")
            }
            return sources
        }
    }

    /// The configuration. Read once, like ``sources``.
    /// - Throws: `ExitCode`, after its errors are printed.
    func load() throws -> LoadedConfig {
        let sources = try sources
        do throws(ConfigDiagnostics) {
            return try loadConfig(sources)
        } catch {
            throw try CommandFailure.exit(error.problems)
        }
    }
}

/// Where a command reads a configuration.
enum ConfigPlace: Equatable {
    case file(String)
    case standardInput

    /// The files that are used if none is given: the first that exists.
    static let defaultFiles = ["./cloakroom.yaml", "/etc/cloakroom/cloakroom.yaml"]
    static let defaultFilesText = defaultFiles.joined(separator: ", then ")

    /// The maximum size of a configuration on standard input in bytes.
    static let maximumInput = 1 << 20

    /// Creates the place that an argument names.
    init(_ argument: String) {
        self = argument == "-" ? .standardInput : .file(argument)
    }

    /// The place that an argument names, or the first default file that exists.
    /// - Parameters:
    ///   - exists: Whether there is a file at a path.
    ///   - isForeign: Whether another user could have written the file at a path. Such a default file is not used: it names
    ///     servers that get secrets, and the command may run in any folder.
    /// - Throws: A `ValidationError` if there is neither.
    static func find(
        _ argument: String?, exists: (String) -> Bool = { FileManager.default.fileExists(atPath: $0) },
        isForeign: (String) -> Bool = { FileAccess.isWritable($0, byOthersThan: geteuid(), getegid()) }
    ) throws -> ConfigPlace {
        if let argument { return ConfigPlace(argument) }
        guard let file = defaultFiles.first(where: exists) else {
            throw ValidationError(
                "no configuration: neither \(defaultFiles.joined(separator: " nor ")) exists (write FILE or --config FILE;"
                    + " cloakroom init creates one, and cloakroom-demo runs an example without one)")
        }
        guard !isForeign(file) else {
            throw ValidationError(
                "\(file) could have been written by another user (write --config \(file) if it is the one to use)")
        }
        return .file(file)
    }

    /// The sources: the file or the text from standard input, and the environment.
    /// - Throws: A `ValidationError` if there is no file, and its name is not that of a configuration. It may be a secret in
    ///   the place of a file, and is not printed.
    func sources() throws -> ConfigSources {
        let environment = ProcessInfo.processInfo.environment
        switch self {
        case .file(let file):
            // Every other problem of a file is printed with its name.
            guard file.hasSuffix(".yaml") || file.hasSuffix(".yml") || FileManager.default.fileExists(atPath: file)
            else {
                throw ValidationError("there is no such file (write the path of the configuration)")
            }
            return ConfigSources(file: file, environment: environment)
        case .standardInput:
            var sources = ConfigSources(file: nil, environment: environment)
            sources.standardInput = try Self.readStandardInput()
            return sources
        }
    }

    private static func readStandardInput() throws -> [UInt8] {
        var text = Data()
        do {
            // One byte more than permitted proves that there is more.
            while text.count <= maximumInput,
                let part = try FileHandle.standardInput.read(upToCount: maximumInput + 1 - text.count), !part.isEmpty
            {
                text += part
            }
        } catch {
            throw try CommandFailure.exit("standard input: cannot be read: \(error)")
        }
        guard text.count <= maximumInput else {
            throw try CommandFailure.exit("standard input: must be at most 1MiB (write the configuration into a file)")
        }
        return Array(text)
    }
}
