import CloakroomCore
import TestSupport
import Testing
import Tracing

@testable import CloakroomTelemetry

@Suite("The last spans")
struct OTLPShutdownTests {
    @Test("Everything that waits at shutdown is delivered, without waiting for the interval")
    func flush() async throws {
        try await OTLPReceiver.run { receiver in
            var configuration = ExporterFixture.configuration(port: receiver.port)
            configuration.interval = .seconds(3_600)
            let tested = ExporterFixture(configuration)
            try await tested.run { tested.export(7) }
            #expect(try receiver.batches.sizes == [4, 3])
            #expect(tested.dropped.value == 0)
            // What comes later is too late, and counted.
            tested.export("late")
            #expect(tested.dropped.value == 1)
        }
    }

    @Test("A pause before another attempt ends with the shutdown, and the attempt is made")
    func pauseEnds() async throws {
        try await OTLPReceiver.run([.status(503, retryAfter: "3600")]) { receiver in
            let tested = ExporterFixture(ExporterFixture.configuration(port: receiver.port))
            try await tested.run { () async throws in
                tested.export("a")
                try await eventually("the pause begins") { !tested.log.lines("reason", "503").isEmpty }
            }
            #expect(try receiver.batches.names == ["a", "a"])
            #expect(tested.dropped.value == 0)
        }
    }

    @Test("A collector that hangs holds the shutdown up no longer than the bound; what is left is counted and told")
    func bound() async throws {
        try await OTLPReceiver.run([.whenReleased]) { receiver in
            let tested = ExporterFixture(
                ExporterFixture.configuration(port: receiver.port), shutdownTimeout: .milliseconds(100))
            try await tested.run { () async throws in
                tested.export(4)
                _ = try await receiver.receives(requests: 1)
                tested.export(3)
            }
            #expect(tested.dropped.value == 7)
            #expect(tested.exporter.waitingCount == 0)
            #expect(tested.log.lines("message", "spans were dropped at shutdown").map { $0["count"] } == ["7"])
        }
    }

    @Test("Telemetry with a collector sends its spans there, and without one makes no trace of its own")
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
            #expect(batches.names == ["a"])
            #expect(batches.first?.resource["service.name"] == "string front door")
            #expect(batches.first?.resource["service.version"] == "string 7.8.9")
        }
        var settings = TelemetrySettings()
        settings.tracing.sampler = SamplerConfiguration(root: .alwaysOn)
        let telemetry = GatewayTelemetry(settings: settings)
        defer { telemetry.shutdown() }
        #expect(!telemetry.tracer.childContext(of: nil).isSampled)
        let parent = TraceContext(traceID: ID128(high: 1, low: 1), spanID: 1, flags: 1)
        #expect(telemetry.tracer.childContext(of: parent).isSampled)
    }
}
