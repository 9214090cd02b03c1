import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct APITokenTests {
    static let everyPath: [(HTTPMethod, String)] = [
        (.POST, "/auth"), (.GET, "/episodes"), (.GET, "/videos/1"), (.GET, "/videos/none"), (.GET, "/user"),
        (.POST, "/auth/refresh"), (.POST, "/auth/revoke"), (.POST, "/api/v1/signin"), (.GET, "/"), (.GET, "/nowhere"),
        (.PUT, "/episodes"), (.OPTIONS, "/auth"), (.GET, "/__mock/requests"), (.DELETE, "/__mock/requests"),
        (.GET, "/__mock/slow?seconds=0"), (.POST, "/__mock/echo"), (.GET, "/__mock/bytes?count=1"),
        (.GET, "/app.js"), (.GET, "/app.css"), (.GET, "/images/values-first.svg"), (.GET, "/media/1"),
    ]

    @Test(
        "every path is 403 without the right API token",
        arguments: [nil, "", "wrong", "demo-api-toke", "demo-api-token2", "DEMO-API-TOKEN"])
    func forbidden(apiToken: String?) async throws {
        try await MockAPI.withServer(MockAPISettings(exposeObservations: true)) { mock in
            for (method, path) in Self.everyPath {
                let response = try await mock.send(
                    method, path, apiToken: apiToken, authorization: .basic("jo@example.com", "secret"))
                expect(response.status, equals: 403, "\(method.rawValue) \(path)")
            }
        }
    }

    @Test("two API token headers are 403")
    func doubled() async throws {
        try await MockAPI.withServer { mock in
            let response = try await mock.send(.GET, "/episodes", headers: [("x-api-token", "demo-api-token")])
            expect(response.status, equals: 403)
        }
    }

    @Test("an unknown path or method is 404 with the right API token")
    func unknown() async throws {
        try await MockAPI.withServer { mock async throws in
            try await expect(mock.send(.GET, "/nowhere").status, equals: 404)
            try await expect(mock.send(.GET, "/index.html").status, equals: 404)
            try await expect(mock.send(.DELETE, "/episodes").status, equals: 404)
            try await expect(mock.send(.GET, "/auth").status, equals: 404)
        }
    }
}
