import CloakroomCore
import Logging
import ServiceLifecycle

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
