import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite("Whose sessions a route accepts")
struct RouteSessionRulesTests {
    /// Upstreams that sign in and do not, and two identities.
    private static let good = """
        listeners:
          - address: 127.0.0.1:0
        upstreams:
          legacy:
            targets: ["http://127.0.0.1:9000"]
            signIn: { path: /auth }
          shop:
            targets: ["http://127.0.0.1:9001"]
          billing:
            targets: ["http://127.0.0.1:9002"]
        \(ConfigFixture.company)
            tokensFor: [shop]
            keep: { claims: [groups] }
          partner:
            issuer: https://partner.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
            exchange: { billing: { audience: billing } }
            keep: { claims: [email] }
        accounts:
          publicURL: http://localhost:8080
          prefix: /auth
        session:
          cookie: { secure: false }
        routes:
          - name: page
            methods: [GET]
            path: /
            upstream: shop
            requiresAuthorization: true
            inject: [bearer]

        """

    private func errors(_ replacements: (String, String)...) throws -> [String] {
        var yaml = Self.good
        for (piece, other) in replacements {
            yaml = try ConfigFixture.changed(yaml, piece, other)
        }
        return try ConfigFixture(yaml).valueErrors()
    }

    @Test("A route is good if one source of sessions can use it", arguments: ["legacy", "shop", "billing"])
    func good(upstream: String) throws {
        try expect(errors(("upstream: shop", "upstream: \(upstream)")), equals: [])
        try expect(errors(("upstream: shop", "upstream: \(upstream)"), ("inject: [bearer]", "inject: []")), equals: [])
    }

    @Test("Tokens for no identity: the error names the key to change")
    func noToken() throws {
        let errors = try errors(("tokensFor: [shop]", "pushed: auto"))
        expect(errors.count, equals: 1)
        expect(
            errors.first?.contains("cloakroom.yaml:33:") == true
                && errors.first?.contains("add shop to identities.company.tokensFor, or an exchange for it") == true,
            "\(errors)")
    }

    @Test("An identity that is not listed in accounts.identities does not count")
    func unlisted() throws {
        let listed = ("prefix: /auth", "identities: [partner, legacy]")
        try expect(errors(listed).contains { $0.contains("add shop to identities.partner.tokensFor") })
        try expect(errors(listed, ("upstream: shop", "upstream: billing")), equals: [])
        try expect(errors(listed, ("inject: [bearer]", "inject: []")), equals: [])
    }

    @Test("With credentials only, tokens are for the upstream that signs in, and the error names what else helps")
    func credentialsOnly() throws {
        let listed = ("prefix: /auth", "identities: [legacy]")
        let bearer = try errors(listed)
        expect(bearer.contains { $0.contains("the tokens belong to upstream \"legacy\"") }, "\(bearer)")
        expect(bearer.contains { $0.contains("or list an identity in accounts.identities") }, "\(bearer)")
        expect(bearer.contains { $0.contains("add shop to upstreams.legacy.tokensFor") }, "\(bearer)")
        try expect(errors(listed, ("inject: [bearer]", "inject: []")), equals: [])
        try expect(errors(listed, Self.tokensForShop), equals: [])
        try expect(errors(listed, ("upstream: shop", "upstream: legacy")), equals: [])
    }

    private static let tokensForShop = ("signIn: { path: /auth }", "signIn: { path: /auth }\n    tokensFor: [shop]")

    /// The warnings about a line of a configuration.
    private func warnings(_ yaml: String, line: Int) throws -> [String] {
        try ConfigFixture(yaml).load().warnings.filter { $0.line == line }.map(\.message)
    }

    @Test("Upstreams that get tokens of another one are a warning, or else that their list has no effect")
    func tokensFor() throws {
        let listed = Self.good.replacing(Self.tokensForShop.0, with: Self.tokensForShop.1)
        try expect(
            warnings(listed, line: 7), equals: ["shop can use the tokens at legacy as the user (RFC 9700 §2.3)"])
        try expect(ConfigFixture(listed).load().configuration.accounts.tokensFor, equals: [1])
        let unused = listed.replacing("prefix: /auth", with: "identities: [company]")
        try expect(warnings(unused, line: 7), equals: ["has no effect: the upstream signs no users in"])
        try expect(ConfigFixture(unused).load().configuration.accounts.tokensFor, equals: [])
    }

