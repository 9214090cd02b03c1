import CloakroomConfig
import TestSupport
import Testing

@Suite("routes --diff: sessions and tokens")
struct RouteTableDiffSessionTests {
    /// Two identities, an upstream that gets their tokens and one that does not.
    private static let yaml = """
        \(ConfigFixture.head)
            apiToken: { value: demo }
          billing:
            targets: ["http://127.0.0.1:9001"]
        \(ConfigFixture.company)
            tokensFor: [api]
            keep: { claims: [groups] }
          partner:
            issuer: https://partner.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
            tokensFor: [api]
            keep: { claims: [groups] }
        accounts:
          publicURL: http://localhost:8080
          identities: [company]
          login: { returnTo: /open }
        session:
          cookie: { secure: false }
        routes:
          - name: admin
            methods: [GET]
            path: /admin
            upstream: api
            requiresAuthorization: true
            require: { claims: { groups: [admins] }, acr: ["urn:a"], maxAge: 10m }
          - name: data
            methods: [GET]
            path: /data
            upstream: api
            requiresAuthorization: true
            inject: [bearer]
          - name: bills
            methods: [GET]
            path: /bills
            upstream: billing
            requiresAuthorization: true
            inject: []
          - name: open
            methods: [GET]
            path: /open
            upstream: api
            requiresAuthorization: false
            inject: []

        """

    private static let admin = "requires less GET /admin admin,"
    private static let bearerOnBills = (
        "billing\n    requiresAuthorization: true\n    inject: []",
        "billing\n    requiresAuthorization: true\n    inject: [bearer]"
    )

    /// The report on the change from the configuration with the first replacements to one with the second ones.
    private static func difference(
        from old: [(String, String)] = [], to new: [(String, String)]
    ) throws -> CommandReport {
        func fixture(_ replacements: [(String, String)]) throws -> ConfigFixture {
            var yaml = Self.yaml
            for (piece, other) in replacements {
                yaml = try ConfigFixture.changed(yaml, piece, other)
            }
            return try ConfigFixture(yaml)
        }
        return try fixture(new).changes(since: fixture(old))
    }

    private static func age(_ limit: String) -> String { "authentication at most \(limit) plus clockSkew ago" }

    @Test(
        "A requirement that is removed or widened is an exposure, one that is added is none",
        arguments: [
            ("claims: { groups: [admins] }, ", "", "was claim groups in [admins]"),
            ("[admins]", "[admins, staff]", "claim groups in [admins, staff], was claim groups in [admins]"),
            ("acr: [\"urn:a\"], ", "", "was acr in [urn:a]"),
            ("[\"urn:a\"]", "[\"urn:b\", \"urn:a\"]", "acr in [urn:b, urn:a], was acr in [urn:a]"),
            (", maxAge: 10m", "", "was \(age("10m"))"), ("10m", "1h", "\(age("1h")), was \(age("10m"))"),
        ])
    func requirement(_ piece: String, _ other: String, _ text: String) throws {
        let opened = try Self.difference(to: [(piece, other)])
        expect(opened.rows, equals: ["\(Self.admin) \(text)"])
        expect(opened.exitCode, equals: 3)
        let closed = try Self.difference(from: [(piece, other)], to: [])
        expect(closed.rows, equals: ["no change"])
        expect(closed.exitCode, equals: 0)
    }

    @Test("All parts that a route no longer requires are one line")
    func requirements() throws {
        let all = "    require: { claims: { groups: [admins] }, acr: [\"urn:a\"], maxAge: 10m }\n"
        let found = try Self.difference(to: [(all, "")])
        expect(found.rows, equals: ["\(Self.admin) was claim groups in [admins], acr in [urn:a], \(Self.age("10m"))"])
        expect(found.exitCode, equals: 3)
    }

    @Test("A value that is no longer required, or no longer excluded, is an exposure, and another notation is none")
    func claimParts() throws {
        func admin(_ claim: String) -> [(String, String)] { [("[admins]", claim)] }
        for (before, after, text) in [
            (
                "{ any: [admins], none: [left, banned] }", "{ any: [admins], none: [left] }",
                "claim groups in [admins], with none of [left], was claim groups in [admins], with none of [left, banned]"
            ),
            ("{ all: [a, b] }", "{ all: [b] }", "claim groups with all of [b], was claim groups with all of [a, b]"),
            ("{ all: [a, b] }", "[b, c]", "claim groups in [b, c], was claim groups with all of [a, b]"),
        ] {
            let opened = try Self.difference(from: admin(before), to: admin(after))
            expect(opened.rows, equals: ["\(Self.admin) \(text)"])
            expect(opened.exitCode, equals: 3)
            try expect(Self.difference(from: admin(after), to: admin(before)).rows, equals: ["no change"])
        }
        try expect(Self.difference(to: admin("{ all: [admins] }")).rows, equals: ["no change"])
        try expect(Self.difference(from: admin("{ all: [admins] }"), to: []).rows, equals: ["no change"])
    }

