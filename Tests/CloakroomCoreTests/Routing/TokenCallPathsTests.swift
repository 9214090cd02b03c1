import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Token call paths")
struct TokenCallPathsTests {
    private static let upstreams = [
        UpstreamConfiguration(
            name: "api", targets: [], signIn: IdentityEndpointConfiguration(path: "/auth", credentials: .basic),
            refresh: IdentityEndpointConfiguration(path: "/auth/refresh"),
            revoke: IdentityEndpointConfiguration(path: "/oauth2/revoke"),
            user: IdentityEndpointConfiguration(method: "GET", path: "/user")),
        UpstreamConfiguration(
            name: "old", targets: [], signIn: IdentityEndpointConfiguration(path: "/api/v1/Login", credentials: .basic)),
    ]
    private static let methods = "GET,HEAD,POST,PUT,DELETE,PATCH,OPTIONS,BREW"

    private static func table(
        _ lines: [String], accounts: AccountsConfiguration = AccountsConfiguration(prefix: "/session")
    ) throws -> RouteTable {
        let routes = try lines.map { line in
            let parts = line.split(separator: " ")
            return Route(
                name: line, methods: parts[0].split(separator: ",").map(String.init),
                pattern: try PathPattern(String(parts[1])), action: .forward(upstream: parts.count > 2 ? 1 : 0, nil),
                requiresAuthorization: false)
        }
        return RouteTable(routes: routes, accounts: accounts, upstreams: upstreams)
    }

    /// Spellings of `/auth` that some upstreams treat as `/auth`.
    private static let spellings = [
        "/auth", "/Auth", "/AUTH", "/aUtH", "/auth/", "/auth.", "/auth..", "/auth...", "/auth%20", "/auth%20%20",
        "/auth%20/", "/auth/%20", "/auth./", "/auth/...", "/auth+", "/auth%2B", "/%61uth", "/%41%55%54%48", "/a%75th",
        "/auth%C2%A0", "/auth%E3%80%80", "/auth?x=1", "/auth/?", "/Auth%20?/x", "/auth%3F", "/auth%3Fx=1",
        "/%2561uth", "/%252561uth", "/auth%2520", "/auth%2509", "/auth%2500", "/auth%253Bx=1", "/auth%253b",
        "/auth%252F",
        "/%252Fauth", "/auth%255C", "/auth%2523x", "/auth%252e", "/%2541%2555%2554%2548", "http://a/auth",
        "http://a/AUTH.", "/auth%E2%80%83.", "/auth%EF%BB%BF",
    ]

    /// Spellings without a normal form, which are never matched with routes.
    private static let rejected = [
        "//auth", "/auth//", "/auth;", "/auth;x=1", "/auth%3b", "/auth%3B", "/auth%2e", "/auth%2E", "/auth/.",
        "/./auth",
        "/x/../auth", "/auth%2f", "/auth%5c", "/auth\\", "/auth%00", "/auth%09", "/auth%23", "/auth#x", "/auth%0a",
        "/auth%7f", "/%c1%a1uth", "/auth%", "/auth ", "/;x/auth", "/auth%2f..%2fauth",
    ]

    @Test(
        "Rule 33: no route with a parameter or wildcard matches a token call, in any spelling of the path",
        arguments: ["/*", "/{a}", "/{a}/*"])
    func spellings(pattern: String) throws {
        let table = try Self.table(
            ["\(Self.methods) /*", "\(Self.methods) \(pattern) other"].suffix(pattern == "/*" ? 1 : 2))
        for method in Self.methods.split(separator: ",").map(String.init) {
            for target in Self.spellings {
                expect(table.answer(method, target), equals: "404", "\(method) \(target)")
            }
            for target in Self.rejected {
                expect(table.answer(method, target), equals: "400", "\(method) \(target)")
            }
        }
        // No other paths are excluded.
        for target in ["/authx", "/aut", "/auth.json", "/auth/x", "/users", "/", "/oauth2", "/auth%20x", "/%20auth"] {
            expect(table.answer("POST", target).hasPrefix(Self.methods), "\(target)")
        }
    }

