import NIOHTTP1
import Testing

@testable import MockAPI

struct MockFaultsTests {
    @Test("a request without the API token gets 403 and does not consume a failure")
    func keyFirst() async throws {
        try await MockAPI.withServer { mock async throws in
            mock.faults.failNext("GET", "/episodes")
            #expect(try await mock.send(.GET, "/episodes", apiToken: nil).status == 403)
            #expect(try await mock.send(.GET, "/episodes").status == 500)
        }
    }

    @Test("a refresh that fails with 500 does not spend the token")
    func failureChangesNothing() async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            mock.faults.failNext("POST", "/auth/refresh", statuses: [500, 503])
            #expect(try await mock.refresh(pair.refreshToken).status == 500)
            #expect(try await mock.send(.GET, "/episodes").status == 200)
            #expect(try await mock.refresh(pair.refreshToken).status == 503)
            #expect(try await mock.refresh(pair.refreshToken).status == 200)
        }
    }

    @Test("a response is delayed by the latency")
    func latency() async throws {
        try await MockAPI.withServer { mock async throws in
            mock.faults.setLatency(.milliseconds(60))
            let started = ContinuousClock.now
            #expect(try await mock.send(.GET, "/episodes").status == 200)
            #expect(ContinuousClock.now - started >= .milliseconds(60))
        }
    }
}
