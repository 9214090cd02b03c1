import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The route table")
struct RouteTableTests {
    private static let noAccounts = AccountsConfiguration(upstream: nil)

    private func route(_ methods: String, _ path: String) throws -> Route {
        Route(
            name: "\(methods) \(path)", methods: methods.split(separator: ",").map(String.init),
            pattern: try PathPattern(path), requiresAuthorization: true)
    }

    private func table(_ lines: [String], accounts: AccountsConfiguration = noAccounts) throws -> RouteTable {
        let routes = try lines.map { line in
            let parts = line.split(separator: " ")
            return try route(String(parts[0]), String(parts[1]))
        }
        return RouteTable(routes: routes, accounts: accounts, upstreams: [])
    }

    private func match(_ table: RouteTable, _ method: String, _ path: String) -> String {
        table.answer(method, path: Array(path.utf8))
    }

    private static let lines = [
        "GET /", "GET,POST /episodes", "GET /videos/{id}", "PUT /videos/new", "GET /videos/new/{part}",
        "DELETE /videos/{id}/{part}", "GET /files/*", "GET /files/{name}", "GET /files/index/", "POST /*",
        "REPORT /report",
    ]

    private static let expectations: [(String, String, String)] = [
        ("GET", "/", "GET /"),
        ("GET", "/episodes", "GET,POST /episodes"),
        ("POST", "/episodes", "GET,POST /episodes"),
        ("HEAD", "/episodes", "GET,POST /episodes"),
        ("GET", "/episodes/", "405 POST"),
        ("GET", "/Episodes", "405 POST"),
        ("get", "/episodes", "405 GET, HEAD, POST"),
        ("DELETE", "/episodes", "405 GET, HEAD, POST"),
        ("BREW", "/episodes", "405 GET, HEAD, POST"),
        ("", "/episodes", "405 GET, HEAD, POST"),
        ("GET", "/videos/1", "GET /videos/{id}"),
        ("GET", "/videos/new", "GET /videos/{id}"),
        ("PUT", "/videos/new", "PUT /videos/new"),
        ("PUT", "/videos/1", "405 GET, HEAD, POST"),
        ("PATCH", "/videos/new", "405 GET, HEAD, POST, PUT"),
        ("GET", "/videos/", "405 POST"),
        ("GET", "/videos/new/a", "GET /videos/new/{part}"),
        ("DELETE", "/videos/new/a", "DELETE /videos/{id}/{part}"),
        ("GET", "/videos/1/a", "405 POST, DELETE"),
        ("GET", "/files/a", "GET /files/{name}"),
        ("GET", "/files/a/b", "GET /files/*"),
        ("GET", "/files/a/", "GET /files/*"),
        ("GET", "/files/index/", "GET /files/index/"),
        ("GET", "/files/index", "GET /files/{name}"),
        ("GET", "/files/", "GET /files/*"),
        ("GET", "/files", "405 POST"),
        ("POST", "/anything/at/all", "POST /*"),
        ("POST", "/files/a", "POST /*"),
        ("POST", "/", "POST /*"),
        ("REPORT", "/report", "REPORT /report"),
        ("GET", "/report", "405 POST, REPORT"),
        ("GET", "", "404"),
        ("GET", "episodes", "404"),
    ]

    @Test("Path and method select the most specific route, regardless of the order of the routes")
    func precedence() throws {
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<40 {
            let table = try table(Self.lines.shuffled(using: &generator))
            for (method, path, expected) in Self.expectations {
                expect(match(table, method, path), equals: expected, "\(method) \(path)")
            }
        }
    }

    @Test("Rule 27: paths and methods that match no route are never forwarded")
    func unlisted() throws {
        let table = try table(["GET /episodes", "GET /videos/{id}"])
        for path in [
            "/", "/a", "/episodes/", "/episodes/1", "/episode", "/episodess", "/videos", "/videos/", "/videos/1/2",
        ] {
            expect(match(table, "GET", path), equals: "404", "\(path)")
        }
        expect(match(table, "POST", "/videos/1"), equals: "405 GET, HEAD")
        expect(match(try self.table([]), "GET", "/"), equals: "404")
    }

    @Test("An explicit HEAD route takes precedence over the HEAD of a GET route")
    func ownHead() throws {
        let table = try table(["GET /{a}", "HEAD /a"])
        expect(match(table, "HEAD", "/a"), equals: "HEAD /a")
        expect(match(table, "HEAD", "/b"), equals: "GET /{a}")
        expect(match(table, "GET", "/a"), equals: "GET /{a}")
    }

