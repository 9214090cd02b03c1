/// A place in a text file, both from 1; columns count Unicode scalars.
struct FilePosition: Hashable, Sendable {
    let line: Int
    let column: Int
}

/// Where a value was given.
enum ValueSource: Hashable, Sendable {
    /// A flag `--set key=value`.
    case flag
    /// An environment variable, of ours or of the OpenTelemetry specification.
    case environment(String)
    /// A file that a `…File` key names.
    case secretFile(String)
    /// The configuration file.
    case file(FilePosition)
    /// Nowhere: the default.
    case defaultValue

    static let environmentName = "environment"
    static let flagName = "--set"
}

/// What may give a value, the strongest first: the order of the providers of the reader.
enum SourceLayer: Int, CaseIterable {
    case flags, environment, secretFiles, file, openTelemetry
}
