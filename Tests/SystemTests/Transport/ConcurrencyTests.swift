import AsyncHTTPClient
import NIOCore
import TestSupport
import Testing

/// Many clients at the same time.
@Suite("Many clients", .timeLimit(.minutes(3)))
struct ConcurrencyTests {
    @Test("Two hundred clients with persistent connections are served without an error")
    func twoHundredClients() async throws {
        try await RunningDemo.running { demo in
            var configuration = HTTPClient.Configuration()
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 200
            configuration.timeout.connect = .seconds(60)
            let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            let statuses = try await stopping {
                try? await http.shutdown()
            } after: {
                try await hammer(demo, http)
            }
            #expect(statuses.keys.sorted() == [200, 401])
            let total = statuses.values.reduce(0, +)
            #expect(total >= 400)
            #expect(statuses[200] == statuses[401])

            // The gateway's counts equal those of the test.
            let counted = try await eventually("all requests are counted") {
                let metrics = try await WebClient(demo.admin).get("/metrics").body
                let counts = metrics.split(separator: "\n")
                    .filter { $0.hasPrefix("http_server_request_duration_seconds_count{") }
                    .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
                let counted = Int(counts.reduce(0, +))
                return counted >= total ? counted : nil
            }
            #expect(counted == total)
        }
    }

    /// Requests a public and a protected path alternately, for two seconds and at least once each.
    /// - Returns: The number of responses by status.
    private func hammer(_ demo: RunningDemo, _ http: HTTPClient) async throws -> [Int: Int] {
        try await withThrowingTaskGroup(of: [Int].self) { group in
            let end = ContinuousClock.now + .seconds(2)
            let clear = demo.clear
            for _ in 0..<200 {
                group.addTask {
                    let client = WebClient(clear, http: http)
                    var statuses: [Int] = []
                    repeat {
                        for path in ["/episodes", "/videos/1"] { statuses.append(try await client.get(path).status) }
                    } while ContinuousClock.now < end
                    return statuses
                }
            }
            return try await group.reduce(into: [:]) { counts, statuses in
                for status in statuses { counts[status, default: 0] += 1 }
            }
        }
    }
}
