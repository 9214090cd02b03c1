public import Logging

/// A log line for a person at a terminal: time, level, logger, message, then `key=value`. Control characters are
/// escaped, so that nothing logged can move the cursor or start a line of its own.
public struct TextLogHandler: LogHandler {
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
