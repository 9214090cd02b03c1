import Glibc
import MockAPI
import TestSupport
import Testing

/// The spans of a request, tested through the running program.
@Suite("Traces", .serialized, .timeLimit(.minutes(3)))
struct TraceTests {
    @Test("Spans are sent to a collector, and the last ones at shutdown")
    func collector() async throws {
        try await OTLPReceiver.run { collector in
            let settings = [
                "tracing.exporter=otlp", "tracing.ratio=1", "tracing.otlp.interval=1h",
                "tracing.otlp.endpoint=http://127.0.0.1:\(collector.port)/v1/traces",
            ]
            let ending = try await GatewayProcess.running(set: settings) { gateway, _ in
                let client = gateway.client
                try await expect(client.signIn().status, equals: 200)
                try await expect(client.get("/videos/1").status, equals: 200)
                gateway.program.send(SIGTERM)
                return try await gateway.program.ending()
            }
            expect(ending, equals: ChildProgram.Ending(status: 0))
            // With an hour between batches, all spans are in the batch that the shutdown sends.
            let batches = try await collector.receives(requests: 1)
            expect(batches.count, equals: 1)
            let names = batches.names
            expect(names.filter { $0 == "sign_in" }.count, equals: 1)
            expect(names.filter { $0 == "GET /videos/{id}" }.count, equals: 1)
            // The request for the session, and the call at the API.
            expect(names.filter { $0 == "POST /auth" }.count, equals: 1)
            expect(names.filter { $0 == "POST" }.count, equals: 1)
            expect(names.filter { $0 == "GET" }.count, equals: 2)
        }
    }
}
