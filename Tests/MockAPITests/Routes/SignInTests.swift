import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct SignInTests {
    @Test("a sign-in returns a pair in a response that caches must not store")
    func pair() async throws {
        try await MockAPI.withServer { mock in
            let response = try await mock.send(.POST, "/auth", authorization: .basic("jo@example.com", "secret"))
            expect(response.status, equals: 200)
            expect(response.headers["content-type"], equals: ["application/json; charset=utf-8"])
            expect(response.headers["cache-control"], equals: ["no-store"])
            expect(Set(try response.decode([String: String].self).keys), equals: ["accessToken", "refreshToken"])
            let pair = try response.decode(TokenResponse.self)
            expect(pair.accessToken.split(separator: ".").count, equals: 3)
            expect(!pair.refreshToken.contains("."))
            let again = try await mock.signIn()
            expect(again.accessToken != pair.accessToken)
            expect(again.refreshToken != pair.refreshToken)
        }
    }

    @Test(
        "wrong or missing credentials are 401 with a challenge, in both dialects",
        arguments: ["/auth", "/api/v1/signin"])
    func wrong(path: String) async throws {
        try await MockAPI.withServer { mock in
            let credentials: [String?] = [
                nil, .basic("jo@example.com", "wrong"), .basic("jo@example.com", ""),
                .basic("no@example.com", "secret"), .basic("jo@example.com", "secret "),
                "Bearer abc", "Basic %%%", "Basic",
            ]
            for authorization in credentials {
                let response = try await mock.send(.POST, path, authorization: authorization)
                expect(response.status, equals: 401)
                expect(response.headers["www-authenticate"].first?.hasPrefix("Basic "), equals: true)
            }
        }
    }

    @Test("email and password may be any UTF-8, the password with colons; the email is case-insensitive")
    func utf8() async throws {
        let user = MockUser(email: "Zoë@example.com", password: "pä:ss:wörd🔑", name: "Zoë")
        try await MockAPI.withServer(MockAPISettings(users: [user])) { mock in
            let response = try await mock.send(.POST, "/auth", authorization: .basic("ZOË@Example.com", "pä:ss:wörd🔑"))
            expect(response.status, equals: 200)
        }
    }

    @Test("the older dialect returns only an access token, which does not expire")
    func olderDialect() async throws {
        let clock = TestClock()
        try await MockAPI.withServer(MockAPISettings(now: clock.now)) { mock in
            let response = try await mock.send(
                .POST, "/api/v1/signin", authorization: .basic("jo@example.com", "secret"))
            expect(response.status, equals: 200)
            let fields = try response.decode([String: String].self)
            expect(Array(fields.keys), equals: ["accessToken"])
            clock.advance(by: 1_000_000)
            let bearer = "Bearer \(fields["accessToken"] ?? "")"
            try await expect(mock.send(.GET, "/videos/1", authorization: bearer).status, equals: 200)
            try await expect(mock.send(.POST, "/auth/refresh", authorization: bearer).status, equals: 401)
        }
    }
}
