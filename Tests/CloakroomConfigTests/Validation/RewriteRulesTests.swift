import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

@Suite("Rewriting, redirects and https")
struct RewriteRulesTests {
    /// The valid configuration with keys of its second route, `GET /videos/{id}`; their first line is 23.
    private static func video(_ keys: String..., path: String = "/videos/{id}") -> DiagnosticFixture {
        DiagnosticFixture(
            "    path: /videos/{id}\n",
            "    path: \(path)\n" + keys.map { "    \($0)\n" }.joined())
    }

    /// The valid configuration with keys instead of `upstream`, `requiresAuthorization` and `inject` of its first route,
    /// `GET /episodes`; their first line is 17.
    private static func episodes(_ keys: String...) -> DiagnosticFixture {
        DiagnosticFixture(
            "    upstream: api\n    requiresAuthorization: false\n    inject: [apiToken]\n",
            keys.map { "    \($0)\n" }.joined())
    }

    /// The valid configuration with one change.
    struct DiagnosticFixture: Sendable, CustomTestStringConvertible {
        let piece: String
        let change: String
        /// The line about it.
        private(set) var line = ""

        init(_ piece: String, _ change: String) {
            self.piece = piece
            self.change = change
        }

        var testDescription: String { change }

        var yaml: String { ConfigFixture.good.replacing(piece, with: change, maxReplacements: 1) }

        /// The same with the line that is expected.
        func reports(_ line: String) -> Self {
            var fixture = self
            fixture.line = line
            return fixture
        }

        func load() throws -> GatewayConfiguration { try ConfigFixture(yaml).load().configuration }
    }

    private static let rewriting: [DiagnosticFixture] = [
        video("stripPrefix: /video").reports(
            "23:18: routes.1.stripPrefix: must be leading segments of the path, not \"/video\" (write /videos)"),
        video("stripPrefix: /a", path: "/{id}").reports(
            "23:18: routes.1.stripPrefix: must be leading segments of the path, not \"/a\" (leave it out)"),
        video("addPrefix: \"/{id}\"").reports(
            "23:16: routes.1.addPrefix: must be a path without parameters and wildcards, not \"/{id}\""
                + " (write a plain path such as /auth)"),
        video("stripPrefix: /videos", "forwardAs: /v2").reports(
            "23:18: routes.1.stripPrefix: conflicts with forwardAs (keep one of the two)"),
        video("forwardAs: /v2/{slug}").reports(
            "23:16: routes.1.forwardAs: must use names of the path: {slug} is not in /videos/{id} (write {id})"),
        video("forwardAs: /v2/{slug}", path: "/videos").reports(
            "23:16: routes.1.forwardAs: must use names of the path: {slug} is not in /videos (write a literal)"),
        video("forwardAs: /v2/*").reports(
            "23:16: routes.1.forwardAs: must use names of the path: * is not in /videos/{id} (write {id})"),
        video("forwardAs: /a/../b").reports(
            "23:16: routes.1.forwardAs: \"..\" can never match (remove dot segments)"),
        video("forwardAs: /a//b").reports(
            "23:16: routes.1.forwardAs: an empty segment can never match (write a single slash)"),
        video("stripPrefix: /").reports("23:18: routes.1.stripPrefix: must have a segment, not \"/\" (leave it out)"),
        video("addPrefix: /").reports("23:16: routes.1.addPrefix: must have a segment, not \"/\" (leave it out)"),
        video("cookiePaths: keep").reports(
            "23:18: routes.1.cookiePaths: conflicts with the route: no key of it changes the path (leave it out)"),
        video("forwardAs: /Auth").reports(
            "23:16: routes.1.forwardAs: /Auth conflicts with the signIn call of upstream \"api\", which is never"
                + " forwarded (remove the route; clients sign in at /auth)"),
        video("stripPrefix: /videos", path: "/videos/auth").reports(
            "23:18: routes.1.stripPrefix: /auth conflicts with the signIn call of upstream \"api\", which is never"
                + " forwarded (remove the route; clients sign in at /auth)"),
    ]

