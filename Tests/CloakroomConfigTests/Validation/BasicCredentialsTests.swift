import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("authorization: basic, and accounts.basic")
struct BasicCredentialsTests {
    /// - Parameters:
    ///   - route: Members of the route `api`.
    ///   - basic: Members of `accounts.basic`.
    private static func yaml(_ route: String = "requiresAuthorization: true", basic: String = "") -> String {
        """
        \(ConfigFixture.head)
            signIn: { path: /auth }
          other:
            targets: ["http://127.0.0.1:9001"]
        \(ConfigFixture.company)
            accessTokens: { audience: [orders] }
        accounts:
          publicURL: http://localhost:8080
          login: { returnTo: / }
          basic: { \(basic.isEmpty ? "idle: 5m" : basic) }
        session:
          cookie: { secure: false }
        routes:
          - { name: page, methods: [GET], path: /, upstream: api, requiresAuthorization: true }
          - { name: api, methods: [GET], path: /api, \(route.contains("upstream:") ? "" : "upstream: api, ")\(route) }

        """
    }

    @Test("The limits of sign-ins that are kept, and their ranges")
    func values() throws {
        let configuration = try ConfigFixture(Self.yaml()).load().configuration
        expect(configuration.accounts.basic, equals: BasicConfiguration())
        let all = Self.yaml(basic: "idle: 1s, maximum: 1d, entries: 2")
        let other = try ConfigFixture(all).load().configuration.accounts.basic
        expect(other, equals: BasicConfiguration(idle: .seconds(1), maximum: .seconds(86_400), entries: 2))
        for value in ["idle: 0s", "idle: 61m", "maximum: 59s", "maximum: 25h", "entries: 1", "entries: 100001"] {
            let errors = try ConfigFixture(Self.yaml(basic: value)).valueErrors()
            let isReported = errors.contains { $0.contains("accounts.basic.") && $0.contains("must be") }
            expect(isReported, "\(value): \(errors)")
        }
    }

    @Test("One value or a list, in the file, in a flag and in a variable")
    func lists() throws {
        let rows: [(String, RouteCredentials)] = [
            ("basic", .basic), ("[basic]", .basic), ("[session, basic]", [.session, .basic]),
            ("[bearer, basic]", [.bearer, .basic]), ("[session, bearer]", .either),
            ("[session, bearer, basic]", [.session, .bearer, .basic]), ("either", .either), ("pass", .pass),
        ]
        for (text, credentials) in rows {
            let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(text)"))
            try expect(fixture.load().configuration.routes[1].credentials, equals: credentials, "\(text)")
        }
        let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: bearer"))
        let flag = try fixture.load(overrides: [("routes.1.authorization", "session,basic")]).configuration
        expect(flag.routes[1].credentials, equals: [.session, .basic])
        let variable = try fixture.load(environment: ["CLOAKROOM_ROUTES_1_AUTHORIZATION": "basic"]).configuration
        expect(variable.routes[1].credentials, equals: .basic)
    }

    @Test(
        "Rule 139: names and passwords are for the upstream that signs users in, and other mistakes",
        arguments: [
            ("requiresAuthorization: false, authorization: basic", "requires requiresAuthorization: true"),
            ("upstream: other, requiresAuthorization: true, authorization: [session, basic]", "basic requires that"),
            ("requiresAuthorization: true, authorization: basic, onMissingSession: login", "conflicts with basic"),
            ("requiresAuthorization: true, authorization: [basic, pass]", "pass conflicts with others"),
            ("requiresAuthorization: true, authorization: []", "must not be empty"),
            ("requiresAuthorization: true, authorization: digest", "must be one of the allowed values"),
            ("requiresAuthorization: true, authorization: basic, require: { claims: { sub: [a] } }", "never met"),
        ])
    func mistakes(route: String, message: String) throws {
        let errors = try ConfigFixture(Self.yaml(route)).valueErrors()
        expect(errors.contains { $0.contains("routes.1.") && $0.contains(message) }, "\(errors)")
    }

