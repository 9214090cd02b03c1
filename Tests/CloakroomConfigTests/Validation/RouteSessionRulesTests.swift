import CloakroomConfig
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
        identities:
          company:
            issuer: https://id.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
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
            try #require(yaml.contains(piece))
            yaml = yaml.replacing(piece, with: other)
        }
        return try ConfigFixture(yaml).valueErrors()
    }

    @Test("A route is good if one source of sessions can use it", arguments: ["legacy", "shop", "billing"])
    func good(upstream: String) throws {
        #expect(try errors(("upstream: shop", "upstream: \(upstream)")) == [])
        #expect(try errors(("upstream: shop", "upstream: \(upstream)"), ("inject: [bearer]", "inject: []")) == [])
    }

    @Test("Tokens for no identity: the error names the key to change")
    func noToken() throws {
        let errors = try errors(("tokensFor: [shop]", "pushed: auto"))
        #expect(errors.count == 1)
        #expect(
            errors.first?.contains("cloakroom.yaml:33:") == true
                && errors.first?.contains("add shop to identities.company.tokensFor, or an exchange for it") == true,
            "\(errors)")
    }

    @Test("An identity that is not listed in accounts.identities does not count")
    func unlisted() throws {
        let listed = ("prefix: /auth", "identities: [partner, legacy]")
        #expect(try errors(listed).contains { $0.contains("add shop to identities.partner.tokensFor") })
        #expect(try errors(listed, ("upstream: shop", "upstream: billing")) == [])
        #expect(try errors(listed, ("inject: [bearer]", "inject: []")) == [])
    }

    @Test("With credentials only, sessions are for the upstream that signs in, and the error names what else helps")
    func credentialsOnly() throws {
        let listed = ("prefix: /auth", "identities: [legacy]")
        let bearer = try errors(listed)
        #expect(bearer.contains { $0.contains("the tokens belong to upstream \"legacy\"") }, "\(bearer)")
        #expect(bearer.contains { $0.contains("or list an identity in accounts.identities") }, "\(bearer)")
        let plain = try errors(listed, ("inject: [bearer]", "inject: []"))
        #expect(plain.contains { $0.contains("sessions belong to upstream \"legacy\"") }, "\(plain)")
        #expect(try errors(listed, ("upstream: shop", "upstream: legacy")) == [])
    }

    @Test("A requirement that no accepted session can meet is an error")
    func requirements() throws {
        func errors(_ upstream: String, _ require: String) throws -> [String] {
            try self.errors(
                ("upstream: shop", "upstream: \(upstream)"), ("inject: [bearer]", "inject: [bearer]\n    \(require)"))
        }
        #expect(try errors("shop", "require: { claims: { groups: [a] }, acr: [b] }") == [])
        #expect(try errors("shop", "require: { claims: { sub: [a], iss: [b] } }") == [])
        let other = try errors("shop", "require: { claims: { email: [a] } }")
        #expect(other.contains { $0.contains("add email to keep.claims of identities.company") }, "\(other)")
        #expect(try errors("billing", "require: { claims: { email: [a] } }") == [])
        let password = try errors("legacy", "require: { acr: [a] }")
        #expect(password.contains { $0.contains("accepts only sessions of upstream \"legacy\"") }, "\(password)")
    }

    @Test("A claim has at most 256 acceptable values")
    func manyValues() throws {
        func errors(_ count: Int) throws -> [String] {
            let values = (0..<count).map { "v\($0)" }.joined(separator: ", ")
            return try self.errors(
                ("inject: [bearer]", "inject: [bearer]\n    require: { claims: { groups: [\(values)] } }"))
        }
        #expect(try errors(256) == [])
        let many = try errors(257)
        #expect(many.contains { $0.contains("must be at most 256 values, not 257") }, "\(many)")
    }

    @Test("Navigations cannot have the field of csrf.requireHeader")
    func requiredField() throws {
        let errors = try errors(
            ("inject: [bearer]", "inject: [bearer]\n    onMissingSession: login"),
            ("session:\n", "csrf: { requireHeader: X-Requested-With=a }\nsession:\n"))
        #expect(errors.contains { $0.contains("login conflicts with csrf.requireHeader") }, "\(errors)")
    }
}
