public import CloakroomCore
public import Logging
import ServiceLifecycle

/// The settings of telemetry.
public struct TelemetrySettings: Sendable {
    /// The version shown in `cloakroom_build_info`.
    public var version = "unknown"
    /// The commit shown in `cloakroom_build_info`.
    public var commit = "unknown"
    /// The maximum number of series of a metric family.
    public var seriesLimit = PrometheusRegistry.defaultSeriesLimit
    /// The upper bounds of histograms of durations, in seconds, ascending.
    public var buckets = MetricsConfiguration.defaultBuckets
    /// The file descriptor for log lines.
    public var logFileDescriptor: Int32 = 1
    /// The maximum number of buffered bytes of log lines; events have ``LogWriter/eventReserve`` more.
    public var pendingLogLimit = 4 << 20
    /// The format of log lines.
    public var logFormat = LoggingConfiguration.Format.json
    /// The initial minimum log level; changed by ``GatewayTelemetry/setLogLevel(_:)``.
    public var logLevel = Logger.Level.info
    /// Whether requests are logged if the route table does not specify it.
    public var isAccessLogEnabled = true
    /// Whether exchanges are counted and timed. Not needed without an admin listener, because nothing could read the
    /// metrics.
    public var isMetricsEnabled = true
    /// The tracing configuration: sampler, exporter and resource.
    public var tracing = TracingConfiguration.defaults
    /// A sampler that overrides the one of ``tracing``.
    public var sampler: TraceSampler?

    /// Creates the default settings.
    public init() {}
}

/// The telemetry of the gateway, created once at start: the registry (also the swift-metrics factory), the metric
/// families, the log writer and the tracer.
///
/// Module `CloakroomTelemetry`: metrics, logs and traces. It records what other modules decided and decides only what
/// is written, sampled or dropped.
public final class GatewayTelemetry: Sendable {
    /// The settings.
    public let settings: TelemetrySettings
    /// The registry of all metrics; passed to `MetricsSystem.bootstrap`.
    public let registry: PrometheusRegistry
    /// The metric families of the gateway.
    public let metrics: GatewayMetrics
    /// The writer of all log lines.
    public let logWriter: LogWriter
    /// The tracer; passed to `InstrumentationSystem.bootstrap`.
    public let tracer: W3CTracer

    /// The context of a new span below `parent`, or of a new trace. Does not copy the tracer, unlike a call on it.
    public func childContext(of parent: TraceContext?) -> TraceContext { tracer.childContext(of: parent) }
    /// Records a request with a session that is bound to a device. Does not copy the metrics, unlike a call on them.
    public func recordDeviceCheck(_ check: DeviceCheck) { metrics.recordDeviceCheck(check) }
    /// The id source for code that runs outside of event loops.
    public let ids: TraceIDSource
    /// The exporter if spans are sent to a collector; run by ``runExporter()``.
    let collector: OTLPSpanExporter?
    /// The last rejected requests.
    public let rejectedRequests = RejectedRequests()
    private let logLevel: DynamicLogLevel

    /// Registers the metric families and starts the log writer's thread, which ``shutdown()`` stops.
    public init(settings: TelemetrySettings = TelemetrySettings()) {
        self.settings = settings
        logLevel = DynamicLogLevel(settings.logLevel)
        registry = PrometheusRegistry(seriesLimit: settings.seriesLimit, buckets: settings.buckets)
        metrics = GatewayMetrics(registry: registry)
        logWriter = LogWriter(
            fileDescriptor: settings.logFileDescriptor, pendingLimit: settings.pendingLogLimit,
            dropped: metrics.droppedLogs, droppedEvents: metrics.droppedEvents,
            notice: { GatewayLogHandler.droppedEventsNotice($0, settings.logFormat) })
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

    /// Metrics and access log for one event loop and one route table.
    ///
    /// - Parameters:
    ///   - routes: The routes, indexed by ``ExchangeRecord/routeIndex``.
    ///   - upstreams: The targets, indexed by ``ExchangeRecord/upstreamIndex``.
    ///   - accessLogRatios: The fraction of exchanges to log, 0...1, indexed like `routes`. Routes without an entry and
    ///     unmatched requests are logged completely. Failures, that is exchanges with a gateway error or a status of at
    ///     least 500, are always logged.
    ///   - limits: The names of rate limits, indexed by ``ExchangeRecord/limitIndex``.
    ///   - listeners: The addresses of listeners, indexed by ``ExchangeRecord/listenerIndex``; empty logs none.
    public func makeLoopTelemetry(
        routes: [RouteLabels], upstreams: [UpstreamTarget], accessLogRatios: [Double] = [], limits: [String] = [],
        listeners: [String] = []
    ) -> LoopTelemetry {
        LoopTelemetry(
            metrics: metrics, isMetricsEnabled: settings.isMetricsEnabled,
            writer: settings.isAccessLogEnabled ? logWriter : nil, routes: routes,
            upstreams: upstreams, accessLogRatios: accessLogRatios, limits: limits, listeners: listeners,
            format: settings.logFormat, rejectedRequests: rejectedRequests)
    }

    /// A log handler in the configured format, for use in the closure of `LoggingSystem.bootstrap`.
    public func makeLogHandler(label: String) -> any LogHandler {
        GatewayLogHandler(
            label: label, format: settings.logFormat, writer: logWriter, logLevel: logLevel,
            metadataProvider: .traceContext)
    }

    /// Changes the minimum log level of all existing and future loggers without an explicit level.
    public func setLogLevel(_ level: Logger.Level) {
        logLevel.set(level)
    }

    /// Flushes buffered log lines. Blocks for at most two seconds; call it last before the process exits.
    public func shutdown() {
        logWriter.shutdown()
    }
}

extension GatewayTelemetry {
    /// Sends spans to the collector until a graceful shutdown begins or the task is cancelled, then flushes the queue
    /// within ``OTLPSpanExporter/shutdownTimeout``. Without a collector it only waits. Call it once, and stop it after all
    /// components that create spans.
    public func runExporter() async {
        guard let collector else {
            try? await gracefulShutdown()
            return
        }
        await collector.run(logger: Logger(label: "cloakroom.traces") { makeLogHandler(label: $0) })
    }
}

extension TelemetrySettings {
    /// The configured sampler. Without an exporter no trace is started: other services would join a trace whose root
    /// span is missing.
    var configuredSampler: TraceSampler {
        tracing.exporter != .none ? TraceSampler(tracing.sampler) : .alwaysOff.parentBased
    }

    /// Creates the exporter of finished spans.
    func makeSpanExporter(writer: LogWriter, dropped: CounterHandle) -> any SpanExporter {
        switch tracing.exporter {
        case .none: NoOpSpanExporter()
        case .log: LogSpanExporter(writer: writer)
        case .otlp:
            OTLPSpanExporter(
                tracing.otlp,
                resource: OTelResource(
                    serviceName: tracing.serviceName, version: version, attributes: tracing.resourceAttributes),
                dropped: dropped)
        }
    }
}
