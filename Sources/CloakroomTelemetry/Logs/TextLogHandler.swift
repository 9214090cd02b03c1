public import Logging

/// A log line for a person at a terminal: time, level, logger, message, then `key=value`. Control characters are
/// escaped, so that nothing logged can move the cursor or start a line of its own.
public struct TextLogHandler: LogHandler {
    /// What every line of this logger carries.
    public var metadata: Logger.Metadata = [:]
    /// Adds metadata of the moment, such as the trace.
    public var metadataProvider: Logger.MetadataProvider?
    /// Lines below this level are not written.
    public var logLevel: Logger.Level

    private let label: String
    private let writer: LogWriter
    private let now: WallClock

    /// Makes a handler for the logger named `label`.
    public init(
        label: String, writer: LogWriter, logLevel: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil, now: @escaping WallClock = systemWallClock
    ) {
        self.label = label
        self.writer = writer
        self.logLevel = logLevel
        self.metadataProvider = metadataProvider
        self.now = now
    }

    /// One value of ``metadata``.
    public subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Renders the line and hands it to the writer, which may drop it and never waits.
    public func log(event: LogEvent) {
        var timestamp = TimestampRenderer()
        var line = LineBuffer(reserving: 256)
        timestamp.append(now(), to: &line)
        line.append(" ")
        let level = event.level.rawValue.uppercased()
        line.append(plain: level + String(repeating: " ", count: max(0, 8 - level.count)))
        line.append(" ")
        line.append(escaped: label.utf8.span)
        line.append(": ")
        line.append(escaped: event.message.description.utf8.span)
        if let error = event.error { Self.append("error", "\(error)", to: &line) }
        for (key, value) in LogMetadata.merged(metadata, metadataProvider, event.metadata) {
            Self.append(key, value, to: &line)
        }
        line.append("\n")
        writer.submit(bytes: line.bytes, lines: 1)
    }

    private static func append(_ key: String, _ value: Logger.MetadataValue, to line: inout LineBuffer) {
        line.append(" ")
        line.append(escaped: key.utf8.span)
        line.append("=")
        switch value {
        case .string, .stringConvertible:
            let text = value.description
            if text.isEmpty || text.contains(where: { $0 == " " || $0 == "=" }) {
                line.append(json: text)
            } else {
                line.append(escaped: text.utf8.span)
            }
        case .array, .dictionary:
            line.append(value)
        }
    }
}
