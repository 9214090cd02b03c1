public import Logging

/// A log line as a JSON object: `time`, `level`, `logger`, `message`, then the metadata, sorted, at the same level.
/// Metadata that has one of those names appears as `metadata_<name>`.
public struct JSONLogHandler: LogHandler {
    private static let ownKeys: Set<String> = ["time", "level", "logger", "message", "error"]

    /// What every line of this logger carries.
    public var metadata: Logger.Metadata = [:]
    /// Adds metadata of the moment, such as the trace.
    public var metadataProvider: Logger.MetadataProvider?
    /// Lines below this level are not written. Who sets it has a level of their own from then on; else it is the shared
    /// one of the moment.
    public var logLevel: Logger.Level {
        get { ownLevel ?? sharedLevel.current }
        set { ownLevel = newValue }
    }

    private let sharedLevel: DynamicLogLevel
    private var ownLevel: Logger.Level?
    private let label: String
    private let writer: LogWriter
    private let now: WallClock

    /// Makes a handler for the logger named `label`.
    /// - Parameter logLevel: From which level on lines are written, as long as this logger has none of its own.
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

    /// Makes a handler whose level nobody else changes.
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

    /// Renders the line and hands it to the writer, which may drop it and never waits.
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
