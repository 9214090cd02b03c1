/// Logs.
public struct LoggingPlan: Sendable, Equatable {
    /// How a line looks.
    public enum Format: String, Sendable, Hashable, CaseIterable {
        /// One JSON object a line.
        case json
        /// For a person at a terminal.
        case text
    }

    /// From which level on lines are written: trace, debug, info, notice, warning, error, critical.
    public var level: String
    /// How a line looks.
    public var format: Format
    /// Whether every request gets a line.
    public var accessLog: Bool

    /// Makes a logging plan.
    public init(level: String = "info", format: Format = .json, accessLog: Bool = true) {
        self.level = level
        self.format = format
        self.accessLog = accessLog
    }
}

/// Traces.
public struct TracingPlan: Sendable, Equatable {
    /// Where finished spans go.
    public enum Exporter: String, Sendable, Hashable, CaseIterable {
        /// Nowhere: no span is made, and the trace context is still carried on.
        case none
        /// To the log, one line each.
        case log
    }

    /// Where finished spans go.
    public var exporter: Exporter
    /// Which share of the traces that begin here is sampled, 0...1. A trusted peer's decision goes before.
    public var ratio: Double

    /// Makes a tracing plan.
    public init(exporter: Exporter = .none, ratio: Double = 0.01) {
        self.exporter = exporter
        self.ratio = ratio
    }
}
