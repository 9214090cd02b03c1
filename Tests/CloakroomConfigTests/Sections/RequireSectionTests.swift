import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("require of a route, and when of a rate limit")
struct RequireSectionTests {
    /// `require` is on line 25.
    private static let good = IdentitiesSectionTests.good

    private static func claims(_ text: String) throws -> [RequiredClaim] {
        let yaml = good.replacing("groups: [staff]", with: text)
        return try ConfigFixture(yaml).load().configuration.routes[0].require.claims
    }

    @Test("A list has acceptable values; a section has any, all and none")
    func values() throws {
        try expect(Self.claims("groups: [staff, a]"), equals: [RequiredClaim("groups", in: ["staff", "a"])])
        try expect(Self.claims("groups: { any: [staff, a] }"), equals: [RequiredClaim("groups", in: ["staff", "a"])])
        let parts = try Self.claims("/groups: { all: [a], none: [b] }")
        expect(parts, equals: [RequiredClaim("groups", all: ["a"], none: ["b"])])
    }

    @Test("Flags set the parts of a claim too")
    func flags() throws {
        let yaml = Self.good.replacing("claims: { groups: [staff] }, ", with: "")
        let loaded = try ConfigFixture(yaml).load(overrides: [("routes.0.require.claims.groups.none", "left")])
        expect(loaded.configuration.routes[0].require.claims, equals: [RequiredClaim("groups", none: ["left"])])
    }

    @Test(
        "A mistake is reported at its line, with a remedy",
        arguments: [
            ("groups: {}", "must contain any, all or none (write such as [staff], or {none: [suspended]})"),
            ("groups: { none: [] }", "must not be empty"), ("groups: { any: [''] }", "must not be empty"),
            ("groups: { ani: [staff] }", "unknown key"), ("groups: { any: { a: b } }", "must be"),
            ("roles: { none: [a] }", "add roles to keep.claims"),
            ("groups: { all: [\((0...256).map { "v\($0)" }.joined(separator: ", "))] }", "at most 256 values, not 257"),
        ])
    func mistakes(claims: String, message: String) throws {
        try ConfigFixture.expectError(message, at: "25:", in: Self.good, replacing: "groups: [staff]", by: claims)
    }

    @Test("anyOf has alternatives, which explain shows with the responses if none is met")
    func anyOf() throws {
        let fixture = try ConfigFixture(
            Self.good.replacing(
                "acr: [\"urn:mfa\"], maxAge: 10m",
                with: "anyOf: [{ claims: { /groups: { none: [a] } }, maxAge: 1m }, { acr: [gold] }]"))
        try expect(
            fixture.load().configuration.routes[0].require,
            equals: SessionRequirement(
                claims: [.init("groups", in: ["staff"])],
                anyOf: [
                    .init(claims: [.init("groups", none: ["a"])], maxAge: .seconds(60)), .init(acr: ["gold"]),
                ]))
        let text = fixture.report { CommandReport.explain($0, method: "GET", target: "/") }.text
        let age = "authentication at most 1m plus clockSkew ago"
        let line = "one of (claim /groups with none of [a], \(age)), (acr in [gold]); otherwise 401 step_up"
        expect(text.contains(line), "\(text)")
    }

    @Test(
        "A mistake in an alternative is reported at its line: one that is always met would open the route",
        arguments: [
            ("[]", "must not be empty"), ("[{}]", "must contain claims, acr or maxAge: it would always be met"),
            ("[{ claims: {} }]", "must contain claims, acr or maxAge"), ("{ acr: [a] }", "must be a list"),
            ("[{ acr: [a] }]", "conflicts with acr of require"), ("[staff]", "must be a section of keys"),
            ("[{ claims: { roles: [a] } }]", "add roles to keep.claims of identities.company"),
            ("[{ anyOf: [{ maxAge: 1m }] }]", "unknown key"), ("[{ maxAge: 0s }]", "must be"),
            ("[\(Array(repeating: "{ maxAge: 1m }", count: 9).joined(separator: ", "))]", "at most 8 alternatives"),
        ])
    func alternatives(anyOf: String, message: String) throws {
        try ConfigFixture.expectError(
            message, at: "25:", in: Self.good, replacing: "claims: { groups: [staff] }", by: "anyOf: \(anyOf)")
    }

    @Test("A rate limit takes the same, and explain shows it")
    func reports() throws {
        let yaml = Self.good.replacing("groups: [staff]", with: "groups: { any: [a, b], all: [c], none: [d] }")
            .replacing("    onMissingSession: login\n", with: "    rate: [staff]\n")
        let limit = """
            rateLimits:
              staff: { by: account, requests: 10/m, when: { groups: { none: [free] } } }

            """
        let text = try ConfigFixture(yaml + limit).report { CommandReport.explain($0, method: "GET", target: "/") }.text
        for piece in [
            "claim groups in [a, b], with all of [c], with none of [d]; otherwise 403 missing_claim",
            "; only sessions with claim groups with none of [free]; beyond it 429 rate_limited",
        ] {
            expect(text.contains(piece), "\(text)")
        }
    }
}
