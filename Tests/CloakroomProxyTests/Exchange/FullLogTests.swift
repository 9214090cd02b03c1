import CloakroomTelemetry
import TestSupport
import Testing

@Suite("A log pipe without a reader")
struct FullLogTests {
    @Test(
        "Requests are served while the log pipe is full, and dropped lines are counted",
        .timeLimit(.minutes(2)))
    func fullPipe() async throws {
        let pipe = try LinePipe()
        var setup = GatewaySetup([.request, .send(Reply.ok), .again])
        setup.settings.isAccessLogEnabled = true
        setup.settings.logFileDescriptor = pipe.writeEnd
        setup.settings.pendingLogLimit = 32 << 10
        do {
            try await setup.run { gateway in
                let client = try await gateway.client()
                // Far more lines than pipe and limit can hold.
                for _ in 0..<1_000 { #expect(try await client.exchange(Ask.get()).text == "ok") }
                try await eventually("dropped lines") { gateway.telemetry.metrics.droppedLogs.value > 0 }
                // Requests are also served while it is still full.
                #expect(try await client.exchange(Ask.get()).text == "ok")
            }
        } catch {
            _ = await pipe.text()
            throw error
        }
        // Lines written before are complete, except possibly the last one.
        let lines = await pipe.text().split(separator: "\n").dropLast()
        #expect(lines.count > 50 && lines.count < 1_000)
        #expect(lines.allSatisfy { LogLine($0)?["status"] == "200" })
    }
}