    @Test("Sessions without claims are a warning on a route whose upstream gets claims, unless it requires some")
    func claimHeaders() throws {
        func warnings(_ inject: String, identities: String = "prefix: /auth") throws -> [String] {
            try self.warnings(
                Self.good.replacing("9001\"]\n", with: "9001\"]\n    claimHeaders: { X-User: sub }\n")
                    .replacing("inject: [bearer]", with: inject).replacing("prefix: /auth", with: identities), line: 33)
        }
        try expect(
            warnings("inject: []"),
            equals: [
                "accepts sessions that were signed in to with a password, which have no claims for claimHeaders"
            ])
        try expect(warnings("inject: [bearer]"), equals: [])
        try expect(warnings("require: { claims: { iss: [\"https://id.example.com\"] } }"), equals: [])
        try expect(warnings("inject: []", identities: "identities: [company]"), equals: [])
    }

    @Test("A requirement that no accepted session can meet is an error")
    func requirements() throws {
        func errors(_ upstream: String, _ require: String) throws -> [String] {
            try self.errors(
                ("upstream: shop", "upstream: \(upstream)"), ("inject: [bearer]", "inject: [bearer]\n    \(require)"))
        }
        try expect(errors("shop", "require: { claims: { groups: [a] }, acr: [b] }"), equals: [])
        try expect(errors("shop", "require: { claims: { sub: [a], iss: [b] } }"), equals: [])
        let other = try errors("shop", "require: { claims: { email: [a] } }")
        expect(other.contains { $0.contains("add email to keep.claims of identities.company") }, "\(other)")
        try expect(errors("billing", "require: { claims: { email: [a] } }"), equals: [])
        let password = try errors("legacy", "require: { acr: [a] }")
        expect(password.contains { $0.contains("accepts only sessions of upstream \"legacy\"") }, "\(password)")
    }

    @Test("A claim within objects is one that an identity keeps, if it keeps the claim, or objects around it")
    func nestedClaims() throws {
        let claims = "[/realm_access/roles, resource_access, \"https://x/roles\"]"
        let kept = ("keep: { claims: [groups] }", "keep: { claims: \(claims) }")
        func errors(_ claim: String) throws -> [String] {
            try self.errors(
                kept, ("inject: [bearer]", "inject: [bearer]\n    require: { claims: { \(claim): [buyer] } }"))
        }
        for claim in ["/realm_access/roles", "/resource_access/a~1b/roles", "\"https://x/roles\"", "/sub"] {
            try expect(errors(claim), equals: [])
        }
        for claim in ["realm_access", "/realm_access", "/realm_access/groups", "\"/https:~1~1x/roles\"", "groups"] {
            let found = try errors(claim)
            let name = claim.replacing("\"", with: "")
            expect(found.count, equals: 1)
            expect(found.first?.contains("add \(name) to keep.claims of identities.company"), equals: true, "\(found)")
            expect(found.first?.contains("cloakroom.yaml:34:"), equals: true, "\(found)")
        }
    }

    @Test("A claim has at most 256 acceptable values")
    func manyValues() throws {
        func errors(_ count: Int) throws -> [String] {
            let values = (0..<count).map { "v\($0)" }.joined(separator: ", ")
            return try self.errors(
                ("inject: [bearer]", "inject: [bearer]\n    require: { claims: { groups: [\(values)] } }"))
        }
        try expect(errors(256), equals: [])
        let many = try errors(257)
        expect(many.contains { $0.contains("must be at most 256 values, not 257") }, "\(many)")
    }

    @Test("Navigations cannot have the field of csrf.requireHeader")
    func requiredField() throws {
        let errors = try errors(
            ("inject: [bearer]", "inject: [bearer]\n    onMissingSession: login"),
            ("session:\n", "csrf: { requireHeader: X-Requested-With=a }\nsession:\n"))
        expect(errors.contains { $0.contains("login conflicts with csrf.requireHeader") }, "\(errors)")
    }
}
