package import Logging
import Synchronization

/// Records log lines of all levels, including trace.
package final class RecordedLog: Sendable {
    private let lines = Mutex<[[String: String]]>([])

    /// An empty log.
    package init() {}

    /// The lines: their metadata with that of the logger, `message` and `level`.
    package var all: [[String: String]] { lines.withLock { $0 } }

    /// Each line as text that starts with the level and the message.
    package var texts: [String] {
        all.map { line in
            let metadata = line.filter { $0.key != "level" && $0.key != "message" }
            return "\(line["level"] ?? "") \(line["message"] ?? "") \(metadata)"
        }
    }

    /// A logger that writes to this log.
    package var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    package func lines(_ key: String, _ value: String) -> [[String: String]] { all.filter { $0[key] == value } }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            var line = metadata.merging(event.metadata ?? [:]) { $1 }.mapValues { "\($0)" }
            line["message"] = "\(event.message)"
            line["level"] = "\(event.level)"
            let written = line
            log.lines.withLock { $0.append(written) }
        }
    }
}