    @Test("The gateway's own endpoints are at their prefix", arguments: ["/auth", "/api/v1/session"])
    func accountEndpoints(prefix: String) throws {
        let table = try table(["GET /a"], accounts: AccountsConfiguration(prefix: prefix))
        expect(match(table, "POST", prefix), equals: "signIn")
        expect(match(table, "GET", prefix), equals: "currentSession")
        expect(match(table, "HEAD", prefix), equals: "currentSession")
        expect(match(table, "DELETE", prefix), equals: "signOut")
        expect(match(table, "PUT", prefix), equals: "405 GET, HEAD, POST, DELETE")
        expect(match(table, "BREW", prefix), equals: "405 GET, HEAD, POST, DELETE")
        expect(match(table, "POST", prefix + "/refresh"), equals: "404")
    }

    @Test("Each own endpoint has one of the path templates below the prefix")
    func templates() {
        let templates = AccountEndpoint.templates(under: "/api/auth")
        expect(
            templates,
            equals: [
                "/api/auth", "/api/auth/sessions", "/api/auth/sessions/{id}", "/api/auth/page", "/api/auth/login",
                "/api/auth/callback", "/api/auth/callback/{identity}", "/api/auth/logout", "/api/auth/backchannel",
                "/api/auth/backchannel/{identity}", "/api/auth/app", "/api/auth/app/code", "/api/auth/keys",
                "/api/auth/device",
            ])
        for (endpoint, hasName, template) in [
            (AccountEndpoint.signIn, false, "/api/auth"), (.signOut, false, "/api/auth"),
            (.endSession, true, "/api/auth/sessions/{id}"), (.endOtherSessions, false, "/api/auth/sessions"),
            (.callback, false, "/api/auth/callback"), (.callback, true, "/api/auth/callback/{identity}"),
            (.app, false, "/api/auth/app"), (.appCode, true, "/api/auth/app/code"),
        ] {
            expect(templates[endpoint.templateIndex(hasName: hasName)], equals: template, "\(endpoint)")
        }
    }

    @Test(
        "The session endpoints are below the prefix, and no path is below them",
        arguments: ["/auth", "/api/v1/session"])
    func ownSessions(prefix: String) throws {
        let table = try table(["GET /*", "DELETE /{a}/sessions/{b}"], accounts: AccountsConfiguration(prefix: prefix))
        expect(match(table, "GET", prefix + "/sessions"), equals: "listSessions")
        expect(match(table, "HEAD", prefix + "/sessions"), equals: "listSessions")
        expect(match(table, "DELETE", prefix + "/sessions"), equals: "endOtherSessions")
        expect(match(table, "DELETE", prefix + "/sessions/0123456789abcdef"), equals: "endSession")
        // The endpoint validates the name.
        expect(match(table, "DELETE", prefix + "/sessions/x"), equals: "endSession")
        for method in ["POST", "PUT", "PATCH", "OPTIONS", "BREW"] {
            expect(match(table, method, prefix + "/sessions"), equals: "405 GET, HEAD, DELETE", "\(method)")
        }
        for method in ["GET", "HEAD", "POST", "PUT", "BREW"] {
            expect(match(table, method, prefix + "/sessions/0123456789abcdef"), equals: "405 DELETE", "\(method)")
        }
        for path in ["/sessions/", "/sessions/a/", "/sessions/a/b", "/session", "/sessionsx", "/Sessions"] {
            for method in ["GET", "DELETE", "POST"] {
                expect(match(table, method, prefix + path), equals: "404", "\(method) \(path)")
            }
        }
    }

    @Test(
        "Rule 18: wildcard routes never match paths at or below the prefix, where the token calls of an upstream may be"
    )
    func reserved() throws {
        let methods = "GET,POST,PUT,DELETE,PATCH,OPTIONS,BREW"
        let lines = [
            "\(methods) /*", "\(methods) /{a}", "\(methods) /{a}/{b}", "\(methods) /{a}/refresh",
            "\(methods) /auth/{a}/*",
        ]
        let table = try table(lines, accounts: AccountsConfiguration())
        for method in methods.split(separator: ",").map(String.init) + ["HEAD", "OTHER"] {
            for path in ["/auth/", "/auth/refresh", "/auth/revoke"] {
                expect(match(table, method, path), equals: "404", "\(method) \(path)")
            }
        }
        for method in ["PUT", "PATCH", "OPTIONS", "BREW", "OTHER"] {
            expect(match(table, method, "/auth"), equals: "405 GET, HEAD, POST, DELETE", "\(method)")
        }
        expect(match(table, "POST", "/auth"), equals: "signIn")
        expect(match(table, "POST", "/authx"), equals: "\(methods) /{a}")
        expect(match(table, "POST", "/x/refresh"), equals: "\(methods) /{a}/refresh")
    }

