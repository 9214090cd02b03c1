public import Logging

/// How telemetry is set up.
public struct TelemetrySettings: Sendable {
    /// What log lines look like.
    public enum LogFormat: Sendable {
        /// One JSON object per line.
        case json
        /// For a terminal.
        case text
    }

    /// The version shown in `cloakroom_build_info`.
    public var version = "unknown"
    /// The commit shown in `cloakroom_build_info`.
    public var commit = "unknown"
    /// How many series one metric family may have.
    public var seriesLimit = 2_000
    /// Where log lines go.
    public var logFileDescriptor: Int32 = 1
    /// How many bytes of log lines may wait for a slow reader.
    public var pendingLogLimit = 4 << 20
    /// What log lines look like; the access log is JSON in any case.
    public var logFormat = LogFormat.json
    /// Lines below this level are not written.
    public var logLevel = Logger.Level.info
    /// Whether each request is logged.
    public var isAccessLogEnabled = true
    /// Which traces are recorded.
    public var sampler = TraceSampler.alwaysOff.parentBased
    /// Whether recorded spans are written to the log. Without, they go nowhere.
    public var areSpansLogged = false

    /// The defaults.
    public init() {}
}

/// Everything the gateway tells about itself, put together once by the wiring: the registry (also swift-metrics'
/// factory), the families, the log writer and the tracer.
public final class GatewayTelemetry: Sendable {
    /// How it was set up.
    public let settings: TelemetrySettings
    /// Every metric; `MetricsSystem.bootstrap` takes it.
    public let registry: PrometheusRegistry
    /// The gateway's own families.
    public let metrics: GatewayMetrics
    /// Where all log lines go.
    public let logWriter: LogWriter
    /// `InstrumentationSystem.bootstrap` takes it.
    public let tracer: W3CTracer
    /// Ids for whoever has no event loop of their own.
    public let ids: TraceIDSource

    /// Registers the families and starts the log writer's thread, which ``shutdown()`` ends.
    ///
    /// - Parameter exporter: where sampled spans go; by default what the settings say.
    public init(settings: TelemetrySettings = TelemetrySettings(), exporter: (any SpanExporter)? = nil) {
        self.settings = settings
        registry = PrometheusRegistry(seriesLimit: settings.seriesLimit)
        metrics = GatewayMetrics(registry: registry)
        logWriter = LogWriter(
            fileDescriptor: settings.logFileDescriptor, pendingLimit: settings.pendingLogLimit,
            dropped: metrics.droppedLogs)
        ids = TraceIDSource()
        let standard: any SpanExporter =
            settings.areSpansLogged ? LogSpanExporter(writer: logWriter) : DiscardingSpanExporter()
        tracer = W3CTracer(sampler: settings.sampler, exporter: exporter ?? standard, ids: ids)
        metrics.setBuildInfo(version: settings.version, commit: settings.commit)
        let process = ProcessMetrics(registry: registry)
        registry.onScrape { process.update() }
    }

    /// Metrics and access log for one event loop under one route table.
    ///
    /// - Parameters:
    ///   - routes: the configured names, in the order of ``ExchangeRecord/routeIndex``.
    ///   - upstreams: the targets, in the order of ``ExchangeRecord/upstreamIndex``.
    public func makeLoopTelemetry(routes: [String], upstreams: [UpstreamTarget]) -> LoopTelemetry {
        LoopTelemetry(
            metrics: metrics, writer: settings.isAccessLogEnabled ? logWriter : nil, routes: routes,
            upstreams: upstreams)
    }

    /// A handler in the configured format; `LoggingSystem.bootstrap` takes a closure around it.
    public func makeLogHandler(label: String) -> any LogHandler {
        switch settings.logFormat {
        case .json:
            JSONLogHandler(
                label: label, writer: logWriter, logLevel: settings.logLevel, metadataProvider: .traceContext)
        case .text:
            TextLogHandler(
                label: label, writer: logWriter, logLevel: settings.logLevel, metadataProvider: .traceContext)
        }
    }

    /// Writes what is still waiting. Blocks for at most two seconds; the last thing a process does.
    public func shutdown() {
        logWriter.shutdown()
    }
}