    @Test(
        "The reports show it",
        arguments: [
            ("basic", "Authorization: a name and a password (Basic), to sign in at api", "basic"),
            ("[session, basic]", "sign in at api; without the field the session", "session, basic"),
            ("[bearer, basic]", "company (DPoP optional), or a name and a password (Basic)", "bearer, basic"),
        ])
    func reports(value: String, explanation: String, column: String) throws {
        let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(value)"))
        let explained = fixture.report { CommandReport.explain($0, method: "GET", target: "/api") }.text
        expect(explained.contains(explanation), "\(explained)")
        expect(explained.contains("hop-by-hop fields, Authorization"))
        let routes = fixture.report(CommandReport.routes).text.split(separator: "\n")
        expect(routes.contains { $0.hasSuffix(column) }, "\(routes)")
        let old = try ConfigFixture(Self.yaml()).load().configuration
        let changes = RouteTableDiff(from: old, to: try fixture.load().configuration).changes
        let isReported = changes.contains { $0.kind == .requiresLess && $0.explanation.contains("passwords (Basic)") }
        expect(isReported, "\(changes)")
    }

    @Test("A logged request with a name and a password is replayed with the credentials that routes read")
    func replayed() throws {
        let line = """
            {"logger":"access","method":"GET","path":"/api","route":"api","credential":"basic",\
            "session":"0be95bab328bcd6b","upstream":"api","status":200,"decision":"forwarded","scheme":"http",\
            "host":"localhost:8080"}
            """
        let rows: [(String, String?)] = [
            ("basic", nil), ("[session, basic]", nil), ("bearer", "401, route api accepts no such Authorization"),
            ("pass", "forwarded with Authorization that is not verified, by route api"),
            ("session", "401, route api requires a session"),
        ]
        for (value, verdict) in rows {
            let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(value)"))
            var replay = try Replay(fixture.load().configuration, name: "new")
            replay.read(Array(line.utf8))
            expect(replay.result.groups.first?.now, equals: verdict, "\(value)")
        }
    }

    @Test(
        "Rule 140: `prove` knows that pages of other sites cause requests with names and passwords, which are rejected")
    func statements() throws {
        for (value, credential) in [("[session, basic]", Credential.basic), ("pass", .unverified)] {
            let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(value)"))
            let tables = DecisionTables(try fixture.load().configuration, origins: ["https://evil.test"])
            let route = tables.configuration.routes[1]
            expect(tables.canSend(credential, from: "https://evil.test", .unsafe))
            expect(tables.rejects(.unsafe, credential, from: "https://evil.test", for: route))
            expect(!tables.rejects(.unsafe, .token, from: "https://evil.test", for: route))
        }
    }

    @Test("Rule 146: `prove` knows that no page signs in with a safe method, unless its origin is listed")
    func otherSites() throws {
        let statement = "prove:\n  - { name: api, never: served, paths: [/api], session: true, crossSite: true }\n"
        for (csrf, verdict) in [
            ("", "holds: api\n"), ("csrf: { trustedOrigins: [\"https://shop.example.com\"] }\n", "fails: api\n"),
        ] {
            let yaml = Self.yaml("requiresAuthorization: true, authorization: basic") + csrf + statement
            let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
            expect(report.text.hasPrefix(verdict), "\(report.text)")
        }
    }

    @Test("Rule 139: `prove` knows that a name and a password are enough, also if a route before requires the same")
    func proven() throws {
        let statements = """
            prove:
              - { name: page, never: served, paths: [/], session: false }
              - { name: api, never: served, paths: [/api], session: true }

            """
        let yaml = Self.yaml("requiresAuthorization: true, authorization: basic") + statements
        let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(report.text.contains("holds: page\nfails: api\n"), "\(report.text)")
        expect(report.text.contains("a name and a password at upstream api"), "\(report.text)")
        expect(report.text.contains("'Authorization: Basic TOKEN'"), "\(report.text)")
    }
}