    private static let redirects: [DiagnosticFixture] = [
        episodes("redirect: { to: //x }").reports(
            "17:21: routes.0.redirect.to: must be a path, or https:// and a host, not \"//x\""
                + " (write such as /orders/{id} or https://shop.example.com/orders/{id})"),
        episodes("redirect: { to: \"http://x.example/\" }").reports(
            "17:21: routes.0.redirect.to: must be a path, or https:// and a host, not \"http://x.example/\""
                + " (write such as /orders/{id} or https://shop.example.com/orders/{id})"),
        episodes("redirect: { to: \"https://u:p@x.example/\" }").reports(
            "17:21: routes.0.redirect.to: must be an origin without user and password"
                + " (write one such as https://app.example.com, or with a port https://localhost:3000)"),
        episodes("redirect: { to: \"/a/{id}\" }").reports(
            "17:21: routes.0.redirect.to: must use names of the path: {id} is not in /episodes (write a literal)"),
        episodes("redirect: { to: /a, status: 300 }").reports(
            "17:33: routes.0.redirect.status: must be one of the allowed values, not \"300\""
                + " (write 301, 302, 303, 307 or 308)"),
        episodes("redirect: { to: /a, query: no }").reports(
            "17:32: routes.0.redirect.query: must be one of the allowed values, not \"no\" (write keep or drop)"),
        episodes("redirect: { status: 302 }").reports("17:5: routes.0.redirect.to: required key missing (write it)"),
        episodes("redirect: /a").reports(
            "17:5: routes.0.redirect: must be a section of keys, not one value (write { to: /a })"),
        episodes("redirect: { to: /episodes }").reports(
            "17:21: routes.0.redirect.to: conflicts with its own path: a loop (redirect to another path)"),
        episodes("upstream: api", "redirect: { to: /a }").reports(
            "17:15: routes.0.upstream: conflicts with redirect: nothing is forwarded (remove one of the two)"),
        episodes("stripPrefix: /episodes", "redirect: { to: /a }").reports(
            "17:18: routes.0.stripPrefix: conflicts with redirect: nothing is forwarded (remove one of the two)"),
        episodes("websocket: true", "redirect: { to: /a }").reports(
            "17:16: routes.0.websocket: conflicts with redirect: nothing is forwarded (remove one of the two)"),
    ]

    private static func listener(_ keys: String) -> DiagnosticFixture {
        DiagnosticFixture("address: 127.0.0.1:0\n", "address: 127.0.0.1:0\n" + keys)
    }

    private static let https: [DiagnosticFixture] = [
        listener("    redirectToHTTPS: 0\n").reports(
            "3:22: listeners.0.redirectToHTTPS: must be in the allowed range, not 0 (write 1 to 65535)"),
        listener("    redirectToHTTPS: 443\n").reports(
            "3:22: listeners.0.redirectToHTTPS: conflicts with listeners: none has tls (add tls to another listener)"),
        listener("    behindTLSProxy: true\n    redirectToHTTPS: 443\n").and("{ secure: false }", "{}").reports(
            "4:22: listeners.0.redirectToHTTPS: conflicts with behindTLSProxy (remove one of the two)"),
        listener(
            "    redirectToHTTPS: 443\n  - address: 127.0.0.1:1\n    behindTLSProxy: true\n"
        ).and("{ secure: false }", "{}").reports(
            "3:22: listeners.0.redirectToHTTPS: requires accounts.publicURL or hosts: only requests for them are redirected"
                + " (write accounts.publicURL, such as https://app.example.com)"),
        listener(
            "    redirectToHTTPS: 443\n    hosts: [a.test]\n  - address: 127.0.0.1:1\n    behindTLSProxy: true\n"
        ).and("{ secure: false }", "{}").reports(
            "3:22: listeners.0.redirectToHTTPS: conflicts with hosts: it redirects every host that is served"
                + " (keep one of the two)"),
    ]

    @Test("A wrong value is one line with its place and a remedy", arguments: rewriting + redirects + https)
    func diagnostics(_ fixture: DiagnosticFixture) throws {
        try expect(ConfigFixture(fixture.yaml).valueErrors(), equals: ["cloakroom.yaml:" + fixture.line])
    }

