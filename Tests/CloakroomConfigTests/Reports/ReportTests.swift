import CloakroomConfig
import Foundation
import TestSupport
import Testing

@Suite struct ReportTests {
    @Test func fiveValueErrorsAreFiveLines() throws {
        let yaml = ConfigFixture.good
            .replacingOccurrences(of: "15m", with: "15")
            .replacingOccurrences(of: "/episodes", with: "episodes")
            .replacingOccurrences(of: "name: video", with: "nmae: video")
            .replacingOccurrences(
                of: "upstream: api\n    requiresAuthorization: true",
                with: "upstream: apo\n    requiresAuthorization: tru")
        let report = try ConfigFixture(yaml).report { .checkConfig($0) }
        expect(report.exitCode, equals: 1)
        expect(report.text.split(separator: "\n").count, equals: 5, "\(report.text)")
    }

    @Test func errorsAndWarningsAreReportedTogether() throws {
        let yaml = ConfigFixture.good.replacing("15m", with: "15").replacing(
            "methods: [GET]\n    path: /videos", with: "methods: [GET, GETT]\n    path: /videos")
        let directory = try ConfigFixture(yaml)
        let report = directory.report { .checkConfig($0) }
        expect(report.exitCode, equals: 1)
        let lines = report.text.replacing(directory.path + "/", with: "").split(separator: "\n").map(String.init)
        expect(lines.count, equals: 2, "\(report.text)")
        expect(lines.first?.hasPrefix("cloakroom.yaml:11:16: session.idleTimeout: must be a duration"), equals: true)
        expect(
            lines.last,
            equals: "cloakroom.yaml:21:20: warning: routes.1.methods.1: \"GETT\" is not a registered method"
                + " (did you mean GET?)")
    }

    @Test func aConfigurationWithoutRoutesIsWarnedAbout() throws {
        let head = try require(ConfigFixture.good.firstRange(of: "routes:\n"))
        let yaml = String(ConfigFixture.good[..<head.lowerBound])
        for (text, place) in [(yaml, ""), (yaml + "routes: []\n", "13:1:")] {
            let directory = try ConfigFixture(text)
            let lines = directory.report { .checkConfig($0) }.text.replacing(directory.path + "/", with: "")
            let start = "cloakroom.yaml:\(place) warning: routes: no route: every request gets 404"
            expect(lines.hasPrefix(start), "\(lines)")
            expect(lines.hasSuffix("cloakroom.yaml: ok (0 routes, 2 upstreams, 1 warning)\n"), "\(lines)")
        }
        // A misspelled key is one error.
        let misspelled = try ConfigFixture(yaml + "route: []\n").report { .checkConfig($0) }.text
        expect(misspelled.split(separator: "\n").count, equals: 1, "\(misspelled)")
    }

    @Test func aByteOrderMarkAtTheStartIsIgnored() throws {
        let good = try ConfigFixture("\u{FEFF}" + ConfigFixture.good).report { .checkConfig($0) }
        expect(good.text.hasSuffix(": ok (2 routes, 2 upstreams)\n"), "\(good.text)")
        let bad = try ConfigFixture("\u{FEFF}" + ConfigFixture.good.replacing("listeners:", with: "listener:"))
        expect(bad.valueErrors(), equals: ["cloakroom.yaml:1:1: listener: unknown key (did you mean \"listeners\"?)"])
    }

    @Test func aGoodFileIsOneLine() throws {
        let directory = try ConfigFixture()
        let report = CommandReport.checkConfig(directory.sources())
        expect(report.text, equals: "\(directory.path)/cloakroom.yaml: ok (2 routes, 2 upstreams)\n")
        expect(report.exitCode, equals: 0)
    }

