import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("identities")
struct IdentitiesSectionTests {
    /// A configuration with one identity. Tests depend on its line numbers.
    static let good = """
        \(ConfigFixture.head)
        \(ConfigFixture.company)
            tokensFor: [api]
            scopes: [openid]
            keep: { claims: [groups] }
        accounts:
          publicURL: http://localhost:8080
          login: { returnTo: / }
        session:
          cookie: { secure: false }
        routes:
          - name: page
            methods: [GET]
            path: /
            requiresAuthorization: true
            inject: [bearer]
            onMissingSession: login
            require: { claims: { groups: [staff] }, acr: ["urn:mfa"], maxAge: 10m }

        """

    @Test("An identity has the defaults of the reference, and the settings of its file")
    func values() throws {
        let configuration = try ConfigFixture(Self.good).load().configuration
        let identity = try require(configuration.identities.first)
        expect(
            identity,
            equals: IdentityConfiguration(
                name: "company", issuer: "https://id.example.com",
                client: IdentityClientConfiguration(
                    id: "cloakroom", authentication: .basic(Secret("0123456789-abc"))),
                scopes: ["openid"], keep: .init(claims: ["groups"]), tokensFor: [0]))
        expect(identity.displayName, equals: "company")
        expect(configuration.accounts.publicURL, equals: "http://localhost:8080")
        expect(configuration.accounts.identities, equals: [.provider(0)])
        expect(configuration.accounts.login, equals: LoginConfiguration())
        expect(configuration.routes[0].onMissingSession, equals: .login)
        expect(
            configuration.routes[0].require,
            equals: SessionRequirement(
                claims: [.init("groups", in: ["staff"])], acr: ["urn:mfa"], maxAge: .seconds(600)))
    }

    @Test("Every key can be set")
    func everyKey() throws {
        let more = """
            keep: { claims: [groups], bytes: 1KiB }
                label: "Example & Co"
                parameters: { prompt: consent, ui_locales: de }
                passParameters: { login_hint: 254, prompt: [login, none] }
                pushed: always
                algorithms: [ES512, EdDSA]
                clockSkew: 5m
                user: userInfo
                endsOn: [invalid_grant, any400]
                logout: { provider: true, hint: false, returnTo: / }
                accessTokens: { audience: [orders], types: [at+jwt, JWT], maximumAge: 1d, clients: [batch], dpop: required }
            """
        let yaml = Self.good.replacing("keep: { claims: [groups] }", with: more)
        let identity = try require(ConfigFixture(yaml).load().configuration.identities.first)
        expect(identity.parameters, equals: [.init("prompt", "consent"), .init("ui_locales", "de")])
        expect(
            identity.passParameters,
            equals: [
                .init("login_hint", .length(254)), .init("prompt", .listed(["login", "none"])),
            ])
        expect(identity.label, equals: "Example & Co")
        expect(identity.pushed, equals: .always)
        expect(identity.algorithms, equals: [.es512, .edDSA])
        expect(identity.clockSkew, equals: .seconds(300))
        expect(identity.userSource, equals: .userInfo)
        expect(identity.keep.bytes, equals: 1_024)
        expect(identity.endsOn, equals: ["invalid_grant", "any400"])
        expect(identity.logout, equals: .init(isEnabled: true, sendsHint: false))
        let tokens = try require(identity.accessTokens)
        expect(tokens.audience == ["orders"] && tokens.clients == ["batch"])
        expect(tokens.types == [.accessToken, .jwt] && tokens.maximumAge == .seconds(86_400))
        expect(tokens.dpop, equals: .required)
    }

    @Test("The default of a list is among the effective values")
    func defaultLists() throws {
        let fixture = try ConfigFixture(Self.good.replacing("scopes: [openid]", with: "pushed: auto"))
        let report = fixture.report(CommandReport.printConfig).text
        for list in ["[openid, profile, email]", "[RS256, PS256, ES256, EdDSA]", "[invalid_grant]"] {
            expect(report.contains(list))
        }
    }

    @Test(
        "Rule 34: tokens and exchanged tokens that another machine gets unencrypted are a warning",
        arguments: [
            "tokensFor: [api]", "exchange: { api: { audience: a } }", "exchange: { api: { resource: https://a } }",
        ])
    func unencrypted(_ key: String) throws {
        let yaml = Self.good.replacing("tokensFor: [api]", with: key)
        for target in ["http://127.0.0.1:9000", "https://10.0.0.1:9000", "http://[::1]:9000", "unix:/run/api"] {
            let fixture = try ConfigFixture(yaml.replacing("http://127.0.0.1:9000", with: target))
            let warnings = try fixture.load().warnings.map(\.description)
            expect(!warnings.contains { $0.contains("unencrypted") }, "\(warnings)")
        }
        for targets in ["\"http://10.0.0.1:9000\"", "\"http://127.0.0.1:1\", \"http://10.0.0.1:9000\""] {
            let other = yaml.replacing("\"http://127.0.0.1:9000\"", with: targets)
            let warnings = try ConfigFixture(other).load().warnings.map(\.description)
            let message =
                "tokens would be sent unencrypted to http://10.0.0.1:9000 (write https:// targets for upstreams.api)"
            expect(warnings.count { $0.contains(":10:") && $0.hasSuffix(message) }, equals: 1, "\(warnings)")
        }
    }

