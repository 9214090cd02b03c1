import Glibc
import MockAPI
import TestSupport
import Testing

/// The route option `accessLogRatio` in a running gateway.
@Suite("Thinned access log", .serialized, .timeLimit(.minutes(1)))
struct AccessLogRatioTests {
    @Test("With a ratio of 0 only failed requests are logged; other routes log all requests")
    func zero() async throws {
        try await GatewayProcess.running(set: ["routes.0.accessLogRatio=0"]) { gateway, mock in
            let client = gateway.client
            try await expect(client.get("/episodes").status, equals: 200)
            try await expect(client.get("/videos/1").status, equals: 401)
            mock.faults.failNext("GET", "/episodes", statuses: [503])
            try await expect(client.get("/episodes").status, equals: 503)
            try await expect(client.get("/episodes").status, equals: 200)
            // All lines are written before the process exits.
            gateway.program.send(SIGTERM)
            let ending = try await gateway.program.ending()
            expect(ending, equals: ChildProgram.Ending(status: 0))
            let lines = gateway.program.logLines.filter { $0.logger == "access" }
            let told = lines.map { "\($0.route ?? "") \($0.status ?? 0)" }
            expect(told, equals: ["video 401", "episodes 503"])
        }
    }
}