    @Test func theEffectiveValuesComeWithTheirOrigins() throws {
        let directory = try ConfigFixture()
        let sources = directory.sources(
            environment: ["CLOAKROOM_ADMIN_ENABLED": "true"], overrides: [("eventLoops", "3")])
        let report = CommandReport.printConfig(sources)
        let lines = report.text.replacingOccurrences(of: directory.path + "/", with: "").split(separator: "\n").map {
            $0.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
        }
        expect(lines.first, equals: "KEY VALUE ORIGIN")
        expect(lines.contains("listeners.0.address 127.0.0.1:0 cloakroom.yaml:2:14"))
        expect(lines.contains("admin.enabled true environment CLOAKROOM_ADMIN_ENABLED"))
        expect(lines.contains("upstreams.api.apiToken.header X-API-TOKEN default"))
        expect(lines.contains("upstreams.api.apiToken.value <redacted> cloakroom.yaml:6:24"))
        expect(lines.contains("limits.head 16KiB default"))
        expect(lines.contains("routes.1.inject [apiToken, bearer] cloakroom.yaml:25:13"))
        expect(lines.contains("eventLoops 3 --set"))
        expect(!lines.contains { $0.hasPrefix("upstreams.other.signIn") })
        expect(report, equals: CommandReport.printConfig(sources))
    }

    @Test func theRouteTableIsListedInTheOrderOfTheFile() throws {
        try expect(
            ConfigFixture().report { CommandReport.routes($0) }.text,
            equals: """
                NAME      METHODS          PATH                 TARGET  AUTHORIZATION  INJECTS
                episodes  GET              /episodes            api     public         apiToken
                video     GET              /videos/{id}         api     required       apiToken,bearer
                (local)   POST,GET,DELETE  /auth                -       -              -
                (local)   GET,DELETE       /auth/sessions       -       -              -
                (local)   DELETE           /auth/sessions/{id}  -       -              -

                """)
    }

    @Test func aForwardedRequestIsExplained() throws {
        let report = try ConfigFixture().report {
            CommandReport.explain($0, method: "GET", target: "/videos/%34%32?p=/episodes")
        }
        expect(
            report.text,
            equals: """
                GET /videos/%34%32?p=/episodes
                  route:          video (GET /videos/{id})
                  authorization:  required; without a session 401 "You need to be signed in."
                  strips:         hop-by-hop fields, Authorization, X-API-TOKEN, cookie cloakroom, Forwarded and X-Forwarded-*, fields that name another method, path, address or user
                  injects:        X-API-TOKEN: <redacted>, Authorization: Bearer <redacted>
                  upstream:       api at http://127.0.0.1:9000
                  sends:          GET /videos/42?p=/episodes
                  host:           the client's
                  protocol:       HTTP/1.1
                  balance:        of two random candidates the one with the lower time to the response head times load (half-life 4s)
                  candidate:      http://127.0.0.1:9000
                  health:         no active checks
                  ejection:       after 5 failures in a row or 50 % of at least 20 requests failed in 10s; for 10s, later up to 5m; at most 50 % of the targets
                  retry:          up to 2 after connect, up to 1 after refused, stale, reset; at most 10 % of all requests and 3 per second

                """)
        expect(report.exitCode, equals: 0)
    }

    @Test(arguments: [
        ("GET", "/nothing", "404: no route serves /nothing"),
        ("POST", "/episodes", "405, Allow: GET, HEAD"),
        ("get", "/episodes", "405, Allow: GET, HEAD (methods are case-sensitive: GET is another one)"),
        ("POST", "/auth", "local response: sign in"),
        ("DELETE", "/auth", "local response: sign out"),
        ("GET", "/auth/sessions", "local response: list the user's sessions"),
        ("DELETE", "/auth/sessions", "local response: end the user's other sessions"),
        ("DELETE", "/auth/sessions/0123456789abcdef", "local response: end one of the user's sessions"),
        ("GET", "/videos/../user", "400: the path holds a dot segment or an encoded dot"),
        ("GET", "/videos//1", "400: the path holds two slashes in a row"),
        ("GET", "/videos/1#x", "400: the target holds a # or %23"),
        ("GET", "/videos%2f1", "400: the path holds a backslash, a semicolon, a NUL or an encoded slash"),
        (
            "GET", "/videos/{id}",
            "400: the target holds a space, a control character, one of \"<>^`{}, or one that is not ASCII"
        ),
        ("GET", "videos", "400: the target must be a path, an http URL or *"),
        ("OPTIONS", "*", "local response (OPTIONS *)"),
        ("G T", "/", "400: the method is not a token"),
    ])
    func aRequestThatIsNotForwardedIsExplained(_ method: String, _ target: String, _ response: String) throws {
        let report = try ConfigFixture().report { CommandReport.explain($0, method: method, target: target) }
        expect(report.text, equals: "\(method) \(target)\n  response:  \(response)\n")
        expect(report.exitCode, equals: 0)
    }