    @Test("Rule 33: the identity calls of every upstream are excluded from routes to all upstreams")
    func everyCall() throws {
        let table = try Self.table(["\(Self.methods) /* other"])
        for path in ["/auth", "/auth/refresh", "/oauth2/revoke", "/user", "/api/v1/login"] {
            let dotted = String(path.replacing("/", with: "./").dropFirst())
            for target in [path, path.uppercased(), path + "/", path + "%20", dotted] {
                expect(table.answer("POST", target), equals: "404", "\(target)")
            }
            expect(table.answer("POST", path + "/more") != "404")
        }
        expect(table.answer("POST", "/api./V1%20/Login."), equals: "404")
        expect(table.answer("POST", "/api%252Fv1/login"), equals: "404")
        expect(table.answer("POST", "/api%253Ba/v1%253Bb=c/login"), equals: "404")
    }

    @Test(
        "Rule 33: a literal before or after the parameter makes no difference",
        arguments: [
            ("/api/*", "/api/v1/login"), ("/API/*", "/API/v1/LOGIN"), ("/api/{v}/login", "/api/v1/login"),
            ("/api/{v}/LOGIN", "/api/v1/LOGIN"), ("/{a}/refresh", "/auth/refresh"), ("/auth/{x}", "/auth/refresh"),
            ("/auth/*", "/auth/"), ("/auth/{x}", "/auth/%20"), ("/auth/*", "/auth/refresh"),
            ("/{a}/{b}/login", "/api/v1/login"),
            ("/api/v1/{x}", "/api/v1/login%20"), ("/api/v1/{x}", "/api/v1/login."), ("/api/{x}", "/api/v1%252Flogin"),
            ("/user/*", "/user/"), ("/user./*", "/user./"), ("/api./v1/{x}", "/api./v1/login"),
        ])
    func literals(pattern: String, path: String) throws {
        let table = try Self.table(["POST \(pattern)"])
        expect(table.answer("POST", path), equals: "404")
        let without = RouteTable(routes: table.routes, accounts: AccountsConfiguration(upstream: nil), upstreams: [])
        expect(without.answer("POST", path), equals: "POST \(pattern)", "the case does not test the comparison")
    }

    @Test("Rule 33: a route with the path of a token call does not match it; one with that of the user call does")
    func named() throws {
        let lines = ["POST /auth", "POST /Auth/", "POST /oauth2/revoke.", "GET /user", "GET,POST /*"]
        let table = try Self.table(lines)
        expect(table.answer("POST", "/auth"), equals: "404")
        expect(table.answer("POST", "/Auth/"), equals: "404")
        expect(table.answer("POST", "/oauth2/revoke."), equals: "404")
        expect(table.answer("GET", "/user"), equals: "GET /user")
        expect(table.answer("HEAD", "/user"), equals: "GET /user")
        // The wildcard route does not add methods or spellings to it.
        expect(table.answer("POST", "/user"), equals: "405 GET, HEAD")
        expect(table.answer("GET", "/USER"), equals: "404")
        expect(table.answer("GET", "/user/"), equals: "404")
    }

    @Test("Rule 33: a path that is both a token call and the user call is a token call")
    func both() throws {
        let upstream = UpstreamConfiguration(
            name: "api", targets: [], signIn: IdentityEndpointConfiguration(path: "/me", credentials: .basic),
            user: IdentityEndpointConfiguration(method: "GET", path: "/me"))
        expect(TokenCallPaths([upstream]).tokenCall(namedBy: try PathPattern("/me"))?.kind, equals: .signIn)
        let route = Route(name: "me", methods: ["GET"], pattern: try PathPattern("/me"), requiresAuthorization: true)
        let table = RouteTable(routes: [route], accounts: AccountsConfiguration(), upstreams: [upstream])
        expect(table.answer("GET", "/me"), equals: "404")
    }

    @Test("The gateway's own endpoints take precedence, even at the path of a token call")
    func accountEndpoints() throws {
        let table = try Self.table(["GET,POST /*"], accounts: AccountsConfiguration(prefix: "/auth"))
        expect(table.answer("POST", "/auth"), equals: "signIn")
        expect(table.answer("GET", "/auth"), equals: "currentSession")
        expect(table.answer("GET", "/auth/sessions"), equals: "listSessions")
        expect(table.answer("POST", "/Auth"), equals: "404")
        expect(table.answer("POST", "/auth/refresh"), equals: "404")
        // A route with the same path, which the configuration rejects, does not override the endpoints either.
        let crossed = try Self.table(
            ["PUT /auth", "POST /auth/sessions/{x}"], accounts: AccountsConfiguration(prefix: "/auth"))
        expect(crossed.answer("POST", "/auth"), equals: "signIn")
        expect(crossed.answer("DELETE", "/auth/sessions/a"), equals: "endSession")
    }

