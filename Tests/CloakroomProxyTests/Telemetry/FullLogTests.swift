import CloakroomTelemetry
import TestSupport
import Testing

@Suite("A log that nobody reads")
struct FullLogTests {
    @Test(
        "Requests go on while the log's pipe is full, and the lines that do not fit are counted",
        .timeLimit(.minutes(2)))
    func fullPipe() async throws {
        let pipe = try LogPipe()
        var setup = GatewaySetup([.request, .send(Reply.ok), .again])
        setup.settings.isAccessLogEnabled = true
        setup.settings.logFileDescriptor = pipe.writeEnd
        setup.settings.pendingLogLimit = 32 << 10
        do {
            try await setup.run { gateway in
                let client = try await gateway.client()
                // Far more lines than pipe and limit hold.
                for _ in 0..<1_000 { #expect(try await client.exchange(Ask.get()).text == "ok") }
                try await eventually("lines that were dropped") { gateway.telemetry.metrics.droppedLogs.value > 0 }
                // As long as it is full, too.
                #expect(try await client.exchange(Ask.get()).text == "ok")
            }
        } catch {
            _ = pipe.text()
            throw error
        }
        // What was written before is whole, but for the last line perhaps, which the end cut off.
        let lines = pipe.text().split(separator: "\n").dropLast()
        #expect(lines.count > 50 && lines.count < 1_000)
        #expect(lines.allSatisfy { LogLine($0)?["status"] == "200" })
    }
}
