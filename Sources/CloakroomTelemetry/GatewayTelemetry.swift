public import CloakroomCore
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
    public var seriesLimit = PrometheusRegistry.defaultSeriesLimit
    /// Where log lines go.
    public var logFileDescriptor: Int32 = 1
    /// How many bytes of log lines may wait for a slow reader; events have ``LogWriter/eventReserve`` more.
    public var pendingLogLimit = 4 << 20
    /// What log lines look like.
    public var logFormat = LogFormat.json
    /// Lines below this level are not written, until ``GatewayTelemetry/setLogLevel(_:)`` says otherwise.
    public var logLevel = Logger.Level.info
    /// Whether each request is logged, where a route table does not say.
    public var isAccessLogEnabled = true
    /// Whether exchanges are counted and timed. Without a listener for operators nobody could read the numbers.
    public var isMetricsEnabled = true
    /// Which traces are recorded, where they go, and under what name.
    public var tracing = TracingConfiguration()
    /// Which traces are recorded, whatever ``tracing`` says of that.
    public var sampler: TraceSampler?

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
    /// Where spans are sent, if that is to a collector; ``runExporter()`` runs it.
    let collector: OTLPSpanExporter?
    private let logLevel: DynamicLogLevel

    /// Registers the families and starts the log writer's thread, which ``shutdown()`` ends.
    public init(settings: TelemetrySettings = TelemetrySettings()) {
        self.settings = settings
        logLevel = DynamicLogLevel(settings.logLevel)
        registry = PrometheusRegistry(seriesLimit: settings.seriesLimit)
        metrics = GatewayMetrics(registry: registry)
        logWriter = LogWriter(
            fileDescriptor: settings.logFileDescriptor, pendingLimit: settings.pendingLogLimit,
            dropped: metrics.droppedLogs, droppedEvents: metrics.droppedEvents,
            notice: DroppedEventsNotice(format: settings.logFormat).render)
        ids = TraceIDSource()
        let spans = settings.makeSpanExporter(writer: logWriter, dropped: metrics.droppedTraces)
        collector = spans as? OTLPSpanExporter
        tracer = W3CTracer(
            sampler: settings.sampler ?? settings.configuredSampler, exporter: spans,
            ids: ids)
        metrics.setBuildInfo(version: settings.version, commit: settings.commit)
        let process = ProcessMetrics(registry: registry)
        registry.onScrape { process.update() }
    }

    /// Metrics and access log for one event loop under one route table.
    ///
    /// - Parameters:
    ///   - routes: the configured names, in the order of ``ExchangeRecord/routeIndex``.
    ///   - upstreams: the targets, in the order of ``ExchangeRecord/upstreamIndex``.
    ///   - accessLogRatios: for each route the share of its exchanges that the access log tells of, 0...1, in the order
    ///     of `routes`. Those that are missing at its end are told of whole, and so is what no route matched. Failures,
    ///     with an error of the gateway's or a status of 500 and up, are told of in any case.
    ///   - isAccessLogEnabled: whether there is an access log; `nil` leaves it at what the settings say.
    public func makeLoopTelemetry(
        routes: [String], upstreams: [UpstreamTarget], accessLogRatios: [Double] = [],
        isAccessLogEnabled: Bool? = nil
    ) -> LoopTelemetry {
        LoopTelemetry(
            metrics: metrics, isMetricsEnabled: settings.isMetricsEnabled,
            writer: isAccessLogEnabled ?? settings.isAccessLogEnabled ? logWriter : nil, routes: routes,
            upstreams: upstreams, accessLogRatios: accessLogRatios, format: settings.logFormat)
    }

    /// A handler in the configured format; `LoggingSystem.bootstrap` takes a closure around it.
    public func makeLogHandler(label: String) -> any LogHandler {
        switch settings.logFormat {
        case .json:
            JSONLogHandler(label: label, writer: logWriter, logLevel: logLevel, metadataProvider: .traceContext)
        case .text:
            TextLogHandler(label: label, writer: logWriter, logLevel: logLevel, metadataProvider: .traceContext)
        }
    }

    /// Changes the level from which on lines are written, for all loggers that have none of their own, those that stand
    /// already included.
    public func setLogLevel(_ level: Logger.Level) {
        logLevel.set(level)
    }

    /// Writes what is still waiting. Blocks for at most two seconds; the last thing a process does.
    public func shutdown() {
        logWriter.shutdown()
    }
}