    @Test("A redirect that requires a session needs a sign-in")
    func redirectWithoutSignIn() throws {
        let fixture = Self.episodes("redirect: { to: /a }", "requiresAuthorization: true")
        try expect(empty: ConfigFixture(fixture.yaml).valueErrors())
        let errors = try ConfigFixture(fixture.and("    signIn: { path: /auth }\n", "").yaml).valueErrors()
        expect(
            errors.contains {
                $0.contains("routes.0.requiresAuthorization: requires a session, but no upstream defines signIn")
            }, "\(errors)")
    }

    @Test(
        "A redirect that leads back to its own path is a loop, and one that ends is none",
        arguments: [
            ("/one/a/b", "/two", false), ("/one/{id}", "/one/{id}", true), ("/one/{id}", "/two/{id}", false),
            ("/one/*", "/one/a", true), ("/one/{id}", "/one/end", false), ("/one", "/two/a/one", true),
            ("/one", "/two/a/three", false), ("/one/*", "https://far.example/one/*", false),
            // Each request gets another target, and some of them end.
            ("/one/{id}/*", "/one/*", false),
        ])
    func loop(_ path: String, _ target: String, _ isLoop: Bool) throws {
        let yaml =
            ConfigFixture.good + """
                  - { name: one, path: "\(path)", redirect: { to: "\(target)" } }
                  - { name: two, path: "/two/{a}/{b}", redirect: { to: "/{b}" } }
                  - { name: end, methods: [GET], path: /one/end, upstream: api, requiresAuthorization: false }

                """
        let errors = try ConfigFixture(yaml).valueErrors()
        expect(errors.count, equals: (isLoop ? 1 : 0), "\(errors)")
        let message = "routes.2.redirect.to: conflicts with its own path: a loop (redirect to another path)"
        expect(errors.allSatisfy { $0.hasSuffix(message) }, "\(errors)")
    }

    private static func rewrite(_ keys: String..., path: String) throws -> PathRewrite? {
        let change = "    path: \(path)\n" + keys.map { "    \($0)\n" }.joined()
        return try DiagnosticFixture("    path: /videos/{id}\n", change).load().routes[1].rewrite
    }

    @Test("The sent path is made of prefixes or of a pattern")
    func patterns() throws {
        let pattern = { (rewrite: PathRewrite?) in rewrite?.pattern.description }
        try expect(pattern(Self.rewrite("stripPrefix: /v", path: "/v/{id}/*")), equals: "/{id}/*")
        try expect(pattern(Self.rewrite("stripPrefix: /v/w", path: "/v/w")), equals: "/")
        try expect(pattern(Self.rewrite("stripPrefix: /v/", "addPrefix: /a/", path: "/v/w")), equals: "/a/w")
        try expect(pattern(Self.rewrite("stripPrefix: /v", "addPrefix: /a/b", path: "/v/*")), equals: "/a/b/*")
        try expect(pattern(Self.rewrite("addPrefix: /a", path: "/{id}")), equals: "/a/{id}")
        try expect(pattern(Self.rewrite("forwardAs: /a/{id}", path: "/v/{id}/*")), equals: "/a/{id}")
        try expect(Self.rewrite("addPrefix: /a", path: "/v")?.keepsCookiePaths, equals: false)
        try expect(Self.rewrite("addPrefix: /a", "cookiePaths: keep", path: "/v")?.keepsCookiePaths, equals: true)
        try expect(Self.rewrite(path: "/v"), equals: nil)
    }

    @Test("A redirect is public and serves GET by default")
    func redirectDefaults() throws {
        let route = try Self.episodes("redirect: { to: \"https://Shop.example.com/e\" }").load().routes[0]
        expect(route.redirect?.target, equals: "https://shop.example.com/e")
        expect(route.redirect?.status, equals: 308)
        expect(route.redirect?.keepsQuery, equals: true)
        expect(!route.requiresAuthorization)
        let bare = ConfigFixture.good.replacing("    methods: [GET]\n    path: /episodes", with: "    path: /episodes")
        let other = try ConfigFixture(
            bare.replacing(
                "    upstream: api\n    requiresAuthorization: false\n    inject: [apiToken]\n",
                with: "    redirect: { to: /, status: 302, query: drop }\n", maxReplacements: 1)
        ).load().configuration.routes[0]
        expect(other.methods, equals: ["GET"])
        expect(other.redirect?.target, equals: "/")
        expect(other.redirect?.status, equals: 302)
        expect(other.redirect?.keepsQuery, equals: false)
    }

