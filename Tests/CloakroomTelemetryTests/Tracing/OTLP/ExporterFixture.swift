import TestSupport
import Tracing

@testable import CloakroomCore
@testable import CloakroomTelemetry

/// An exporter, its counters and its log.
struct ExporterFixture: Sendable {
    let exporter: OTLPSpanExporter
    let dropped = CounterHandle()
    let log = RecordedLog()

    /// Batches of four, from a queue of eight, with short delays.
    static func configuration(port: Int) -> OTLPConfiguration {
        OTLPConfiguration(
            endpoint: "http://127.0.0.1:\(port)/v1/traces", timeout: .seconds(20), queueLimit: 8, batchLimit: 4,
            interval: .milliseconds(1))
    }

    init(
        port: Int, backOff: ExportRetryPolicy = ExportRetryPolicy(first: .milliseconds(1), attempts: 1_000_000),
        shutdownTimeout: Duration = .seconds(20), attributes: [NamedValue<String>] = [],
        _ change: (inout OTLPConfiguration) -> Void = { _ in }
    ) {
        var configuration = Self.configuration(port: port)
        change(&configuration)
        exporter = OTLPSpanExporter(
            configuration, resource: OTelResource(serviceName: "gateway", version: "1.2.3", attributes: attributes),
            dropped: dropped, backOff: backOff, shutdownTimeout: shutdownTimeout)
    }

    /// Runs the exporter while `body` runs, and stops it afterwards.
    func run<R: Sendable>(_ body: @Sendable () async throws -> R) async throws -> R {
        let running = Task { await exporter.run(logger: log.logger) }
        return try await stopping {
            running.cancel()
            await running.value
        } after: {
            try await body()
        }
    }

    func export(_ names: String...) {
        for name in names { exporter.export(Self.span(name)) }
    }

    /// Exports the given number of spans, named by their index.
    func export(_ count: Int) {
        for number in 0..<count { exporter.export(Self.span("\(number)")) }
    }

    static func span(_ name: String) -> FinishedSpan {
        FinishedSpan(
            name: name, kind: .internal,
            context: TraceContext(traceID: ID128(high: 1, low: 2), spanID: 3, flags: 1), parentSpanID: nil,
            startNanoseconds: 1, endNanoseconds: 2)
    }
}

extension [OTLPReceiver.Batch] {
    /// The number of spans in each batch.
    var sizes: [Int] { map(\.spans.count) }
}
