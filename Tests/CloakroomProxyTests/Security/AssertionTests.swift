import CloakroomCore
import TestSupport
import Testing

/// Signs nothing, but shows the audience.
private struct FakeSigner: AssertionSigning {
    func name(of session: SessionKey, for audience: String) -> String { audience }
    func sign(_ claims: String) -> String? { claims.contains(#""aud":"orders""#) ? "signed" : nil }
}

@Suite("Assertions for upstreams", .serialized)
struct AssertionTests {
    private static let spoofed = ["X-Identity: admin", "x_identity: admin", "X.IDENTITY: admin"]
    private static let user = Company.session()
    private static let cookie = FakeSessions.cookie(user.0)
    private static let absent = Scenario.Expectation(has: ["X-Identity", "x_identity", "X.IDENTITY"], lacks: ["admin"])
    private static let present = Scenario.Expectation(
        has: ["X-Identity: signed", "x_identity", "X.IDENTITY"], lacks: ["admin"])

    private static func setup(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let setup = GatewaySetup.serving.configuration { configuration in
            configuration.addCompany()
            configuration.upstreams[0].assertion = AssertionConfiguration(header: "X-Identity", audience: "orders")
            adjust(&configuration)
        }
        setup.sessions.add(user)
        return setup.with(\.assertions, FakeSigner())
    }

    private static func ask(_ path: String, _ fields: String...) -> String { Ask.ask("GET", path, spoofed + fields) }

    private static let rows = [
        Scenario(
            "Rule 130: the client's field is removed on every route, and only requests of a session get an assertion",
            on: setup { $0.routes[0].passFields = ["X-Identity"] },
            .ok(ask("/public/a", cookie)), .ok(ask("/token/a", cookie)), .ok(ask("/private/a", cookie)),
            .ok(ask("/private/a", cookie)), .ok(ask("/private/a", Ask.cookie)), .ok(ask("/public/a")),
            sent: [absent, absent, present, present, absent, absent],
            metrics: [#"cloakroom_assertions_signed_total{upstream="api"} 1"#], alsoHTTP2: true),
        Scenario(
            "Rule 130: what the upstream has to verify itself gets none",
            on: setup { $0.changePrivate { $0.credentials = .pass } },
            .ok(ask("/private/a", cookie, "Authorization: Legacy a")), sent: [absent]),
    ]

    @Test("Assertions", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Rule 130: another proxy gets the field with the assertion, or empty", arguments: Question.proxies)
    func forwardAuth(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let setup = Self.setup {
            $0.listeners[0].forwardAuth = ForwardAuthConfiguration(
                proxy: proxy, sources: [CIDRBlock("127.0.0.0/8")].compactMap(\.self), hosts: ["gateway.test"])
        }
        try await Scenario(
            "\(proxy)", on: setup,
            .ask(Question.of(proxy, "GET", "/private/a", Self.cookie), 200, has: ["X-Identity: signed"]),
            .ask(Question.of(proxy, "GET", "/public/a"), 200, has: ["X-Identity: "]),
            .ask(Question.of(proxy, "GET", "/private/a", Self.cookie, "x_identity: admin"), 403, lacks: ["signed"]),
            sent: []
        ).run()
    }
}