    @Test("A clear-text listener that only redirects needs no exception for cookies")
    func redirectToHTTPS() throws {
        let yaml = ConfigFixture.good.replacing(
            "address: 127.0.0.1:0\n",
            with:
                "address: 127.0.0.1:80\n    redirectToHTTPS: 443\n  - address: 127.0.0.1:81\n    behindTLSProxy: true\n"
                + "accounts: { publicURL: \"https://app.example.com\" }\n"
        ).replacing("{ secure: false }", with: "{}")
        let config = try ConfigFixture(yaml).load()
        expect(config.configuration.listeners.map(\.redirectToHTTPS), equals: [443, nil])
        expect(empty: config.warnings)
        let other = try ConfigFixture(yaml.replacing("443", with: "8443")).load()
        expect(empty: other.restartRequirements(since: config.configuration))
    }

    @Test("check-config notes token calls to which a rewriting route does not forward")
    func notes() throws {
        let yaml =
            ConfigFixture.good
            + "  - { name: x, methods: [GET], path: /x/*, upstream: api, requiresAuthorization: false, stripPrefix: /x }\n"
        let notes = try ConfigFixture(yaml).load().notes.map(\.message)
        expect(
            notes.contains("/* contains /auth (signIn of api), which the route does not forward: 404"), "\(notes)")
    }

    @Test("check-config notes a user call that a route serves for more than one path")
    func userCalls() throws {
        let note = { (path: String) in
            "\(path) serves the user call of upstream \"api\", /user, for all paths that it matches"
        }
        for (path, isNoted) in [("/x/*", true), ("/x/{id}", true), ("/x", false)] {
            let yaml =
                ConfigFixture.good.replacing(
                    "    signIn: { path: /auth }\n", with: "    signIn: { path: /auth }\n    user: { path: /user }\n")
                + "  - { name: x, methods: [GET], path: \"\(path)\", upstream: api, requiresAuthorization: false, "
                + "forwardAs: /user }\n"
            let notes = try ConfigFixture(yaml).load().notes.map(\.message)
            expect(notes.contains { $0.hasPrefix(note(path)) }, equals: isNoted, "\(path): \(notes)")
        }
    }

    // MARK: - Reports

    private static let old =
        ConfigFixture.good + """
              - { name: x, methods: [GET], path: /x/*, upstream: api, requiresAuthorization: false, stripPrefix: /x }
              - { name: old, path: "/old/{id}", redirect: { to: "/videos/{id}" } }

            """ + #"  - { name: two, methods: [GET], path: "/s/{a}/{b}", forwardAs: "/{a}/{b}", upstream: api, "#
        + "requiresAuthorization: false }\n"

    private static func explain(_ target: String) throws -> [String] {
        try ConfigFixture(old).report { CommandReport.explain($0, method: "GET", target: target) }.rows
    }

    @Test("explain shows what is sent, what comes back, and where a redirect leads")
    func explanation() throws {
        let lines = try Self.explain("/x/a/%62?c")
        expect(lines.contains("sends: GET /a/b?c"), "\(lines)")
        expect(lines.contains("rewrites back: / to /x/ in references and cookie paths"), "\(lines)")
        expect(lines.contains { $0.hasPrefix("injects:") && $0.hasSuffix("X-Forwarded-Prefix: /x") }, "\(lines)")
        try expect(
            Self.explain("/x/Auth"),
            equals: [
                "GET /x/Auth",
                "response: 404: token call path of upstream api (signIn /auth), never forwarded",
            ])
        try expect(
            Self.explain("/old/7?a"),
            equals: [
                "GET /old/7?a", "route: old (GET /old/{id})", "authorization: not required",
                "redirects: 308 to /videos/7?a",
            ])
    }

