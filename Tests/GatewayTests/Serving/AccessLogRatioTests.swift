import Glibc
import MockAPI
import Testing

/// `accessLogRatio` of a route, in a gateway that serves.
@Suite("Thinned access log", .serialized, .timeLimit(.minutes(1)))
struct AccessLogRatioTests {
    @Test("A route with a ratio of 0 has no lines but those of failures; other routes have all of theirs")
    func zero() async throws {
        try await GatewayProcess.running(set: ["routes.0.accessLogRatio=0"]) { gateway, mock in
            let client = gateway.client
            #expect(try await client.get("/episodes").status == 200)
            #expect(try await client.get("/videos/1").status == 401)
            mock.faults.failNext("GET", "/episodes", statuses: [503])
            #expect(try await client.get("/episodes").status == 503)
            #expect(try await client.get("/episodes").status == 200)
            // Every line is written before the end.
            gateway.program.send(SIGTERM)
            let ending = try await gateway.program.ending()
            #expect(ending == ChildProgram.Ending(status: 0))
            let lines = gateway.program.logLines.filter { $0.logger == "access" }
            let told = lines.map { "\($0.route ?? "") \($0.status ?? 0)" }
            #expect(told == ["video 401", "episodes 503"])
        }
    }
}