    @Test("Files are served at the paths of token calls, to which no other route forwards")
    func files() throws {
        let files = Route(
            name: "app", methods: ["GET"], pattern: try PathPattern("/*"), action: .files(FilesConfiguration()),
            requiresAuthorization: false)
        let forward = Route(
            name: "api", methods: ["GET", "POST"], pattern: try PathPattern("/{a}/*"), requiresAuthorization: false)
        for routes in [[files, forward], [forward, files]] {
            let table = RouteTable(
                routes: routes, accounts: AccountsConfiguration(prefix: "/session"), upstreams: Self.upstreams)
            expect(table.answer("GET", "/auth") == "app" && table.answer("GET", "/auth/refresh") == "app")
            expect(table.answer("GET", "/auth/other"), equals: "api")
            expect(!["app", "api"].contains(table.answer("POST", "/auth/refresh")))
        }
        // A route that forwards decides about the paths that it has in common with files.
        var post = forward
        post.pattern = files.pattern
        post.methods = ["POST"]
        let shared = RouteTable(
            routes: [post, files], accounts: AccountsConfiguration(upstream: nil), upstreams: Self.upstreams)
        expect(shared.answer("GET", "/auth") == "404" && shared.answer("POST", "/auth") == "404")
    }

    @Test("Paths are compared for every pattern that can match a token call", arguments: UInt64(0)..<40)
    func noneIsMissed(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let calls = TokenCallPaths(Self.upstreams)
        let segments = ["auth", "Auth", "refresh", "api", "API.", "v1", "login", "user", "{x}", "{y}", "x", "..."]
        let parts = [
            "/auth", "/Auth", "/refresh", "/api", "/API.", "/v1", "/login", "/user", "/x", "/...", "/%20", "%252F",
            "%20",
            ".", "%253B", "/",
        ]
        var met = 0
        for _ in 0..<100 {
            var text = ""
            for position in 0..<Int.random(in: 1...3, using: &generator) {
                let segment = segments.randomElement(using: &generator) ?? "x"
                text += "/" + segment.replacing("{x}", with: "{x\(position)}").replacing("{y}", with: "{y\(position)}")
            }
            if Bool.random(using: &generator) { text += "/*" }
            let route = Route(
                name: text, methods: ["GET"], pattern: try PathPattern(text), requiresAuthorization: false)
            let none = AccountsConfiguration(upstream: nil)
            let table = RouteTable(routes: [route], accounts: none, upstreams: Self.upstreams)
            let without = RouteTable(routes: [route], accounts: none, upstreams: [])
            for _ in 0..<60 {
                let target = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                    parts.randomElement(using: &generator) ?? "/"
                }.joined()
                guard without.answer("GET", target) == text else { continue }
                let call = calls.call(at: Array(target.utf8).span)
                let isNamed = !route.pattern.isWide && call?.kind == .user
                expect(table.answer("GET", target) == text, equals: call == nil || isNamed, "\(text) \(target)")
                if call != nil { met += 1 }
            }
        }
        #expect(met > 0, "the test covers too few cases")
    }

    @Test("The calls that a pattern matches are listed")
    func within() throws {
        let calls = TokenCallPaths(Self.upstreams)
        func paths(_ pattern: String) throws -> [String] { calls.calls(within: try PathPattern(pattern)).map(\.path) }
        try expect(paths("/*"), equals: ["/auth", "/api/v1/Login", "/auth/refresh", "/oauth2/revoke", "/user"])
        try expect(paths("/{a}"), equals: ["/auth", "/user"])
        try expect(paths("/API/*"), equals: ["/api/v1/Login"])
        try expect(paths("/{a}/{b}"), equals: ["/auth/refresh", "/oauth2/revoke"])
        try expect(paths("/auth/*"), equals: ["/auth/refresh"])
        try expect(paths("/auth"), equals: [])
        try expect(paths("/videos/{id}"), equals: [])
        expect(!calls.mayMeet(try PathPattern("/videos/{id}")))
        expect(!calls.mayMeet(try PathPattern("/user")))
        expect(calls.mayMeet(try PathPattern("/auth")))
        expect(calls.tokenCall(namedBy: try PathPattern("/API/v1/login/"))?.upstream, equals: "old")
        expect(calls.tokenCall(namedBy: try PathPattern("/user")), equals: nil)
    }
}
