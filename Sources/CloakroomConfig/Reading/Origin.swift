/// A position in a text file. Line and column start at 1; columns count Unicode scalars.
struct FilePosition: Hashable, Sendable {
    let line: Int
    let column: Int
}

/// The source of a value.
enum ValueSource: Hashable, Sendable {
    /// A flag `--set key=value`.
    case flag
    /// An environment variable of the gateway or of the OpenTelemetry specification.
    case environment(String)
    /// A file named by a `…File` key.
    case secretFile(String)
    /// The configuration file.
    case file(FilePosition)
    /// The default.
    case defaultValue

    static let environmentName = "environment"
    static let flagName = "--set"
}

/// The layers of sources, strongest first: the order of the reader's providers.
enum SourceLayer: Int, CaseIterable {
    case flags, environment, secretFiles, file, openTelemetry
}
