import CloakroomTelemetry
import TestSupport
import Testing

@Suite("A log pipe without a reader")
struct FullLogTests {
    @Test(
        "Requests are served while the log pipe is full, and dropped lines are counted",
        .timeLimit(.minutes(2)))
    func fullPipe() async throws {
        var setup = GatewaySetup.serving
        setup.settings.pendingLogLimit = 32 << 10
        let (_, text) = try await setup.logged { gateway in
            let client = try await gateway.client()
            // Far more lines than pipe and limit can hold.
            for _ in 0..<1_000 { #expect(try await client.exchange(Ask.get()).text == "ok") }
            try await eventually("dropped lines") { gateway.telemetry.metrics.droppedLogs.value > 0 }
            // Requests are also served while it is still full.
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
        // Lines written before are complete, except possibly the last one.
        let lines = text.split(separator: "\n").dropLast()
        #expect(lines.count > 50 && lines.count < 1_000)
        #expect(lines.allSatisfy { LogLine($0)?["status"] == "200" })
    }
}
