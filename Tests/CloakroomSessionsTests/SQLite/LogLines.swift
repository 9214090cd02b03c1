import Logging
import Synchronization

/// Records all log lines, at every level, as text.
final class LogLines: Sendable {
    private let kept = Mutex<[String]>([])

    var all: [String] { kept.withLock { $0 } }

    var logger: Logger {
        Logger(label: "test") { _ in Handler(lines: self) }
    }

    private func add(_ line: String) {
        kept.withLock { $0.append(line) }
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.add("\(event.level) \(event.message) \(event.metadata ?? [:])")
        }
    }
}