    @Test(
        "A mistake is reported at its line, with a remedy",
        arguments: [
            ("issuer: https://id.example.com", "issuer: http://id.example.com", "8:13", "must be an https URL"),
            ("issuer: https://id.example.com", "issuer: https://id.example.com?a", "8:13", "without a query"),
            (
                "issuer: https://id.example.com", "issuer: https://id.example.com/.well-known/openid-configuration",
                "8:13", "write https://id.example.com"
            ),
            ("issuer: https://id.example.com", "issuer: https://u:p@id.example.com", "8:13", "without user"),
            ("issuer: https://id.example.com", "pushed: auto", "", "required key missing"),
            ("id: cloakroom, ", "", "", "required key missing"),
            (", secret: 0123456789-abc", "", "", "client_secret_basic"),
            ("secret: 0123456789-abc", "authentication: none", "9:", "none is not supported"),
            ("secret: 0123456789-abc", "authentication: private_key_jwt", "", "name a PEM file"),
            ("secret: 0123456789-abc", "secret: x, keyID: a", "9:", "conflicts with authentication"),
            ("scopes: [openid]", "label: \(String(repeating: "a", count: 65))", "11:12", "at most 64 bytes"),
            ("scopes: [openid]", "scopes: [email]", "11:13", "must contain openid"),
            ("scopes: [openid]", "scopes: [\"openid email\"]", "11:", "must be a scope"),
            ("scopes: [openid]", "algorithms: [none]", "11:", "is not supported"),
            ("scopes: [openid]", "algorithms: [HS256]", "11:", "is not supported"),
            ("scopes: [openid]", "algorithms: [rs256]", "11:", "must be one of the allowed values"),
            ("scopes: [openid]", "algorithms: []", "11:", "must not be empty"),
            ("scopes: [openid]", "clockSkew: 6m", "11:", "must be"),
            ("scopes: [openid]", "parameters: { nonce: a }", "11:", "the gateway sets it"),
            ("scopes: [openid]", "parameters: { Code_Challenge_Method: plain }", "11:", "the gateway sets it"),
            ("scopes: [openid]", "passParameters: { login_hint: 0 }", "11:", "must be a length from 1 to 1024"),
            ("scopes: [openid]", "passParameters: { login_hint: 1025 }", "11:", "must be a length from 1 to 1024"),
            ("scopes: [openid]", "passParameters: { prompt: login }", "11:", "the permitted values as [login]"),
            ("scopes: [openid]", "passParameters: { prompt: [] }", "11:", "must not be empty"),
            ("scopes: [openid]", "endsOn: [invalid_client]", "11:", "would sign out all users"),
            ("scopes: [openid]", "endsOn: [invalid_scope]", "11:", "would sign out all users"),
            ("scopes: [openid]", "endsOn: []", "11:", "must not be empty (write at least one, such as invalid_grant)"),
            ("scopes: [openid]", "scopes: []", "11:", "must not be empty (write at least one, such as openid)"),
            ("scopes: [openid]", "logout: { returnTo: /away }", "11:", "that a route serves"),
            ("scopes: [openid]", "exchange: { api: { audience: a } }", "11:", "conflicts with tokensFor"),
            ("scopes: [openid]", "exchange: { api: { scope: a } }", "", "audience or resource"),
            ("scopes: [openid]", "exchange: { apo: { audience: a } }", "11:", "unknown upstream \"apo\""),
            ("scopes: [openid]", "issuers: x", "11:5", "unknown key"),
            ("tokensFor: [api]", "tokensFor: [apo]", "10:", "unknown upstream \"apo\""),
            ("tokensFor: [api]", "pushed: auto", "23:", "bearer requires an identity"),
            ("claims: [groups] }", "claims: [_claim_names, groups] }", "12:", "are not fetched"),
            ("claims: [groups] }", "claims: [groups, /a//b] }", "12:", "must be a JSON Pointer without empty names"),
            ("groups: [staff]", "/groups/: [staff]", "25:", "must be a JSON Pointer without empty names"),
            ("groups: [staff]", "/_claim_names/a: [staff]", "25:", "are not fetched"),
            ("keep: { claims: [groups] }", "keep: { bytes: 17KiB }", "12:", "must be"),
            ("keep: { claims: [groups] }", "keep: { claims: [email] }", "25:", "no identity keeps"),
            (
                "inject: [bearer]\n    onMissingSession: login\n    require: { claims: { groups:",
                "redirect: { to: /x }\n    onMissingSession: login\n    require: { claims: { email:", "25:",
                "no identity keeps"
            ),
            ("  company:", "  api:", "7:3", "conflicts with the upstream"),
            ("  company:", "  com.pany:", "7:3", "without dots"),
            ("publicURL: http://localhost:8080", "prefix: /auth", "", "required key missing"),
            ("publicURL: http://localhost:8080", "publicURL: http://app.example.com", "14:14", "https origin"),
            ("publicURL: http://localhost:8080", "publicURL: https://app.example.com/", "14:14", "without a path"),
            ("login: { returnTo: / }", "login: { returnTo: /away }", "15:", "that a route serves"),
            ("login: { returnTo: / }", "identities: [compny]", "15:", "unknown identity \"compny\""),
            ("login: { returnTo: / }", "identities: [company, company]", "15:", "must be unique"),
            ("login: { returnTo: / }", "identities: []", "15:", "must not be empty"),
            ("requiresAuthorization: true", "requiresAuthorization: false", "24:", "has no effect"),
            (
                "requiresAuthorization: true", "requiresAuthorization: false", "25:",
                "conflicts with requiresAuthorization"
            ),
            ("methods: [GET]", "methods: [POST]", "24:", "add GET"),
            ("onMissingSession: login", "onMissingSession: redirect", "24:", "must be one of"),
            ("groups: [staff]", "groups: []", "25:", "must not be empty"),
            ("acr: [\"urn:mfa\"]", "acr: ['a\"b']", "25:", "authentication context"),
            ("acr: [\"urn:mfa\"]", "acr: []", "25:", "must not be empty"),
            ("maxAge: 10m", "maxAge: 0s", "25:", "must be"),
            ("scopes: [openid]", "accessTokens: { clients: [a] }", "", "audience"),
            ("scopes: [openid]", "accessTokens: { audience: [cloakroom] }", "11:", "the audience of ID tokens"),
            ("scopes: [openid]", "accessTokens: { audience: [a], clients: [cloakroom] }", "11:", "have leaked"),
            ("scopes: [openid]", "accessTokens: { audience: [a], types: [jws] }", "11:", "must be one of"),
            ("scopes: [openid]", "accessTokens: { audience: [a], maximumAge: 2d }", "11:", "must be"),
            ("scopes: [openid]", "accessTokens: { audience: [a], dpop: true }", "11:", "must be one of"),
            ("inject: [bearer]", "authorization: either", "23:", "requires an identity with accessTokens"),
            ("inject: [bearer]", "authorization: digest", "23:", "must be one of"),
            // Login cookies contain both names.
            ("  company:", "  \(String(repeating: "n", count: 65)):", "", "at most 64 letters"),
            ("name: page", "name: \(String(repeating: "n", count: 65))", "19:", "at most 64 letters"),
        ])
    func mistakes(piece: String, other: String, place: String, message: String) throws {
        try ConfigFixture.expectError(message, at: place, in: Self.good, replacing: piece, by: other)
    }

