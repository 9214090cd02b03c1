import NIOHTTP1
import Testing

@testable import MockAPI

struct SignInTests {
    @Test("a sign-in returns a pair in a response that caches must not store")
    func pair() async throws {
        try await MockAPI.withServer { mock in
            let response = try await mock.send(.POST, "/auth", authorization: .basic("jo@example.com", "secret"))
            #expect(response.status == 200)
            #expect(response.headers["content-type"] == ["application/json; charset=utf-8"])
            #expect(response.headers["cache-control"] == ["no-store"])
            #expect(Set(try response.decode([String: String].self).keys) == ["accessToken", "refreshToken"])
            let pair = try response.decode(TokenResponse.self)
            #expect(pair.accessToken.split(separator: ".").count == 3)
            #expect(!pair.refreshToken.contains("."))
            let again = try await mock.signIn()
            #expect(again.accessToken != pair.accessToken)
            #expect(again.refreshToken != pair.refreshToken)
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
                #expect(response.status == 401)
                #expect(response.headers["www-authenticate"].first?.hasPrefix("Basic ") == true)
            }
        }
    }

    @Test("email and password may be any UTF-8, the password with colons; the email is case-insensitive")
    func utf8() async throws {
        let user = MockUser(email: "Zoë@example.com", password: "pä:ss:wörd🔑", name: "Zoë")
        try await MockAPI.withServer(MockAPISettings(users: [user])) { mock in
            let response = try await mock.send(.POST, "/auth", authorization: .basic("ZOË@Example.com", "pä:ss:wörd🔑"))
            #expect(response.status == 200)
        }
    }

    @Test("the older dialect returns only an access token, which does not expire")
    func olderDialect() async throws {
        let clock = TestClock()
        try await MockAPI.withServer(MockAPISettings(now: clock.now)) { mock in
            let response = try await mock.send(
                .POST, "/api/v1/signin", authorization: .basic("jo@example.com", "secret"))
            #expect(response.status == 200)
            let fields = try response.decode([String: String].self)
            #expect(Array(fields.keys) == ["accessToken"])
            clock.advance(by: 1_000_000)
            let bearer = "Bearer \(fields["accessToken"] ?? "")"
            #expect(try await mock.send(.GET, "/videos/1", authorization: bearer).status == 200)
            #expect(try await mock.send(.POST, "/auth/refresh", authorization: bearer).status == 401)
        }
    }
}
