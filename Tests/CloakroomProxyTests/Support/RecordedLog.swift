import Logging
import Synchronization

/// Keeps what is logged.
final class RecordedLog: Sendable {
    private let lines = Mutex<[[String: String]]>([])

    /// The lines: their metadata, the logger's own included, and `message`.
    var all: [[String: String]] { lines.withLock { $0 } }

    /// A logger that writes here.
    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            var line = metadata.merging(event.metadata ?? [:]) { $1 }.mapValues { "\($0)" }
            line["message"] = "\(event.message)"
            let written = line
            log.lines.withLock { $0.append(written) }
        }
    }
}
