import CloakroomConfig
import Foundation
import TestSupport
import Testing

@Suite("Diagnostics for wide routes")
struct WideRouteRulesTests {
    /// The output of `check-config` for these routes (`METHODS path public|protected|bearer`) with these token calls.
    private static func check(
        _ routes: [String], calls: [String] = ["signIn: { path: /api/v1/login }"], prefix: String = "/session",
        isStrict: Bool = false
    ) throws -> (lines: [String], exitCode: Int32) {
        let yaml = """
            listeners: [{ address: "127.0.0.1:0" }]
            session: { cookie: { secure: false } }
            accounts: { prefix: \(prefix) }
            upstreams:
              api:
                targets: ["http://127.0.0.1:9000"]
                \(calls.joined(separator: "\n    "))
            routes:

            """
            + routes.enumerated().map { index, line in
                let parts = line.split(separator: " ")
                return """
                      - name: r\(index)
                        path: "\(parts[1])"
                        methods: [\(parts[0])]
                        requiresAuthorization: \(parts[2] == "protected")
                        inject: [\(parts.last == "bearer" ? "bearer" : "")]

                    """
            }.joined()
        let directory = try ConfigFixture(yaml)
        let report = directory.report { CommandReport.checkConfig($0, isStrict: isStrict, trial: { _ in [] }) }
        let lines = report.text.replacingOccurrences(of: directory.path + "/", with: "").split(separator: "\n")
        return (lines.map(String.init), report.exitCode)
    }

    private static let calls = [
        "signIn: { path: /auth }", "refresh: { path: /auth/refresh }", "revoke: { path: /auth/revoke }",
        "user: { path: /user }",
    ]

    @Test(
        "Rule 33: a route with the path of a token call is an error",
        arguments: [
            ("/api/v1/login", "signIn: { path: /api/v1/login }", "the signIn call"),
            ("/API/v1/Login/", "signIn: { path: /api/v1/login }", "the signIn call"),
            ("/renew", "refresh: { path: /renew }", "the refresh call"),
            ("/out.", "revoke: { path: /Out }", "the revoke call"),
            ("/me", "signIn: { path: /me }\n    user: { path: /me }", "the signIn call"),
        ])
    func named(path: String, calls: String, call: String) throws {
        let (lines, exitCode) = try Self.check(["GET \(path) public"], calls: calls.components(separatedBy: "\n    "))
        let isSignIn = call == "the signIn call"
        let instead = isSignIn ? "clients sign in at /session" : "the gateway makes this call itself"
        let line = 9 + calls.components(separatedBy: "\n").count
        expect(
            lines,
            equals: [
                "cloakroom.yaml:\(line):11: routes.0.path: \(path) conflicts with \(call) of upstream \"api\""
                    + ", which is never forwarded"
                    + " (remove the route; \(instead))"
            ])
        expect(exitCode, equals: 1)
    }

    @Test("A route with the path of the user call is valid")
    func user() throws {
        for path in ["/user", "/User", "/user/"] {
            let (lines, exitCode) = try Self.check(["GET \(path) protected"], calls: Self.calls, isStrict: true)
            expect(lines, equals: ["cloakroom.yaml: ok (1 route, 1 upstream)"])
            expect(exitCode, equals: 0)
        }
    }

    @Test("A path under the accounts prefix is reported once, even if it is a token call too")
    func once() throws {
        let (lines, _) = try Self.check(["POST /auth/refresh public"], calls: Self.calls, prefix: "/auth")
        expect(lines.count, equals: 1)
        expect(lines.first?.contains("is below /auth, which is reserved for the gateway's own endpoints"), equals: true)
    }

    @Test("A wide route that does not serve the user call is a warning: clients may request it")
    func hiddenUser() throws {
        let (lines, exitCode) = try Self.check(["GET,POST /* public"], calls: Self.calls, isStrict: true)
        expect(
            lines.first,
            equals:
                "cloakroom.yaml:13:11: warning: routes.0.path: /* contains /auth (signIn of api), /auth/refresh (refresh"
                + " of api), /auth/revoke (revoke of api), /user (user of api), which the route does not forward: 404"
                + " (a route that names the path of a user call can serve it)")
        expect(exitCode, equals: 1)
    }

    @Test("Token calls within a wide route are reported in a note, which does not fail --strict")
    func carvedOut() throws {
        let (lines, exitCode) = try Self.check(
            ["GET,POST /* public", "GET /{a}/refresh protected", "GET /user protected"], calls: Self.calls,
            isStrict: true)
        expect(
            lines,
            equals: [
                "cloakroom.yaml:13:11: note: routes.0.path: /* contains /auth (signIn of api), /auth/refresh (refresh of"
                    + " api), /auth/revoke (revoke of api), which the route does not forward: 404",
                "cloakroom.yaml:18:11: note: routes.1.path: /{a}/refresh contains /auth/refresh (refresh of api), which"
                    + " the route does not forward: 404",
                "cloakroom.yaml:19:14: note: routes.1.methods: POST /{a}/refresh is not served: route \"r0\" is less strict"
                    + " than this one (requires authorization) (add a route for it if clients request it)",
                "cloakroom.yaml:24:14: note: routes.2.methods: POST /user is not served: route \"r0\" is less strict"
                    + " than this one (requires authorization) (add a route for it if clients request it)",
                "cloakroom.yaml: ok (3 routes, 1 upstream)",
            ])
        expect(exitCode, equals: 0)
    }

