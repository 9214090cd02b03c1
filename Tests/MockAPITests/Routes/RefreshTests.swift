import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct RefreshTests {
    @Test("a refresh returns a new valid pair")
    func refreshed() async throws {
        try await MockAPI.withServer { mock in
            let first = try await mock.signIn()
            let response = try await mock.refresh(first.refreshToken)
            expect(response.status, equals: 200)
            expect(response.headers["cache-control"], equals: ["no-store"])
            let second = try response.decode(TokenResponse.self)
            expect(second.accessToken != first.accessToken)
            expect(second.refreshToken != first.refreshToken)
            try await expect(
                mock.send(.GET, "/user", authorization: "Bearer \(second.accessToken)").status, equals: 200)
            try await expect(mock.refresh(second.refreshToken).status, equals: 200)
            expect(mock.observations.snapshot().refreshes, equals: 2)
            expect(mock.observations.snapshot().reuseDetections, equals: 0)
        }
    }

    @Test("a spent refresh token is 401 and its family's refresh tokens are revoked, while access tokens stay valid")
    func reuse() async throws {
        try await MockAPI.withServer { mock in
            let bystander = try await mock.signIn()
            let first = try await mock.signIn()
            let second = try await mock.refresh(first.refreshToken).decode(TokenResponse.self)
            try await expect(mock.refresh(first.refreshToken).status, equals: 401)
            try await expect(mock.refresh(second.refreshToken).status, equals: 401)
            try await expect(
                mock.send(.GET, "/user", authorization: "Bearer \(second.accessToken)").status, equals: 200)
            try await expect(mock.refresh(bystander.refreshToken).status, equals: 200)
            expect(mock.observations.snapshot().refreshes, equals: 2)
            expect(mock.observations.snapshot().reuseDetections, equals: 1)
        }
    }

    @Test("of many concurrent refreshes with one token exactly one succeeds")
    func race() async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 { group.addTask { try await mock.refresh(pair.refreshToken).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            expect(statuses.sorted(), equals: [200] + Array(repeating: 401, count: 7))
            expect(mock.observations.snapshot().refreshes, equals: 1)
            expect(mock.observations.snapshot().reuseDetections, equals: 7)
        }
    }

    @Test("an unknown refresh token is 401 with a challenge", arguments: ["/auth/refresh", "/auth/revoke"])
    func wrongKind(path: String) async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            let wrong: [String?] = [
                nil, "Bearer", "Bearer unknown", "Bearer \(pair.accessToken)", "Basic \(pair.refreshToken)",
                .basic("jo@example.com", "secret"),
            ]
            for authorization in wrong {
                let response = try await mock.send(.POST, path, authorization: authorization)
                expect(response.status, equals: 401)
                expect(response.headers["www-authenticate"].first?.hasPrefix("Bearer "), equals: true)
            }
            try await expect(mock.refresh(pair.refreshToken).status, equals: 200)
        }
    }

    @Test("a revocation is 204, also if repeated, and revokes the family")
    func revoke() async throws {
        try await MockAPI.withServer { mock in
            let bystander = try await mock.signIn()
            let pair = try await mock.signIn()
            let second = try await mock.refresh(pair.refreshToken).decode(TokenResponse.self)
            for _ in 0..<2 {
                let response = try await mock.send(
                    .POST, "/auth/revoke", authorization: "Bearer \(second.refreshToken)")
                expect(response.status, equals: 204)
                expect(response.body.readableBytes, equals: 0)
            }
            try await expect(mock.refresh(second.refreshToken).status, equals: 401)
            try await expect(mock.refresh(bystander.refreshToken).status, equals: 200)
        }
    }
}