    @Test(
        "explain reports why a route that matches does not serve a request",
        arguments: [
            (
                "GET", "/Admin/x",
                "404: route all does not serve it: admin is stricter (requires authorization), and the path may be one of /admin/*"
            ),
            (
                "POST", "/admin/x",
                "405, Allow: GET, HEAD (route all does not serve it: admin is stricter (requires authorization), and the path may be one of /admin/*)"
            ),
            (
                "GET", "/x/%252e%252e/admin/x",
                "404: route all does not serve it: the path leads to its parent for servers that decode it again"
            ),
        ])
    func whyAMatchIsWithheld(_ method: String, _ target: String, _ response: String) throws {
        let yaml =
            ConfigFixture.good
                + """
                  - { name: all, methods: [GET, POST], path: /*, upstream: api, requiresAuthorization: false }
                  - { name: admin, methods: [GET], path: /admin/*, upstream: api, requiresAuthorization: true }

                """
        let report = try ConfigFixture(yaml).report { CommandReport.explain($0, method: method, target: target) }
        expect(report.text, equals: "\(method) \(target)\n  response:  \(response)\n")
    }

    @Test("explain shows that a bracket is forwarded percent-encoded")
    func brackets() throws {
        let report = try ConfigFixture().report { CommandReport.explain($0, method: "GET", target: "/videos/[1]") }
        expect(report.text.contains("GET /videos/%5B1%5D\n"))
    }

    @Test(
        "Rule 33: explain reports that a path is a token call, and its upstream",
        arguments: [
            ("POST", "/auth", "token call path of upstream api (signIn /auth), never forwarded"),
            ("GET", "/Auth%20", "token call path of upstream api (signIn /auth), never forwarded"),
            ("GET", "/AUTH/renew/", "token call path of upstream api (refresh /auth/renew), never forwarded"),
            ("GET", "/me", "user call path of upstream other (user /me), forwarded only by a route that names it"),
            ("GET", "/nothing/", "no route serves /nothing/"),
            ("GET", "/files", "no route serves /files (route files serves /files/ and all paths below it)"),
            ("GET", "/x/files", "no route serves /x/files"),
            ("PUT", "/files", "no route serves /files"),
        ])
    func whyNothingIsServed(_ method: String, _ target: String, _ reason: String) throws {
        let yaml =
            ConfigFixture.good
            .replacingOccurrences(
                of: "signIn: { path: /auth }", with: "signIn: { path: /auth }\n    refresh: { path: /auth/renew }"
            )
            .replacingOccurrences(of: ":9001\"]\n", with: ":9001\"]\n    user: { path: /me }\n")
            .replacingOccurrences(of: "session:\n", with: "accounts: { prefix: /session }\nsession:\n")
                + """
                  - { name: files, methods: [GET], path: /files/*, upstream: api, requiresAuthorization: true }
                  - { name: one, methods: [GET, POST], path: "/{x}", upstream: api, requiresAuthorization: false }

                """
        let isOne = target == "/files" && method == "GET"
        let report = try ConfigFixture(isOne ? yaml.replacingOccurrences(of: "\"/{x}\"", with: "/one") : yaml).report {
            CommandReport.explain($0, method: method, target: target)
        }
        let wanted = method == "PUT" ? "405, Allow: GET, HEAD, POST" : "404: \(reason)"
        expect(report.text, equals: "\(method) \(target)\n  response:  \(wanted)\n")
    }
}