    @Test("A route with files may have the paths of calls: nothing is forwarded, and an app has a page /login")
    func files() throws {
        let yaml =
            ConfigFixture.good.replacing("{ path: /auth }", with: "{ path: /auth }\n    user: { path: /me }")
            + "  - { name: app, path: \"/*\", requiresAuthorization: false, files: { root: /srv/app } }\n"
        let loaded = try ConfigFixture(yaml).load()
        expect(!(loaded.notes + loaded.warnings).contains { $0.message.contains("/auth") }, "\(loaded.notes)")
    }

    @Test("A user call with its own route is not reported for a wide route")
    func servedUser() throws {
        let (lines, _) = try Self.check(["GET /{a} public", "GET /user protected"], calls: Self.calls)
        expect(
            lines.first,
            equals:
                "cloakroom.yaml:13:11: note: routes.0.path: /{a} contains /auth (signIn of api), which the route does not"
                + " forward: 404")
        expect(lines.count, equals: 2)
    }

    @Test("A note reports that /a/* does not serve /a, unless another route serves it")
    func base() throws {
        let (lines, exitCode) = try Self.check(["GET,PUT /files/* protected", "GET /files public"], isStrict: true)
        expect(
            lines,
            equals: [
                "cloakroom.yaml:10:11: note: routes.0.path: /files/* serves /files/ and all paths below it, not /files"
                    + " (add a route for /files if clients request it)",
                "cloakroom.yaml: ok (2 routes, 1 upstream)",
            ])
        expect(exitCode, equals: 0)
        for other in ["GET,PUT /files public", "GET,PUT /{x} protected"] {
            try expect(Self.check(["GET,PUT /files/* protected", other]).lines.count, equals: 1)
        }
    }

    @Test("Notes report the base path and the methods that no route serves because of a stricter one")
    func stricter() throws {
        let (lines, exitCode) = try Self.check(["GET,POST /* public", "GET /admin/* protected"], isStrict: true)
        expect(
            lines.dropFirst(),
            equals: [
                "cloakroom.yaml:15:11: note: routes.1.path: /admin/* serves /admin/ and all paths below it, not /admin"
                    + " (add a route for /admin if clients request it)",
                "cloakroom.yaml:16:14: note: routes.1.methods: POST /admin/* is not served: route \"r0\" is less strict"
                    + " than this one (requires authorization) (add a route for it if clients request it)",
                "cloakroom.yaml: ok (2 routes, 1 upstream)",
            ])
        expect(exitCode, equals: 0)
        let equal = try Self.check(["GET,POST /* protected", "GET /admin/* protected"])
        expect(!equal.lines.contains { $0.contains("routes.1") })
    }

    @Test("Routes that differ only in spelling are a warning if one is stricter")
    func spelling() throws {
        let (lines, exitCode) = try Self.check(["GET /Admin public", "GET /admin/ protected"], isStrict: true)
        expect(
            lines,
            equals: [
                "cloakroom.yaml:10:11: warning: routes.0.path: /Admin differs only in spelling from /admin/ of the stricter"
                    + " route \"r1\" (requires authorization): an upstream may treat both as one path"
                    + " (require the same of both)",
                "cloakroom.yaml: ok (2 routes, 1 upstream, 1 warning)",
            ])
        expect(exitCode, equals: 1)
        for other in ["GET /Admin protected", "GET /admins public", "POST /admin/ public"] {
            try expect(Self.check([other, "GET /admin/ protected"]).lines.count, equals: 1, "\(other)")
        }
    }

    @Test("A public wildcard route with bearer is a warning; a public route of one path is not")
    func bearer() throws {
        let routes = ["GET /episodes public bearer", "GET /e/{id} public bearer", "GET /a/* protected bearer"]
        let (fine, _) = try Self.check(routes)
        expect(!fine.contains { $0.contains("warning") })
        for isStrict in [false, true] {
            let (lines, exitCode) = try Self.check(["GET /x public", "GET /x/* public bearer"], isStrict: isStrict)
            expect(
                lines,
                equals: [
                    "cloakroom.yaml:18:13: warning: routes.1.inject: /x/* is public and injects bearer: a session's token"
                        + " goes to every path that it serves, and requests without a session are forwarded too"
                        + " (require authorization, and list what is public as routes of its own)",
                    "cloakroom.yaml: ok (2 routes, 1 upstream, 1 warning)",
                ])
            expect(exitCode, equals: (isStrict ? 1 : 0))
        }
    }

    @Test("A configuration like the shipped one passes --strict without diagnostics")
    func shipped() throws {
        let directory = try ConfigFixture()
        let report = directory.report { CommandReport.checkConfig($0, isStrict: true, trial: { _ in [] }) }
        expect(report.text.hasSuffix("cloakroom.yaml: ok (2 routes, 2 upstreams)\n"))
        expect(report.exitCode, equals: 0)
    }
}
