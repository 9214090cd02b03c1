import Logging

extension LogWriter.LineKind {
    /// Audit lines are written at level `notice` and above.
    init(_ level: Logger.Level) {
        self = level >= .notice ? .event : .traffic
    }
}

/// The log line that reports dropped events, which happens if the log output is not read. It is written by
/// ``LogWriter`` itself, bypassing the full buffer.
struct DroppedEventsNotice: Sendable {
    let format: TelemetrySettings.LogFormat

    private static let message = "log lines were dropped: the log is not read fast enough"

    func render(_ events: Int) -> [UInt8] {
        var timestamp = RFC3339Renderer()
        var line = LineBuffer(reserving: 192)
        switch format {
        case .json:
            line.append("{\"time\":\"")
            timestamp.append(systemWallClock(), to: &line)
            line.append("\",\"level\":\"error\",\"logger\":\"cloakroom\",\"message\":")
            line.append(json: Self.message)
            line.append(",\"count\":")
            line.append(json: "\(events)")
            line.append(",\"event\":\"log_lines_dropped\"}\n")
        case .text:
            timestamp.append(systemWallClock(), to: &line)
            line.append(" ERROR    cloakroom: ")
            line.append(plain: Self.message)
            line.append(plain: " count=\(events) event=log_lines_dropped\n")
        }
        return line.bytes
    }
}
