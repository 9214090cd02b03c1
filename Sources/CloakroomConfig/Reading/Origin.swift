/// A place in a text file, both from 1; columns count Unicode scalars.
struct Position: Hashable, Sendable {
    let line: Int
    let column: Int
}

/// Where a value was given.
enum Origin: Hashable, Sendable {
    /// A flag `--set key=value`.
    case flag
    /// An environment variable, of ours or of the OpenTelemetry specification.
    case environment(String)
    /// A file that a `…File` key names.
    case secretFile(String)
    /// The configuration file.
    case file(Position)
    /// Nowhere: the default.
    case fallback

    static let environmentName = "environment"
    static let flagName = "--set"
}

/// What may give a value, the strongest first: the order of the providers of the reader.
enum Layer: Int, CaseIterable {
    case flags, environment, secretFiles, file, openTelemetry
}