    @Test("A further alternative is an exposure, and another notation of a requirement is none")
    func alternatives() throws {
        func admin(_ require: String) -> [(String, String)] {
            [("claims: { groups: [admins] }, acr: [\"urn:a\"], maxAge: 10m", require)]
        }
        let one = admin("anyOf: [{ acr: [gold] }]")
        let two = admin("anyOf: [{ acr: [gold] }, { claims: { groups: [a] }, maxAge: 10m }]")
        let opened = try Self.difference(from: one, to: two)
        let parts = "(acr in [gold]), (claim groups in [a], \(Self.age("10m")))"
        expect(opened.rows, equals: ["\(Self.admin) one of \(parts), was one of (acr in [gold])"])
        expect(opened.exitCode, equals: 3)
        try expect(Self.difference(from: two, to: one).rows, equals: ["no change"])
        try expect(Self.difference(from: admin("acr: [gold]"), to: one).rows, equals: ["no change"])
        try expect(Self.difference(from: one, to: admin("acr: [gold]")).rows, equals: ["no change"])
    }

    @Test("Sessions of a further identity are an exposure of each route that accepts them")
    func identities() throws {
        let found = try Self.difference(to: [("identities: [company]", "identities: [company, partner]")])
        let accepts = ["/admin admin", "/bills bills", "/data data"].map {
            "requires less GET \($0), also sessions of partner"
        }
        expect(found.rows, equals: ["sends tokens GET /data data, tokens of partner to api"] + accepts)
        expect(found.exitCode, equals: 3)
    }

    @Test("Rule 34: tokens for a further upstream are an exposure, by tokensFor, exchange, inject or another upstream")
    func tokens() throws {
        let granted = ("tokensFor: [api]", "tokensFor: [api, billing]")
        let exchange = (
            "tokensFor: [api]", "tokensFor: [api]\n    exchange: { billing: { audience: bills, scope: read } }"
        )
        let moved = ("path: /data\n    upstream: api", "path: /data\n    upstream: billing")
        let own = "sends tokens GET /bills bills, tokens of company to billing"
        let exchanged =
            "sends tokens GET /bills bills, tokens of company exchanged for bills with scope read to billing"
        let rows: [(old: [(String, String)], new: [(String, String)], lines: [String])] = [
            ([], [granted], ["no change"]), ([], [granted, Self.bearerOnBills], [own]),
            ([granted], [granted, Self.bearerOnBills], [own]), ([], [exchange, Self.bearerOnBills], [exchanged]),
            ([granted, Self.bearerOnBills], [exchange, Self.bearerOnBills], [exchanged]),
            (
                [granted, Self.bearerOnBills], [granted, Self.bearerOnBills, moved],
                ["sends tokens GET /data data, tokens of company to billing"]
            ),
            ([granted, Self.bearerOnBills], [granted, Self.bearerOnBills], ["no change"]),
            ([granted, Self.bearerOnBills], [granted], ["no change"]),
        ]
        for row in rows {
            let found = try Self.difference(from: row.old, to: row.new)
            expect(found.rows, equals: row.lines)
            expect(found.exitCode, equals: (row.lines == ["no change"] ? 0 : 3))
        }
    }

    @Test("A public route that gets the API token is an exposure")
    func apiToken() throws {
        let piece = "requiresAuthorization: false\n    inject: []"
        let found = try Self.difference(to: [(piece, piece.replacing("[]", with: "[apiToken]"))])
        expect(found.rows, equals: ["sends API token GET /open open, that of api"])
        expect(found.exitCode, equals: 3)
        let protected = try Self.difference(to: [
            (
                "api\n    requiresAuthorization: true\n    inject: [bearer]",
                "api\n    requiresAuthorization: true\n    inject: [apiToken, bearer]"
            )
        ])
        expect(protected.rows, equals: ["no change"])
    }
}