    @Test("routes shows the upstream with the sent path, or the target")
    func routes() throws {
        let lines = try ConfigFixture(Self.old).report { CommandReport.routes($0) }.rows
        expect(lines.contains("x GET /x/* api /* public -"), "\(lines)")
        expect(lines.contains("old GET /old/{id} → /videos/{id} public -"), "\(lines)")
    }

    @Test(
        "routes --diff compares what upstreams receive",
        arguments: [
            (
                "stripPrefix: /x", "forwardAs: /y/*",
                "forwarded elsewhere GET /x/* x, to api /y/*, was api /*", 3
            ),
            (
                "forwardAs: \"/{a}/{b}\"", "forwardAs: \"/{b}/{a}\"",
                "forwarded elsewhere GET /s/{a}/{b} two, to api /{b}/{a}, was api /{a}/{b}", 3
            ),
            (
                "stripPrefix: /x", "cookiePaths: rewrite, stripPrefix: /x", "no change", 0
            ),
            (
                "path: /x/*, upstream: api", "path: /x/*, upstream: other",
                "forwarded elsewhere GET /x/* x, to other /*, was api /*", 3
            ),
            ("to: \"/videos/{id}\"", "to: /videos", "redirected GET /old/{id} old, → /videos", 0),
            (
                "redirect: { to: \"/videos/{id}\" }",
                "methods: [GET], upstream: api, requiresAuthorization: false", "added public GET /old/{id} old", 3
            ),
            (
                "/videos/{id}\" } }", "/videos/{id}\" }, requiresAuthorization: true }",
                "became protected GET /old/{id} old", 0
            ),
            (
                "\"/s/{a}/{b}\", forwardAs: \"/{a}/{b}\"", "\"/s/{c}/{d}\", forwardAs: \"/{c}/{d}\"", "no change", 0
            ),
            (
                "\"/s/{a}/{b}\", forwardAs: \"/{a}/{b}\"", "\"/s/{c}/{d}\", forwardAs: \"/{d}/{c}\"",
                "forwarded elsewhere GET /s/{c}/{d} two, to api /{d}/{c}, was api /{a}/{b}", 3
            ),
            (
                "upstream: api, requiresAuthorization: false, stripPrefix: /x", "redirect: { to: /y/* }",
                "redirected GET /x/* x, → /y/*", 0
            ),
        ] as [(String, String, String, Int32)])
    func difference(_ piece: String, _ change: String, _ line: String, _ exitCode: Int32) throws {
        try Self.compare(Self.old, Self.old.replacing(piece, with: change), line, exitCode)
    }

    @Test(
        "routes --diff compares what redirects require",
        arguments: [
            ("redirect: { to: \"/videos/{id}\" } }", "became public GET /old/{id} old", 3),
            (
                "methods: [GET], upstream: api, requiresAuthorization: true }",
                "added GET /old/{id} old, requires authorization", 0
            ),
            (
                "methods: [GET], upstream: api, requiresAuthorization: false }", "added public GET /old/{id} old", 3
            ),
        ] as [(String, String, Int32)])
    func protectedRedirect(_ change: String, _ line: String, _ exitCode: Int32) throws {
        let old = "redirect: { to: \"/videos/{id}\" }, requiresAuthorization: true }"
        func yaml(_ keys: String) -> String {
            Self.old.replacing("redirect: { to: \"/videos/{id}\" } }", with: keys)
        }
        try Self.compare(yaml(old), yaml(change), line, exitCode)
    }

    private static func compare(_ old: String, _ new: String, _ line: String, _ exitCode: Int32) throws {
        let report = try ConfigFixture(new).changes(since: ConfigFixture(old))
        expect(report.rows, equals: [line])
        expect(report.exitCode, equals: exitCode)
    }
}

extension RewriteRulesTests.DiagnosticFixture {
    /// The same with another change after it.
    fileprivate func and(_ piece: String, _ other: String) -> Self {
        let all = yaml.replacing(piece, with: other)
        return Self(ConfigFixture.good, all)
    }
}