    @Test("A wildcard matches the path that ends with its slash, and not the path without it")
    func emptyRest() throws {
        let table = try table(["GET /*", "GET /a/*", "GET /{x}/b/*", "POST /"])
        for (path, expected) in [
            ("/", "GET /*"), ("/a", "GET /*"), ("/a/", "GET /a/*"), ("/a/x", "GET /a/*"), ("/a/x/", "GET /a/*"),
            ("/x/b", "GET /*"), ("/x/b/", "GET /{x}/b/*"), ("/x/b/c", "GET /{x}/b/*"),
        ] {
            expect(match(table, "GET", path), equals: expected, "\(path)")
        }
        expect(match(table, "POST", "/"), equals: "POST /")
        expect(match(table, "POST", "/a/"), equals: "405 GET, HEAD")
        let alone = try self.table(["GET /a/*"])
        expect(match(alone, "GET", "/a"), equals: "404")
        expect(match(alone, "GET", "/"), equals: "404")
    }

    @Test("Without a sign-in upstream the prefix is an ordinary path")
    func noAccounts() throws {
        let table = try table(["POST /auth", "GET /auth/x"])
        expect(match(table, "POST", "/auth"), equals: "POST /auth")
        expect(match(table, "GET", "/auth/x"), equals: "GET /auth/x")
    }

    @Test("All of many routes are matched, and no other path")
    func manyRoutes() throws {
        let table = try table((0..<2_000).flatMap { ["GET /r\($0)/x", "GET /{a}/y\($0)"] })
        for number in 0..<2_000 {
            expect(match(table, "GET", "/r\(number)/x"), equals: "GET /r\(number)/x")
            expect(match(table, "GET", "/r\(number)/y\(number)"), equals: "GET /{a}/y\(number)")
        }
        expect(match(table, "GET", "/r2000/x"), equals: "404")
        expect(match(table, "GET", "/r1/y2000"), equals: "404")
    }

    @Test("More methods than fit into one word are supported")
    func manyMethods() throws {
        let methods = (0..<80).map { "M\($0)" }
        let table = try table(methods.map { "\($0) /a" })
        for method in methods { expect(match(table, method, "/a"), equals: "\(method) /a") }
        expect(match(table, "M80", "/a").hasPrefix("405 M0, "))
    }

    @Test("Random tables give the same result as a linear reference matcher", arguments: UInt64(0)..<60)
    func reference(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let segments = ["a", "b", "{x}"]
        var lines: Set<String> = []
        for _ in 0..<Int.random(in: 1...14, using: &generator) {
            var path = ""
            for position in 0..<Int.random(in: 1...3, using: &generator) {
                let segment = segments.randomElement(using: &generator) ?? "a"
                path += "/" + segment.replacing("x", with: "x\(position)")
            }
            if Int.random(in: 0..<5, using: &generator) == 0 { path += "/*" }
            if Int.random(in: 0..<8, using: &generator) == 0 { path = path.hasSuffix("*") ? path : path + "/" }
            lines.insert((["GET", "POST", "GET,POST", "HEAD"].randomElement(using: &generator) ?? "GET") + " " + path)
        }
        var routes: [Route] = []
        for line in lines.sorted().shuffled(using: &generator) {
            let parts = line.split(separator: " ")
            let route = try route(String(parts[0]), String(parts[1]))
            // Skips tables with conflicts; all others have exactly one result.
            if RouteTable.conflicts(in: routes + [route], accounts: Self.noAccounts).isEmpty { routes.append(route) }
        }
        let table = RouteTable(routes: routes, accounts: Self.noAccounts, upstreams: [])
        let reference = ReferenceMatcher(routes: routes)
        for first in ["", "a", "b", "c"] {
            for rest in ["", "/", "/a", "/b", "/c/", "/a/b", "/a/", "/b/a/a", "/c/c/c/", "/a/a/b"] {
                for method in ["GET", "POST", "HEAD", "PUT"] {
                    let path = "/" + first + (first.isEmpty ? "" : rest)
                    let response: ReferenceMatcher.Response =
                        switch table.match(method: Array(method.utf8).span, path: Array(path.utf8).span) {
                        case .route(let index): .route(index)
                        case .methodNotAllowed(let allow):
                            .methodNotAllowed(Set(allow.split(separator: ", ").map(String.init)))
                        case .notFound, .accountEndpoint: .notFound
                        }
                    expect(
                        response, equals: reference.match(method, path),
                        "seed \(seed): \(method) \(path) in \(routes.map(\.name))")
                }
            }
        }
    }
}
