import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("session.cookie.sameSite: None, and partitioned")
struct EmbeddedCookieTests {
    private static let good = """
        \(ConfigFixture.proxied)
            signIn: { path: /auth }
        csrf: { requireHeader: X-CSRF=1 }
        cors: { origins: ["https://partner.example"] }
        session:
          cookie: { sameSite: None, partitioned: true }
        routes:
          - { name: a, methods: [GET], path: /a, requiresAuthorization: true }

        """

    @Test("A frame of a listed site may have a session of its own")
    func values() throws {
        let cookie = try ConfigFixture(Self.good).load().configuration.session.cookie
        expect(cookie, equals: CookieConfiguration(sameSite: .always, isPartitioned: true))
        let trusted = Self.good.replacing("cors: { origins", with: "#").replacing(
            "X-CSRF=1 }", with: "X-CSRF=1, trustedOrigins: [\"https://partner.example\"] }")
        try expect(ConfigFixture(trusted).load().configuration.session.cookie, equals: cookie)
        let bound = Self.good.replacing(", partitioned: true }", with: " }\n  device: { mode: auto }")
        try expect(ConfigFixture(bound).load().configuration.session.device.mode, equals: .auto)
        // A change needs a restart, because the cookies in use keep their attributes.
        let running = try ConfigFixture(Self.good.replacing(", partitioned: true", with: "")).load().configuration
        let keys = try ConfigFixture(Self.good).load().restartRequirements(since: running).map(\.key)
        expect(keys, equals: ["session.cookie.partitioned"])
    }

    @Test(
        "Rule 141: without what protects such a session, it is an error",
        arguments: [
            ("csrf: { requireHeader: X-CSRF=1 }", "", "sameSite: None requires csrf.requireHeader"),
            ("cors: { origins: [\"https://partner.example\"] }", "", "sameSite: None requires the origins"),
            ("sameSite: None", "sameSite: Lax", "partitioned: requires sameSite: None"),
            ("sameSite: None, ", "", "partitioned: requires sameSite: None"),
            (
                "partitioned: true }", "partitioned: true }\n  device: { mode: auto }",
                "partitioned: conflicts with session.device"
            ),
            (
                "sameSite: None", "name: __Secure-a, domain: example.com, sameSite: None",
                "domain: conflicts with session.cookie.sameSite: None"
            ),
        ])
    func mistakes(piece: String, other: String, message: String) throws {
        try ConfigFixture.expectError("session.cookie.\(message)", in: Self.good, replacing: piece, by: other)
    }

    @Test("Rule 141: browsers reject such a cookie without Secure")
    func insecure() throws {
        let development = Self.good.replacing("    behindTLSProxy: true\n", with: "")
        try ConfigFixture.expectError(
            "session.cookie.sameSite: None requires secure", in: development, replacing: "sameSite: None",
            by: "secure: false, sameSite: None")
    }
}
