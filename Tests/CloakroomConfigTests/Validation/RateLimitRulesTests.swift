import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("Rate limits in the configuration")
struct RateLimitRulesTests {
    /// The valid configuration with a limit on the route that requires a session, in lines 26 to 30.
    private static let good =
        ConfigFixture.good.replacing(
            "inject: [apiToken, bearer]\n", with: "inject: [apiToken, bearer]\n    rate: [perUser]\n") + """
            rateLimits:
              perUser:
                by: account
                requests: 600/m

            """

    /// A replacement, the place of the error, and its text.
    private static let mistakes: [(piece: String, change: String, place: String, message: String)] = [
        (
            "600/m", "600", "30:15",
            "rateLimits.perUser.requests: must have a unit: s, m or h, not \"600\" (write 600/m)"
        ),
        ("600/m", "600/d", "30:15", "must have a unit: s, m or h, not \"600/d\" (write 600/m)"),
        (
            "600/m", "2 per second", "30:15",
            "must be a number and a unit: s, m or h, not \"2 per second\" (write a number and a unit, such as 2/s)"
        ),
        ("600/m", "0/m", "30:15", "must be in the allowed range, not 0 (write 1 to 1000000)"),
        ("600/m", "many/m", "30:15", "must be a whole number, not \"many\""),
        ("    requests: 600/m\n", "", "", "rateLimits.perUser.requests: required key missing"),
        ("by: account", "by: user", "29:9", "must be one of the allowed values, not \"user\""),
        ("by: account", "by: \"claim:\"", "29:9", "must not be empty"),
        (
            "    requests", "    burst: 0\n    requests", "30:12",
            "must be in the allowed range, not 0 (write 1 to 100000)"
        ),
        (
            "    requests", "    shared: true\n    requests", "30:13",
            "rateLimits.perUser.shared: conflicts with session.store memory, which gateways do not share"
                + " (remove it, or use the store valkey)"
        ),
        ("[perUser]", "[peruser]", "26:12", "unknown rate limit \"peruser\" (did you mean \"perUser\"?)"),
        ("[perUser]", "[perUser, perUser]", "26:11", "must be a list without duplicates"),
        ("[perUser]", "[a, b, c, d, e]", "26:11", "must be at most 4 limits, not 5"),
        (
            "inject: [apiToken]\n", "inject: [apiToken]\n    rate: [perUser]\n", "20:11",
            "routes.0.rate: conflicts with the route: perUser is by account, but no session is looked up"
                + " (list a limit by address or route, or require authorization)"
        ),
        (
            "rateLimits:\n", "limits: { rate: [perUser] }\nrateLimits:\n", "27:",
            "limits.rate: must be limits by address: perUser is by account (list it at routes, or leave it out)"
        ),
        ("rateLimits:\n", "limits: { rateKeys: 1000 }\nrateLimits:\n", "27:", "write 1024 to 16777216"),
        ("  perUser:\n", "  per.user:\n", "28:", "must be a name without dots"),
    ]

    @Test("A mistake is reported with its place and a remedy", arguments: mistakes.indices)
    func mistake(index: Int) throws {
        let (piece, change, place, message) = Self.mistakes[index]
        try ConfigFixture.expectError(message, at: place, in: Self.good, replacing: piece, by: change)
    }

    @Test("All keys are read, with their defaults")
    func values() throws {
        let configuration = try ConfigFixture(Self.good).load().configuration
        let limit = try require(configuration.rateLimits.first)
        expect(limit.name, equals: "perUser")
        expect(limit.subject, equals: .account)
        expect(limit.requests, equals: RequestRate(600, per: .minute))
        expect(limit.burst, equals: 60)
        expect(limit.isEnforced)
        expect(!limit.isShared)
        expect(empty: limit.when)
        expect(configuration.routes.map(\.rate), equals: [[], ["perUser"]])
        expect(empty: configuration.limits.rate)
        expect(configuration.limits.rateKeys, equals: 65_536)
        expect(configuration.limits.rateFields, equals: .rejected)
        let more =
            Self.good.replacing("by: account", with: "by: address\n    burst: 7\n    enforce: false")
            .replacing("rate: [perUser]", with: "rate: []") + "limits: { rate: [perUser], rateFields: always }\n"
        let changed = try ConfigFixture(more).load().configuration
        expect(changed.rateLimits[0].subject, equals: .address)
        expect(changed.rateLimits[0].burst, equals: 7)
        expect(!changed.rateLimits[0].isEnforced)
        expect(changed.limits.rate, equals: ["perUser"])
        expect(changed.limits.rateFields, equals: .always)
    }

    @Test("A limit is shared over the store valkey only; one that is not shared any more is looser")
    func shared() throws {
        let good = Self.good.replacing(
            "session:\n",
            with: "session:\n  store: valkey\n  secrets: [0123456789abcdef0123456789abcdef]\n"
                + "  valkey: { addresses: [\"one:1\"] }\n")
        let yaml = good.replacing("    requests", with: "    shared: true\n    requests")
        let fixture = try ConfigFixture(yaml)
        try expect(fixture.load().configuration.rateLimits.map(\.isShared), equals: [true])
        let text = fixture.report { .explain($0, method: "GET", target: "/videos/1") }.text
        expect(text.contains("perUser: 600/m by account, burst 60, shared by all gateways; beyond it"), "\(text)")
        let single = try ConfigFixture(good)
        let loosened = single.changes(since: fixture)
        expect(loosened.text.hasPrefix("limit loosened"), "\(loosened.text)")
        let tightened = fixture.changes(since: single)
        expect(tightened.text, equals: "no change\n")
    }

