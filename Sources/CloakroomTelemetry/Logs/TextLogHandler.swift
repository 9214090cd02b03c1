public import Logging

/// Writes log lines for a terminal: time, level, logger, message, then `key=value`. Control characters are escaped, so
/// logged values cannot move the cursor or start a new line.
public struct TextLogHandler: LogHandler {
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
        timestamp.append(now(), to: &line)
        line.append(" ")
        let levelStart = line.count
        line.append(plain: event.level.rawValue.uppercased())
        line.pad(from: levelStart, to: 9)
        line.append(escaped: label.utf8.span)
        line.append(": ")
        line.append(escaped: event.message.description.utf8.span)
        if let error = event.error { Self.append("error", "\(error)", to: &line) }
        for (key, value) in LogMetadata.merged(metadata, metadataProvider, event.metadata) {
            Self.append(key, value, to: &line)
        }
        line.append("\n")
        writer.submit(bytes: line.bytes, lines: 1, kind: .init(event.level))
    }

    private static func append(_ key: String, _ value: Logger.MetadataValue, to line: inout LineBuffer) {
        line.append(" ")
        line.append(escaped: key.utf8.span)
        line.append("=")
        switch value {
        case .string, .stringConvertible:
            line.append(word: value.description.utf8.span)
        case .array, .dictionary:
            line.append(value)
        }
    }
}