    @Test(
        "A path to return to that is none is one error",
        arguments: [("scopes: [openid]", "logout: { returnTo: away }"), ("{ returnTo: / }", "{ returnTo: away }")])
    func malformedPath(piece: String, other: String) throws {
        let errors = try ConfigFixture.valueErrors(in: Self.good, replacing: piece, by: other)
        expect(errors.count, equals: 1, "\(errors)")
    }

    @Test(
        "Identity rule 32: a parameter that the gateway sets or reads cannot be passed on",
        arguments: [
            "client_id: 64", "redirect_uri: 64", "state: [a]", "Nonce: 64", "scope: 64", "response_type: [code]",
            "code_challenge: 64", "acr_values: 64", "request_uri: 64", "returnTo: 64", "foreign: 64",
        ])
    func reservedParameters(entry: String) throws {
        try ConfigFixture.expectError(
            "the gateway sets it (leave it out)", at: "11:", in: Self.good, replacing: "scopes: [openid]",
            by: "passParameters: { \(entry) }")
    }

    @Test("Without identities, a route cannot require claims or a login: it would be open to other sessions")
    func requirementsWithoutIdentities() throws {
        let lines = Self.good.split(separator: "\n", omittingEmptySubsequences: false)
        let without = (lines[..<5] + lines[12...]).joined(separator: "\n")
        let errors = try ConfigFixture(without).valueErrors()
        expect(errors.contains { $0.contains("login requires an identity") }, "\(errors)")
        expect(errors.contains { $0.contains("other sessions have no claims") }, "\(errors)")
    }

