import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("session.device, and require.device of a route")
struct DeviceSectionTests {
    /// Line 14 is `device`, line 15 `cookie`, and line 27 `require`.
    private static let good = """
        \(ConfigFixture.proxied)
            signIn: { path: /auth }
        accounts:
          publicURL: https://app.example.com
          upstream: api
        session:
          idleTimeout: 15m
          absoluteTimeout: 8h
          device: { mode: auto }
          cookie: { sameSite: Lax }
        routes:
          - name: a
            methods: [GET]
            path: /a
            upstream: api
            requiresAuthorization: true
          - name: b
            methods: [GET]
            path: /b
            upstream: api
            requiresAuthorization: true
            require: { device: true }

        """

    @Test("The defaults, and every key")
    func values() throws {
        expect(SessionConfiguration().device.mode, equals: .off)
        let loaded = try ConfigFixture(Self.good).load()
        var expected = DeviceConfiguration()
        expected.mode = .auto
        expect(loaded.configuration.session.device, equals: expected)
        expect(loaded.configuration.routes.map(\.require.device), equals: [false, true])
        let all = "{ mode: required, lifetime: 5m, offer: 30s, settle: 0s, streams: 1d }"
        let other = try ConfigFixture(Self.good.replacing("{ mode: auto }", with: all)).load()
        expect(
            other.configuration.session.device,
            equals: DeviceConfiguration(
                mode: .required, lifetime: .seconds(300), offer: .seconds(30), settle: .zero,
                streams: .seconds(86_400)))
    }

    @Test(
        "A value outside of its range is reported",
        arguments: [
            "lifetime: 9s", "lifetime: 61m", "offer: 29s", "offer: 11m", "settle: 61s", "streams: 4m", "streams: 25h",
            "mode: on", "mode: always",
        ])
    func ranges(value: String) throws {
        try ConfigFixture.expectError("must be", at: "14:", in: Self.good, replacing: "mode: auto", by: value)
    }

    @Test("What conflicts with it is reported, with a remedy")
    func conflicts() throws {
        try ConfigFixture.expectError(
            "is never met: no session is bound to a device (write session.device.mode: auto)", at: "27:", in: Self.good,
            replacing: "mode: auto", by: "mode: off")
        try ConfigFixture.expectError(
            "conflicts with session.device", at: "15:", in: Self.good, replacing: "sameSite: Lax",
            by: "name: __Secure-a, domain: example.com")
        let development = Self.good.replacing("https://app", with: "http://app").replacing(
            "    behindTLSProxy: true\n", with: "")
        try ConfigFixture.expectError(
            "requires session.cookie.secure", at: "13:", in: development, replacing: "sameSite: Lax",
            by: "secure: false")
        let open = Self.good.replacing(
            "requiresAuthorization: true\n    require", with: "requiresAuthorization: false\n    require")
        try ConfigFixture.expectError(
            "requires a route that requires a session", at: "27:", in: open, replacing: "mode: auto", by: "mode: auto")
        try ConfigFixture.expectError(
            "unknown key", at: "27:", in: Self.good, replacing: "{ device: true }", by: "{ anyOf: [{ device: true }] }")
    }

    @Test("A short lifetime, and `required` without apps, are warned of")
    func warnings() throws {
        for (value, text) in [("mode: auto, lifetime: 4m", "sign 6 times"), ("mode: required", "such as Firefox")] {
            let loaded = try ConfigFixture(Self.good.replacing("mode: auto", with: value)).load()
            expect(loaded.warnings.contains { "\($0)".contains(text) }, "\(value)")
        }
        try expect(ConfigFixture(Self.good).load().warnings.allSatisfy { !"\($0)".contains("device") })
    }

    @Test("explain and a comparison show it")
    func reports() throws {
        let fixture = try ConfigFixture(Self.good)
        let text = fixture.report { CommandReport.explain($0, method: "GET", target: "/b") }.text
        expect(text.contains("a bound session; otherwise 403 device_required"))
        let other = fixture.report { CommandReport.explain($0, method: "GET", target: "/a") }.text
        expect(!other.contains("device_required"))
        let endpoint = fixture.report { CommandReport.explain($0, method: "POST", target: "/auth/device") }.text
        expect(endpoint.contains("bind the session to the key of its device"))
        let changed = try ConfigFixture(Self.good.replacing("require: { device: true }", with: "websocket: true"))
        expect(changed.changes(since: fixture).text.contains("a session bound to a device"))
    }
}
