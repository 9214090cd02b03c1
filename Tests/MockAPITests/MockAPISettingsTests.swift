import TestSupport
import Testing

@testable import MockAPI

struct MockAPISettingsTests {
    @Test("the defaults match the output of the demo")
    func defaults() {
        let settings = MockAPISettings()
        expect(settings.host, equals: "127.0.0.1")
        expect(settings.port, equals: 9000)
        expect(settings.apiToken, equals: "demo-api-token")
        expect(settings.users.map(\.email), equals: ["jo@example.com"])
        expect(settings.users.map(\.name), equals: ["Jo"])
        expect(settings.accessTokenLifetime, equals: .seconds(300))
        expect(settings.refreshTokenLifetime, equals: .seconds(8 * 3600))
        expect(!settings.exposeObservations)
    }

    @Test("printed or dumped settings, users, tokens and headers contain no secrets")
    func redaction() {
        let settings = MockAPISettings(
            apiToken: "canary-key", users: [MockUser(email: "a@example.com", password: "canary-password", name: "A")])
        let values: [Any] = [
            settings, settings.users, TokenPair(accessToken: "canary-access", refreshToken: "canary-refresh"),
            AccessTokenOnly(accessToken: "canary-access"),
            RecordedRequest(
                method: "GET", path: "/", query: nil,
                headers: [
                    RecordedHeader(name: "X_Api-Token", value: "canary-key"),
                    RecordedHeader(name: "AUTHORIZATION", value: "Bearer canary"),
                    RecordedHeader(name: "Cookie", value: "canary=1"),
                ]),
        ]
        for value in values {
            var dumped = ""
            dump(value, to: &dumped)
            expect(!dumped.contains("canary"))
            expect(!String(reflecting: value).contains("canary"))
            expect(!"\(value)".contains("canary"))
        }
    }

    @Test("an invalid port is rejected and not bound", arguments: [-1, 65_536])
    func portRange(port: Int) async {
        let api = MockAPI(settings: MockAPISettings(port: port))
        await #expect(throws: MockAPIError.portOutOfRange(port)) { try await api.run() }
    }

    @Test("if an address cannot be bound, withServer throws and does not wait")
    func unboundAddress() async {
        await #expect(throws: (any Error).self) {
            try await MockAPI.withServer(MockAPISettings(host: "192.0.2.1")) { _ in }
        }
    }
}
