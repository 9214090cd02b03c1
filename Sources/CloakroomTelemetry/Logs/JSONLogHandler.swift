public import Logging

/// Writes log lines as JSON objects: `time`, `level`, `logger`, `message`, followed by the sorted metadata at the same
/// level. Metadata with one of these names is written as `metadata_<name>`.
public struct JSONLogHandler: LogHandler {
    private static let ownKeys: Set<String> = ["time", "level", "logger", "message", "error"]

    /// The metadata of every line of this logger.
    public var metadata: Logger.Metadata = [:]
    /// Adds context metadata, such as the trace.
    public var metadataProvider: Logger.MetadataProvider?
    /// The minimum level. Setting it gives this logger a level of its own; otherwise the shared level applies.
    public var logLevel: Logger.Level {
        get { ownLevel ?? sharedLevel.current }
        set { ownLevel = newValue }
    }

    private let sharedLevel: DynamicLogLevel
    private var ownLevel: Logger.Level?
    private let label: String
    private let writer: LogWriter
    private let now: WallClock

    /// Creates a handler for the logger named `label`.
    /// - Parameter logLevel: The shared minimum level, used while this logger has none of its own.
    public init(
        label: String, writer: LogWriter, logLevel: DynamicLogLevel,
        metadataProvider: Logger.MetadataProvider? = nil, now: @escaping WallClock = systemWallClock
    ) {
        self.label = label
        self.writer = writer
        sharedLevel = logLevel
        self.metadataProvider = metadataProvider
        self.now = now
    }

    /// Creates a handler with a fixed level.
    public init(
        label: String, writer: LogWriter, logLevel: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil, now: @escaping WallClock = systemWallClock
    ) {
        self.init(
            label: label, writer: writer, logLevel: DynamicLogLevel(logLevel), metadataProvider: metadataProvider,
            now: now)
    }

    /// One value of ``metadata``.
    public subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Renders the line and passes it to the writer, which may drop it and never blocks.
    public func log(event: LogEvent) {
        var timestamp = RFC3339Renderer()
        var line = LineBuffer(reserving: 256)
        line.append("{\"time\":\"")
        timestamp.append(now(), to: &line)
        line.append("\",\"level\":\"")
        line.append(plain: event.level.rawValue)
        line.append("\",\"logger\":")
        line.append(json: label)
        line.append(",\"message\":")
        line.append(json: event.message.description)
        if let error = event.error {
            line.append(",\"error\":")
            line.append(json: "\(error)")
        }
        for (key, value) in LogMetadata.merged(metadata, metadataProvider, event.metadata) {
            line.append(",")
            line.append(json: Self.ownKeys.contains(key) ? "metadata_" + key : key)
            line.append(":")
            line.append(value)
        }
        line.append("}\n")
        writer.submit(bytes: line.bytes, lines: 1, kind: .init(event.level))
    }
}
