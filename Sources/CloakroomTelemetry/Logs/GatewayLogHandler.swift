import CloakroomCore
public import Logging
import Synchronization

/// Writes log lines in the configured format; the level is shared by all handlers and can change.
///
/// - JSON: an object with `time`, `level`, `logger`, `message`, followed by the sorted metadata at the same level.
///   Metadata with one of these names is written as `metadata_<name>`.
/// - Text, for a terminal: time, level, logger, message, then `key=value`. Control characters are escaped, so logged
///   values cannot move the cursor or start a new line.
struct GatewayLogHandler: LogHandler {
    private static let ownKeys: Set<String> = ["time", "level", "logger", "message", "error"]

    /// The metadata of every line of this logger.
    var metadata: Logger.Metadata = [:]
    /// Adds context metadata, such as the trace.
    var metadataProvider: Logger.MetadataProvider?
    /// The minimum level. Setting it gives this logger a level of its own; otherwise the shared level applies.
    var logLevel: Logger.Level {
        get { ownLevel ?? sharedLevel.current }
        set { ownLevel = newValue }
    }

    private let sharedLevel: DynamicLogLevel
    private var ownLevel: Logger.Level?
    private let label: String
    private let format: LoggingConfiguration.Format
    private let writer: LogWriter
    private let now: WallClock

    /// Creates a handler for the logger named `label`.
    /// - Parameter logLevel: The shared minimum level, used while this logger has none of its own.
    init(
        label: String, format: LoggingConfiguration.Format, writer: LogWriter,
        logLevel: DynamicLogLevel = DynamicLogLevel(.info), metadataProvider: Logger.MetadataProvider? = nil,
        now: @escaping WallClock = systemWallClock
    ) {
        self.label = label
        self.format = format
        self.writer = writer
        sharedLevel = logLevel
        self.metadataProvider = metadataProvider
        self.now = now
    }

    /// One value of ``metadata``.
    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Renders the line and passes it to the writer, which may drop it and never blocks.
    func log(event: LogEvent) {
        let metadata = LogMetadata.merged(metadata, metadataProvider, event.metadata)
        let line = Self.line(event, metadata, label: label, format, at: now())
        writer.submit(bytes: line, lines: 1, kind: .init(event.level))
    }

    /// The line that reports dropped events, which happens if the log output is not read. It is written by ``LogWriter``
    /// itself, bypassing the full buffer.
    static func droppedEventsNotice(_ events: Int, _ format: LoggingConfiguration.Format) -> [UInt8] {
        let event = LogEvent(
            level: .error, message: "log lines were dropped: the log is not read fast enough", metadata: nil,
            source: nil, file: #fileID, function: #function, line: #line)
        let metadata: LogMetadata.Sorted = [("count", .stringConvertible(events)), ("event", "log_lines_dropped")]
        return line(event, metadata, label: "cloakroom", format, at: systemWallClock())
    }

    private static func line(
        _ event: LogEvent, _ metadata: LogMetadata.Sorted, label: String, _ format: LoggingConfiguration.Format,
        at time: Int64
    ) -> [UInt8] {
        var line = LineBuffer(reserving: 256)
        switch format {
        case .json: appendJSON(event, metadata, label, time, to: &line)
        case .text: appendText(event, metadata, label, time, to: &line)
        }
        return line.bytes
    }

    private static func appendJSON(
        _ event: LogEvent, _ metadata: LogMetadata.Sorted, _ label: String, _ time: Int64, to line: inout LineBuffer
    ) {
        var timestamp = RFC3339Renderer()
        line.append("{\"time\":\"")
        timestamp.append(time, to: &line)
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
        for (key, value) in metadata {
            line.append(",")
            line.append(json: ownKeys.contains(key) ? "metadata_" + key : key)
            line.append(":")
            line.append(value)
        }
        line.append("}\n")
    }

    private static func appendText(
        _ event: LogEvent, _ metadata: LogMetadata.Sorted, _ label: String, _ time: Int64, to line: inout LineBuffer
    ) {
        var timestamp = RFC3339Renderer()
        timestamp.append(time, to: &line)
        line.append(" ")
        let levelStart = line.count
        line.append(plain: event.level.rawValue.uppercased())
        line.pad(from: levelStart, to: 9)
        line.append(escaped: label.utf8.span)
        line.append(": ")
        line.append(escaped: event.message.description.utf8.span)
        if let error = event.error { append("error", "\(error)", to: &line) }
        for (key, value) in metadata { append(key, value, to: &line) }
        line.append("\n")
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

/// Merges the metadata of the handler, the metadata provider and the event; later values win.
enum LogMetadata {
    /// The maximum nesting depth; deeper values are cut to bound the line.
    static let depthLimit = 16

    typealias Sorted = [(key: String, value: Logger.MetadataValue)]

    static func merged(
        _ handler: Logger.Metadata, _ provider: Logger.MetadataProvider?, _ event: Logger.Metadata?
    ) -> Sorted {
        var merged = handler
        if let provided = provider?.get() { merged.merge(provided) { $1 } }
        // Most lines have the metadata of the event alone.
        merged = merged.isEmpty ? event ?? [:] : merged.merging(event ?? [:]) { $1 }
        return merged.sorted { $0.key < $1.key }
    }
}

extension LineBuffer {
    /// Appends a metadata value as JSON: objects and arrays are kept, and so are the numbers and booleans that a caller
    /// passes as such (`.stringConvertible`). Other values become strings.
    mutating func append(_ value: Logger.MetadataValue, depth: Int = 0) {
        guard depth < LogMetadata.depthLimit else { return append("\"…\"") }
        switch value {
        case .string(let text):
            append(json: text)
        case .stringConvertible(let value):
            switch value {
            case let flag as Bool: append(flag ? "true" : "false")
            case let number as Double: append(json: number)
            case let number as any FixedWidthInteger: append(plain: "\(number)")
            default: append(json: value.description)
            }
        case .array(let values):
            append("[")
            for (index, value) in values.enumerated() {
                if index > 0 { append(",") }
                append(value, depth: depth + 1)
            }
            append("]")
        case .dictionary(let values):
            append("{")
            for (index, entry) in values.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { append(",") }
                append(json: entry.key)
                append(":")
                append(entry.value, depth: depth + 1)
            }
            append("}")
        }
    }
}

/// The minimum log level, read by every logger at every line, so a reload also affects existing loggers.
public final class DynamicLogLevel: Sendable {
    private let number: Atomic<UInt8>

    /// Creates a shared level with an initial value.
    public init(_ level: Logger.Level) {
        number = Atomic(Self.number(of: level))
    }

    /// The current level.
    public var current: Logger.Level {
        // Read at every line, written or not, so no array of all levels is created.
        switch number.load(ordering: .relaxed) {
        case 0: .trace
        case 1: .debug
        case 2: .info
        case 3: .notice
        case 4: .warning
        case 5: .error
        default: .critical
        }
    }

    /// Sets the level.
    public func set(_ level: Logger.Level) {
        number.store(Self.number(of: level), ordering: .relaxed)
    }

    private static func number(of level: Logger.Level) -> UInt8 {
        switch level {
        case .trace: 0
        case .debug: 1
        case .info: 2
        case .notice: 3
        case .warning: 4
        case .error: 5
        case .critical: 6
        }
    }
}
