import Testing

@testable import MockAPI

struct MockAPISettingsTests {
    @Test("the defaults are those that the demo prints")
    func defaults() {
        let settings = MockAPISettings()
        #expect(settings.host == "127.0.0.1")
        #expect(settings.port == 9000)
        #expect(settings.apiToken == "demo-api-token")
        #expect(settings.users.map(\.email) == ["jo@example.com"])
        #expect(settings.users.map(\.name) == ["Jo"])
        #expect(settings.accessTokenLifetime == .seconds(300))
        #expect(settings.refreshTokenLifetime == .seconds(8 * 3600))
        #expect(settings.latency == .zero)
        #expect(settings.errorRate == 0)
        #expect(!settings.exposeObservations)
        #expect(settings.signingKey != MockAPISettings().signingKey)
    }

    @Test("no secret shows when settings, users, tokens or headers are printed or dumped")
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
            #expect(!dumped.contains("canary"))
            #expect(!String(reflecting: value).contains("canary"))
            #expect(!"\(value)".contains("canary"))
        }
    }

    @Test("a port that does not exist is refused and not bound", arguments: [-1, 65_536])
    func portRange(port: Int) async {
        let api = MockAPI(settings: MockAPISettings(port: port), logger: .silent)
        await #expect(throws: MockAPIError.portOutOfRange(port)) { try await api.run() }
    }

    @Test("an address that cannot be bound is an error of withServer, not a wait")
    func unboundAddress() async {
        await #expect(throws: (any Error).self) {
            try await MockAPI.withServer(MockAPISettings(host: "192.0.2.1")) { _ in }
        }
    }
}