    @Test("The same limit for every request and at a route would count twice")
    func twice() throws {
        let yaml = Self.good.replacing("by: account", with: "by: address") + "limits: { rate: [perUser] }\n"
        try expect(
            ConfigFixture(yaml).valueErrors(),
            equals: [
                "cloakroom.yaml:26:11: routes.1.rate: conflicts with limits.rate: perUser would count each request"
                    + " twice (keep one of the two)"
            ])
    }

    @Test("A note reports the methods that a route without the limit does not serve")
    func unserved() throws {
        let yaml = Self.good.replacing("by: account", with: "by: address").replacing(
            "rate: [perUser]", with: "rate: []"
        )
        .replacing("inject: [apiToken]\n", with: "inject: [apiToken]\n    rate: [perUser]\n")
        .replacing(
            "rateLimits:\n",
            with: "  - { name: all, methods: [GET, PUT], path: /*, upstream: api, requiresAuthorization: false }\n"
                + "rateLimits:\n")
        let note =
            "routes.0.methods: PUT /episodes is not served: route \"all\" is less strict than this one (has another rate limit)"
        let text = try ConfigFixture(yaml).report { .checkConfig($0) }.text
        expect(text.contains(note), "\(text)")
        let observed = try ConfigFixture(yaml.replacing("    requests", with: "    enforce: false\n    requests"))
        expect(!observed.report { .checkConfig($0) }.text.contains(note))
    }

    @Test("A limit that nothing lists, and claims that no identity states, are warnings")
    func warnings() throws {
        let unused = try ConfigFixture(Self.good.replacing("    rate: [perUser]\n", with: "")).load().warnings
        expect(unused.map(\.message), equals: ["has no effect: no route lists it"])
        for (piece, change) in [
            ("by: account", "by: claim:plan"), ("    requests", "    when: { plan: [free] }\n    requests"),
        ] {
            let warnings = try ConfigFixture(Self.good.replacing(piece, with: change)).load().warnings
            expect(warnings.contains { $0.message.hasPrefix("requires claims, which only identities state") })
        }
        for (when, isOpen) in [("{ plan: { none: [paid] } }", true), ("{ plan: { any: [free] } }", false)] {
            let yaml = Self.good.replacing("    requests", with: "    when: \(when)\n    requests")
            let warnings = try ConfigFixture(yaml).load().warnings
            expect(warnings.contains { $0.message.hasPrefix("plan has none: users without the claim") }, equals: isOpen)
        }
    }

    @Test("A claim must be one that an identity keeps")
    func claims() throws {
        let yaml =
            Self.good.replacing("by: account", with: "by: claim:plan") + """
                \(ConfigFixture.company)
                    tokensFor: [api]
                    keep: { claims: [groups] }
                accounts:
                  publicURL: http://localhost:8080

                """
        try ConfigFixture.expectError(
            "requires a claim that no identity keeps: all requests would be counted by address"
                + " (add plan to keep.claims of an identity)", at: "29:9", in: yaml, replacing: "600/m", by: "600/m")
        try expect(ConfigFixture(yaml.replacing("[groups]", with: "[plan]")).valueErrors(), equals: [])
    }

    @Test("The number of limits is bounded, and names must differ in more than case")
    func names() throws {
        let many = (0...32).map { "  limit\($0): { by: address, requests: 1/s }\n" }.joined()
        let errors = try ConfigFixture(Self.good + many).valueErrors()
        expect(errors.contains { $0.contains("rateLimits: must be at most 32 limits, not 34 (remove some)") })
        let alike = try ConfigFixture(Self.good + "  per_user: { by: address, requests: 1/s }\n  peruser: {}\n")
            .valueErrors()
        expect(alike.contains { $0.contains("conflicts with rate limit") })
    }

    @Test("explain and routes show the limits of a route, routes --diff those that were loosened")
    func reports() throws {
        let fixture = try ConfigFixture(Self.good)
        let explanation = fixture.report { .explain($0, method: "GET", target: "/videos/1") }.text
        expect(explanation.contains("  rate:"))
        expect(explanation.contains("perUser: 600/m by account, burst 60; beyond it 429 rate_limited\n"))
        let every = try ConfigFixture(
            Self.good.replacing("by: account", with: "by: address").replacing("    rate: [perUser]\n", with: "")
                + "limits: { rate: [perUser] }\n")
        for (method, target, isCounted) in [
            ("GET", "/nowhere", true), ("GET", "/auth", true), ("PATCH", "/videos/1", true), ("OPTIONS", "*", true),
            ("GET", "//evil", true), ("G T", "/videos/1", false),
        ] {
            let text = every.report { .explain($0, method: method, target: target) }.text
            expect(text.contains("perUser: 600/m by address"), equals: isCounted, "\(text)")
        }
        let routes = fixture.report { .routes($0) }.text.split(separator: "\n")
        expect(routes.first?.hasSuffix("  RATE"), equals: true)
        expect(routes.contains { $0.hasPrefix("video") && $0.hasSuffix("  perUser") })
        expect(!(try ConfigFixture().report { .routes($0) }.text.contains("RATE")))
        func changes(_ piece: String, _ change: String) throws -> String {
            let new = try ConfigFixture(Self.good.replacing(piece, with: change))
            let report = new.changes(since: fixture)
            expect(report.exitCode, equals: 0)
            return report.text
        }
        try expect(
            changes("600/m", "601/m").contains(
                "video, perUser: 601/m by account, burst 60, was perUser: 600/m by account, burst 60"))
        try expect(changes("600/m", "601/m").hasPrefix("limit loosened"))
        try expect(changes("600/m", "10/m"), equals: "no change\n")
        try expect(changes("    rate: [perUser]\n", "").hasPrefix("limit removed"))
    }
}
