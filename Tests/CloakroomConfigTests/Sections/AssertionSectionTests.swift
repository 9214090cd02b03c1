import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite("upstreams.NAME.assertion")
struct AssertionSectionTests {
    /// A configuration with an assertion. Tests depend on its line numbers.
    private static let good = """
        \(ConfigFixture.head)
            apiToken: { value: demo }
            claimHeaders: { X-User: sub }
            assertion:
              header: X-Identity
              audience: orders
              lifetime: 2m
              claims: [email, /groups]
          other:
            targets: ["http://127.0.0.1:9001"]
            apiToken: { header: X-Key, value: demo }
        identities:
          company:
            issuer: https://id.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
            keep: { claims: [groups, email] }
        accounts:
          publicURL: http://localhost:8080
        session:
          cookie: { secure: false }
          secrets: [0123456789abcdef0123456789abcdef]
        routes:
          - { name: page, methods: [GET], path: /, upstream: api, requiresAuthorization: true }

        """

    @Test("has a field, an audience, a lifetime and claims")
    func values() throws {
        let configuration = try ConfigFixture(Self.good).load().configuration
        var expected = AssertionConfiguration(header: "X-Identity", audience: "orders")
        (expected.lifetime, expected.claims) = (.seconds(120), ["email", "groups"])
        expect(configuration.upstreams.map(\.assertion), equals: [expected, nil])
        expect(configuration.claimHeaderNames, equals: ["X-User", "X-Identity"])
        let text = try ConfigFixture(Self.good).report { CommandReport.explain($0, method: "GET", target: "/") }.text
        expect(text.contains("X-Identity: signed assertion for orders, valid for 2m"), "\(text)")
    }

    @Test(
        "Rule 130: a field that has another meaning, or could be confused, is reported, and what a signature requires",
        arguments: [
            ("X-Identity", "Authorization", "9:", "has another meaning"),
            ("X-Identity", "Connection", "9:", "has another meaning"),
            ("X-Identity", "X-Forwarded-For", "9:", "has another meaning"),
            ("X-Identity", "x_user", "9:", "conflicts with X-User"),
            ("X-Identity", "X-API-TOKEN", "9:", "conflicts with X-API-TOKEN"),
            ("X-Identity", "x.key", "9:", "conflicts with X-Key"),
            ("X-Identity", "\"X Y\"", "9:", "must be the name of a field"),
            ("      header: X-Identity\n", "", "", "required key missing"),
            ("audience: orders", "audience: a b", "10:", "visible ASCII"),
            ("      audience: orders\n", "", "", "required key missing"),
            ("2m", "19s", "11:", "must be"), ("2m", "601s", "11:", "must be"),
            ("[email, /groups]", "[email, name]", "12:", "no identity keeps"),
            ("  secrets: [0123456789abcdef0123456789abcdef]\n", "", "9:", "requires session.secrets"),
            ("true }", "true, passFields: [x_identity] }", "27:", "must be a field that a route can pass"),
            ("true }", "true, requestFields: { set: { X-IDENTITY: a } } }", "27:", "conflicts"),
        ])
    func mistakes(piece: String, other: String, place: String, message: String) throws {
        try ConfigFixture.expectError(message, at: place, in: Self.good, replacing: piece, by: other)
    }

    @Test("Rule 131: two upstreams with the same audience are reported", arguments: ["orders", "billing"])
    func sharedAudience(audience: String) throws {
        let token = "    apiToken: { header: X-Key, value: demo }"
        let assertion = "\n    assertion: { header: X-Identity, audience: \(audience) }"
        let yaml = Self.good.replacing(token, with: token + assertion)
        let text = try ConfigFixture(yaml).report { .checkConfig($0) }.text
        for other in ["api", "other"] {
            expect(text.contains("is also that of upstream \"\(other)\""), equals: audience == "orders", "\(text)")
        }
    }

    /// - Parameters:
    ///   - tokens: Members of `accessTokens` of `company`, and of `partner`.
    ///   - more: Further keys of `company`.
    private static func introspecting(_ tokens: String, _ others: String = "", more: String = "") -> String {
        good.replacing(
            "    keep: { claims: [groups, email] }",
            with: """
                    keep: { claims: [groups, email] }
                    accessTokens: { audience: [orders]\(tokens) }\(more)
                  partner:
                    issuer: https://partner.example.com
                    client: { id: cloakroom, secret: 0123456789-abc }
                    accessTokens: { audience: [orders]\(others) }
                """)
    }

    @Test("Rule 136: only one identity of a site is asked about tokens, and with fixed endpoints it has to have one")
    func introspection() throws {
        let asked = ", introspection: {}"
        let yaml = Self.introspecting(", introspection: { cache: 1m, rejected: 0s, timeout: 1s }")
        var expected = IdentityConfiguration.Introspection()
        (expected.cache, expected.rejected, expected.timeout) = (.seconds(60), .zero, .seconds(1))
        try expect(ConfigFixture(yaml).load().configuration.identities[0].accessTokens?.introspection, equals: expected)
        let fixed = #"metadata: false, authorization: "https://id.example.com/a", token: "https://id.example.com/t", "#
        let endpoints = "\n    endpoints: { \(fixed)keys: \"https://id.example.com/k\" }"
        for (yaml, message) in [
            (Self.introspecting(asked, asked), "conflicts with identity \"company\""),
            (Self.introspecting(", verify: jwt"), "unknown key"),
            (Self.introspecting(", introspection: { cache: 6m }"), "must be"),
            (Self.introspecting(", introspection: { rejected: 2m }"), "must be"),
            (Self.introspecting(", introspection: { timeout: 11s }"), "must be"),
            (Self.introspecting(asked, more: endpoints), "endpoints.introspection"),
        ] {
            let errors = try ConfigFixture(yaml).valueErrors()
            expect(errors.contains { $0.contains(message) }, "\(errors)")
        }
        let defaults = try ConfigFixture(Self.introspecting(asked + ", types: [JWT]"))
        let tokens = try defaults.load().configuration.identities.map(\.accessTokens?.introspection)
        expect(tokens, equals: [IdentityConfiguration.Introspection(), nil])
        expect(defaults.report { .checkConfig($0) }.text.contains("no effect with introspection"))
    }
}
