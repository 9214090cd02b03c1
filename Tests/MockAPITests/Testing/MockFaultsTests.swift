import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct MockFaultsTests {
    @Test("a request without the API token gets 403 and does not consume a failure")
    func keyFirst() async throws {
        try await MockAPI.withServer { mock async throws in
            mock.faults.failNext("GET", "/episodes")
            try await expect(mock.send(.GET, "/episodes", apiToken: nil).status, equals: 403)
            try await expect(mock.send(.GET, "/episodes").status, equals: 500)
        }
    }

    @Test("a refresh that fails with 500 does not spend the token")
    func failureChangesNothing() async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            mock.faults.failNext("POST", "/auth/refresh", statuses: [500, 503])
            try await expect(mock.refresh(pair.refreshToken).status, equals: 500)
            try await expect(mock.send(.GET, "/episodes").status, equals: 200)
            try await expect(mock.refresh(pair.refreshToken).status, equals: 503)
            try await expect(mock.refresh(pair.refreshToken).status, equals: 200)
        }
    }

    @Test("a response is delayed by the latency")
    func latency() async throws {
        try await MockAPI.withServer { mock async throws in
            mock.faults.setLatency(.milliseconds(60))
            let started = ContinuousClock.now
            try await expect(mock.send(.GET, "/episodes").status, equals: 200)
            #expect(ContinuousClock.now - started >= .milliseconds(60))
        }
    }
}
