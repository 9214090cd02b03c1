import TestSupport
import Testing
import Tracing

@testable import CloakroomCore
@testable import CloakroomTelemetry

@Suite("Span export at shutdown")
struct OTLPShutdownTests {
    @Test("All queued spans are exported at shutdown, without waiting for the interval")
    func flush() async throws {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port) { $0.interval = .seconds(3_600) }
            try await tested.run { tested.export(7) }
            try await expect(receiver.receives(requests: 2).sizes, equals: [4, 3])
            expect(tested.dropped.value, equals: 0)
            // Spans exported later are dropped and counted.
            tested.export("late")
            expect(tested.dropped.value, equals: 1)
        }
    }

    @Test("A shutdown ends the delay before a retry, and the retry is made")
    func pauseEnds() async throws {
        try await OTLPReceiver.run([.status(503, retryAfter: "3600")]) { receiver in
            let tested = ExporterFixture(port: receiver.port)
            try await tested.run { () async throws in
                tested.export("a")
                try await eventually("the delay begins") { !tested.log.lines("reason", "503").isEmpty }
            }
            try await expect(receiver.receives(requests: 2).names, equals: ["a", "a"])
            expect(tested.dropped.value, equals: 0)
        }
    }

    @Test("A hanging collector delays the shutdown at most by the timeout; remaining spans are counted and logged")
    func bound() async throws {
        try await OTLPReceiver.run([.whenReleased]) { receiver in
            let tested = ExporterFixture(port: receiver.port, shutdownTimeout: .milliseconds(100))
            try await tested.run { () async throws in
                tested.export(4)
                _ = try await receiver.receives(requests: 1)
                tested.export(3)
            }
            expect(tested.dropped.value, equals: 7)
            expect(tested.exporter.waitingCount, equals: 0)
            expect(tested.log.lines("message", "spans were dropped at shutdown").map { $0["count"] }, equals: ["7"])
        }
    }

    @Test("Telemetry with a collector exports its spans to it, and without one starts no trace")
    func gatewayTelemetry() async throws {
        try await OTLPReceiver.run { receiver in
            var settings = TelemetrySettings()
            settings.version = "7.8.9"
            settings.tracing = TracingConfiguration(
                exporter: .otlp, sampler: SamplerConfiguration(root: .alwaysOn), serviceName: "front door",
                otlp: ExporterFixture.configuration(port: receiver.port))
            let telemetry = GatewayTelemetry(settings: settings)
            defer { telemetry.shutdown() }
            let running = Task { await telemetry.runExporter() }
            telemetry.tracer.startSpan("a", context: .topLevel).end()
            let batches = try await receiver.receives(requests: 1)
            running.cancel()
            await running.value
            expect(batches.names, equals: ["a"])
            expect(batches.first?.resource["service.name"], equals: "string front door")
            expect(batches.first?.resource["service.version"], equals: "string 7.8.9")
        }
        var settings = TelemetrySettings()
        settings.tracing.sampler = SamplerConfiguration(root: .alwaysOn)
        let telemetry = GatewayTelemetry(settings: settings)
        defer { telemetry.shutdown() }
        expect(!telemetry.tracer.childContext(of: nil).isSampled)
        let parent = TraceContext(traceID: ID128(high: 1, low: 1), spanID: 1, flags: 1)
        expect(telemetry.tracer.childContext(of: parent).isSampled)
    }
}
