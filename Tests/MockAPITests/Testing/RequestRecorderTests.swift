import FoundationEssentials
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct RequestRecorderTests {
    private func request(_ path: String) -> RecordedRequest {
        RecordedRequest(method: "GET", path: path, query: nil, headers: [])
    }

    @Test("only the last 1,000 requests are recorded, oldest first, and all are counted")
    func bound() {
        let observations = RequestRecorder()
        for number in 0..<2_500 { observations.record(request("/\(number)")) }
        let seen = observations.snapshot()
        expect(seen.total, equals: 2_500)
        expect(seen.recent.map(\.path), equals: (1_500..<2_500).map { "/\($0)" })
        expect(seen.counts.count, equals: 1_000)
        observations.record(request("/0"))
        expect(observations.snapshot().count("GET", "/0"), equals: 2)
    }

    @Test("headers are recorded with their spelling, their order and every repetition")
    func exactHeaders() async throws {
        try await MockAPI.withServer { mock in
            let sent = [
                ("x-dup", "1"), ("X_Api_Token", "folded"), ("X-Dup", "2"), ("aUtHoRiZaTiOn", "Bearer a b"),
                ("Cookie", "a=1; b=2"), ("X-Empty", ""), ("X-DUP", "1"), ("Accept-Encoding", "identity"),
            ]
            _ = try await mock.send(.GET, "/episodes?a=%20b&c=?d", headers: sent)
            let seen = try require(mock.observations.snapshot().recent.first)
            expect(seen.method, equals: "GET")
            expect(seen.path, equals: "/episodes")
            expect(seen.query, equals: "a=%20b&c=?d")
            let expected = (sent + [("X-API-TOKEN", "demo-api-token")]).map(RecordedHeader.init)
            expect(seen.headers.filter { $0.name != "Host" }, equals: expected)
            expect(seen.values(of: "host"), equals: ["127.0.0.1:\(mock.port)"])
            expect(seen.values(of: "X-Dup"), equals: ["1", "2", "1"])
        }
    }

    @Test("every request is recorded, also rejected, unknown and deliberately failed ones")
    func everything() async throws {
        try await MockAPI.withServer { mock in
            mock.faults.failNext("GET", "/user")
            _ = try await mock.send(.GET, "/episodes", apiToken: nil)
            _ = try await mock.send(.DELETE, "/nowhere?x")
            _ = try await mock.send(.GET, "/user")
            let seen = mock.observations.snapshot()
            expect(seen.counts, equals: ["GET /episodes": 1, "DELETE /nowhere": 1, "GET /user": 1])
            expect(seen.total, equals: 3)
        }
    }

    @Test("the HTTP endpoint returns the same records, and its requests are not recorded, delayed or failed")
    func overHTTP() async throws {
        try await MockAPI.withServer(MockAPISettings(exposeObservations: true)) { mock in
            mock.faults.failNext("GET", "/__mock/requests")
            _ = try await mock.send(.GET, "/episodes")
            let response = try await mock.send(.GET, "/__mock/requests")
            expect(response.status, equals: 200)
            try expect(response.decode(RecordedTraffic.self), equals: mock.observations.snapshot())
            expect(mock.observations.snapshot().counts, equals: ["GET /episodes": 1])
            try await expect(mock.send(.GET, "/__mock/requests", apiToken: nil).status, equals: 403)
        }
    }

    @Test(
        "without the setting, the observation and test paths are 404",
        arguments: ["/__mock/requests", "/__mock/slow?seconds=0", "/__mock/bytes?count=1"])
    func optIn(path: String) async throws {
        try await MockAPI.withServer { mock async throws in
            try await expect(mock.send(.GET, path).status, equals: 404)
            expect(mock.observations.snapshot().total, equals: 1)
        }
    }
}
