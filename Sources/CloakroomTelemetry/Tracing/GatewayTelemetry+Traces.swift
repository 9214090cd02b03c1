import CloakroomCore
import Logging
import ServiceLifecycle

extension GatewayTelemetry {
    /// Sends spans to the collector until a graceful shutdown begins or the task is cancelled, and after that what waits,
    /// within ``OTLPSpanExporter/shutdownTimeout``. Where spans go elsewhere it only waits. To be called once, and to be
    /// stopped after everything that makes spans.
    public func runExporter() async {
        guard let collector else {
            try? await gracefulShutdown()
            return
        }
        await collector.run(logger: Logger(label: "cloakroom.traces") { makeLogHandler(label: $0) })
    }
}

extension TelemetrySettings {
    /// The plan's sampler. Where spans go nowhere no trace begins here: others would take part in it and look for us.
    var configuredSampler: TraceSampler {
        tracing.exporter != .none ? TraceSampler(tracing.sampler) : .alwaysOff.parentBased
    }

    /// Makes what takes finished spans away.
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