    @Test("A sign-in upstream that accounts.identities does not list signs no users in")
    func unlistedUpstream() throws {
        let signIn = Self.good.replacing(
            "upstreams:\n  api:\n", with: "upstreams:\n  api:\n    signIn: { path: /auth }\n")
        try require(signIn != Self.good)
        let both = try ConfigFixture(signIn).load().configuration.accounts
        expect(both.upstream, equals: 0)
        expect(both.signInPath, equals: "/auth/page")
        let listed = signIn.replacing("login: { returnTo: / }", with: "identities: [company]")
        let one = try ConfigFixture(listed).load().configuration.accounts
        expect(one.upstream, equals: nil)
        expect(one.signInPath, equals: "/auth/login")
    }

    @Test("A route can send navigations to the sign-in page of an upstream, without identities")
    func loginAtUpstream() throws {
        func errors(_ name: String, _ more: String = "") throws -> [String] {
            let yaml = ConfigFixture.good.replacing(
                "  - name: \(name)\n", with: "  - name: \(name)\n    onMissingSession: login\n" + more)
            try require(yaml != ConfigFixture.good)
            return try ConfigFixture(yaml).valueErrors()
        }
        try expect(errors("video"), equals: [])
        try expect(
            errors("episodes").map { $0.contains("has no effect with requiresAuthorization: false") }, equals: [true])
    }

    @Test("A route that sends to a login from another host than that of the public URL is warned about")
    func loginHosts() throws {
        func warnings(_ hosts: String, _ signIn: String = "") throws -> [String] {
            let yaml = Self.good.replacing("  - name: page\n", with: "  - name: page\n    hosts: \(hosts)\n")
                .replacing(":9000\"]\n", with: ":9000\"]\n\(signIn)")
            return try ConfigFixture(yaml).load().warnings.map(\.description).filter { $0.contains("login cookie") }
        }
        let found = try warnings("[localhost, a.test]")
        expect(found.map { $0.contains("hosts.1: logins that begin at a.test") }, equals: [true])
        try expect(warnings("[localhost]") == [] && warnings("[]") == [])
        try expect(warnings("[a.test]", "    signIn: { path: /auth }\n"), equals: [])
    }

    @Test("http as public URL conflicts with a cookie that is Secure")
    func publicURLAndCookie() throws {
        let yaml = Self.good.replacing("cookie: { secure: false }", with: "maxSessions: 10")
            .replacing("- address: 127.0.0.1:0", with: "- address: 127.0.0.1:0\n    behindTLSProxy: true")
        let errors = try ConfigFixture(yaml).valueErrors()
        expect(errors.contains { $0.contains("publicURL") && $0.contains("browsers reject the cookie") }, "\(errors)")
    }

    @Test("All keys of an identity, and those that require one, can change while the gateway runs")
    func reload() throws {
        let running = try ConfigFixture(Self.good).load().configuration
        let other = Self.good.replacing("id.example.com", with: "other.example.com")
            .replacing("0123456789-abc", with: "abc-9876543210").replacing("scopes: [openid]", with: "pushed: never")
            .replacing("http://localhost:8080", with: "http://localhost:8081").replacing(
                "maxAge: 10m", with: "maxAge: 1m"
            )
            .replacing("onMissingSession: login", with: "onMissingSession: reject")
        let next = try ConfigFixture(other).load()
        expect(next.configuration != running)
        expect(next.restartRequirements(since: running), equals: [])
    }

    @Test("explain shows what a route requires, and where a navigation without a session goes")
    func explanation() throws {
        let text = try ConfigFixture(Self.good).report { CommandReport.explain($0, method: "GET", target: "/") }.text
        for piece in [
            "without a session a navigation signs in at company, all else gets 401",
            "claim groups in [staff]; otherwise 403 missing_claim",
            "acr in [urn:mfa], authentication at most 10m plus clockSkew ago; otherwise 401 step_up",
        ] {
            expect(text.contains(piece), "\(text)")
        }
    }

    @Test("A client secret is never printed, and the placeholder of the documentation is rejected for other machines")
    func secrets() throws {
        let values = try ConfigFixture(Self.good).load().values
        expect(values.first { $0.key == "identities.company.client.secret" }?.value, equals: "<redacted>")
        expect(!values.contains { $0.value.contains("0123456789-abc") })
        let exposed = Self.good.replacing("127.0.0.1:0", with: "0.0.0.0:0\n    behindTLSProxy: true")
            .replacing("  cookie: { secure: false }", with: "  maxSessions: 10")
            .replacing("http://localhost:8080", with: "https://app.example.com")
            .replacing("0123456789-abc", with: "changeme")
        try expect(ConfigFixture(exposed).valueErrors().contains { $0.contains("placeholder") })
    }
}
