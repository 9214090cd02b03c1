/// Logs.
public struct LoggingConfiguration: Sendable, Equatable {
    /// The format of log lines.
    public enum Format: String, Sendable, Hashable, CaseIterable {
        /// One JSON object per line.
        case json
        /// Human-readable text.
        case text
    }

    /// The minimum log level: trace, debug, info, notice, warning, error, critical.
    public var level = "info"
    /// The format of log lines; `nil` for text on a terminal, otherwise JSON.
    public var format: Format?
    /// Whether requests are logged.
    public var accessLog = true
}

/// Metrics.
public struct MetricsConfiguration: Sendable, Equatable {
    /// The upper bounds of the buckets of all histograms of durations, in seconds: ascending, 1 to ``maxBuckets`` of
    /// them, each from ``bucketRange``.
    public var buckets = Self.defaultBuckets

    /// The bounds of OpenTelemetry's HTTP conventions, and bounds from 100 µs for a gateway whose own part of a request
    /// takes less than the lowest of those.
    public static let defaultBuckets: [Double] = [
        0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5,
        5, 7.5, 10,
    ]
    /// The maximum number of bounds: each is one line of every histogram in a scrape.
    public static let maxBuckets = 31
    /// The allowed bounds, in seconds.
    public static let bucketRange = 0.00001...3_600
}

/// Traces.
public struct TracingConfiguration: Sendable, Equatable {
    /// The exporter of finished spans.
    public enum Exporter: String, Sendable, Hashable, CaseIterable {
        /// No exporter: no span is created, but the trace context is still propagated.
        case none
        /// To the log, one line per span.
        case log
        /// To a collector, by OTLP over HTTP.
        case otlp
    }

    /// The defaults of all keys.
    public static let defaults = Self()

    /// The exporter of finished spans.
    public var exporter: Exporter = .none
    /// Which traces are recorded.
    public var sampler = SamplerConfiguration()
    /// The resource attribute `service.name`.
    public var serviceName = "cloakroom"
    /// Further resource attributes of all spans, such as `deployment.environment.name`, in the configured order.
    public var resourceAttributes: [NamedValue<String>] = []
    /// The collector.
    public var otlp = OTLPConfiguration()
}

/// Which traces are recorded; the samplers of OpenTelemetry.
public struct SamplerConfiguration: Sendable, Hashable {
    /// The decision for traces that the gateway starts.
    public enum Root: String, Sendable, Hashable, CaseIterable {
        /// Every trace.
        case alwaysOn = "always_on"
        /// No trace.
        case alwaysOff = "always_off"
        /// The fraction ``SamplerConfiguration/ratio`` of the traces, by their ids.
        case traceIDRatio = "traceidratio"
    }

    /// The decision for traces that the gateway starts.
    public var root: Root = .traceIDRatio
    /// The fraction, 0...1; used only for `traceidratio`.
    public var ratio = 0.01
    /// Whether the sampling decision of a trusted peer takes precedence.
    public var isParentBased = true
}

/// Export of finished spans to a collector: OTLP over HTTP with protobuf bodies. Names and defaults are those of the
/// OpenTelemetry SDK's variables `OTEL_EXPORTER_OTLP_*` and `OTEL_BSP_*`.
public struct OTLPConfiguration: Sendable, Equatable {
    /// The whole URL that batches are posted to: `http` or `https`, a host, and a path.
    public var endpoint = "http://localhost:4318/v1/traces"
    /// PEM file of the trust roots for an `https` collector; `nil` uses the system's trust roots.
    public var caFile: String?
    /// Header fields of every export request, such as an API key of the collector; the values are visible ASCII.
    public var headers: [NamedValue<Secret>] = []
    /// The timeout of one attempt. Not configurable.
    public var timeout: Duration = .seconds(10)
    /// The maximum number of queued spans, 1...1,000,000; further spans are dropped and counted.
    public var queueLimit = 2_048
    /// The maximum number of spans in one batch, 1...``queueLimit``. Not configurable.
    public var batchLimit = 512
    /// The maximum delay of a span before it is sent, 1ms...1d.
    public var interval: Duration = .seconds(5)

    /// The TLS configuration for an `https` collector.
    public var tls: UpstreamTLSConfiguration { UpstreamTLSConfiguration(caFile: caFile) }
}
