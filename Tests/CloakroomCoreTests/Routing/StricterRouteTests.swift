import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Routes that are stricter than a wider one")
struct StricterRouteTests {
    /// Compiles lines such as `GET,POST /admin/* protected`. The last word is a group if it is another one.
    private static func table(_ lines: [String]) throws -> RouteTable {
        let routes = try lines.map { line in
            let parts = line.split(separator: " ").map(String.init)
            let isGroup = !["public", "protected"].contains(parts[2])
            return Route(
                name: line, methods: parts[0].split(separator: ",").map(String.init),
                pattern: try PathPattern(parts[1]), requiresAuthorization: parts[2] != "public",
                require: isGroup ? SessionRequirement(claims: [.init("groups", in: [parts[2]])]) : .none)
        }
        return RouteTable(routes: routes, accounts: AccountsConfiguration(upstream: nil), upstreams: [])
    }

    /// Returns the result for a request target: a route's pattern, or a status.
    private static func match(_ table: RouteTable, _ target: String, _ method: String = "GET") -> String {
        table.answer(method, target) { $0.pattern.description }
    }

    /// Spellings of `/admin/x` that some upstreams treat as it.
    static let spellings = [
        "/Admin/x", "/ADMIN/X", "/admin./x", "/admin%20/x", "/admin+/x", "/admin%2B/x", "/%2561dmin/x",
        "/%252561dmin/x", "/admin%2520/x", "/admin%253Ba=b/x", "/admin%252Fx", "/admin%255Cx", "/%252Fadmin/x",
        "/%20/admin/x", "/.../admin/x", "/adm%C4%B1n/x", "/adm%C4%B0n/x", "/admin%C2%A0/x", "/x/%252e%252e/admin/x",
        "/x/.%252e/admin/x", "/x/..%20/admin/x", "/x%252F..%252Fadmin/x", "/%252e%252e/admin/x", "/Admin/", "/admin",
        "/ADMIN", "/admin.", "/admin%3Fx", "/admin%2523/x", "/x/y/%25252e%25252e/%252e%252e/admin",
    ]

    @Test("Rule 6: no spelling of a protected path is served by a wider public route", arguments: spellings)
    func spelling(target: String) throws {
        for wide in ["/{a}", "/{a}/*", "/{a}/{b}", "/{a}/{b}/*"] {
            guard Self.match(try Self.table(["GET \(wide) public"]), target) == wide else { continue }
            let table = try Self.table(["GET \(wide) public", "GET /admin/* protected"])
            expect(Self.match(table, target), equals: "404", "\(wide)")
        }
        let table = try Self.table(["GET /* public", "GET /admin/* protected"])
        expect(Self.match(table, target), equals: "404")
    }

    @Test("Rule 6: required claims are not passed by with another spelling under a wider session route")
    func claims() throws {
        let table = try Self.table(["GET /* protected", "GET /payroll/* finance", "GET /staff/* staff"])
        for target in [
            "/Payroll/1", "/payroll%20/1", "/%2570ayroll/1", "/x/%252e%252e/payroll/1", "/payroll", "/STAFF/",
        ] {
            expect(Self.match(table, target), equals: "404", "\(target)")
        }
        for target in ["/", "/Pay", "/pages/Payroll/1", "/staffs"] { expect(Self.match(table, target), equals: "/*") }
        expect(Self.match(table, "/payroll/1"), equals: "/payroll/*")
    }

    @Test("Paths that differ from a protected one in more than spelling are served")
    func others() throws {
        let table = try Self.table(["GET /* public", "GET /admin/* protected", "GET /user protected"])
        for target in [
            "/", "/index.html", "/assets/Index-B1x.js", "/administrator", "/a%20b", "/caf%C3%A9", "/users/Admin",
            "/.well-known/x", "/wiki/What%3F", "/a+b", "/admin%2Dx", "/x/admin/y", "/user/x", "/user.json", "/..a/b",
            "/%E2%84%AA",
        ] {
            expect(Self.match(table, target), equals: "/*", "\(target)")
        }
        expect(Self.match(table, "/admin/X"), equals: "/admin/*")
        expect(Self.match(table, "/admin/"), equals: "/admin/*")
        expect(Self.match(table, "/user"), equals: "/user")
        expect(Self.match(table, "/user/"), equals: "404")
    }

    @Test("A route that is as specific as the stricter one, or more, is meant as it is written")
    func intended() throws {
        let table = try Self.table([
            "GET /admin/* protected", "GET /Admin/* public", "GET /admin public", "GET /admin/login public",
            "GET /admin/public/* public", "GET /users/{id} protected", "GET /Users/{id} public", "GET /* public",
        ])
        for (target, expected) in [
            ("/admin/x", "/admin/*"), ("/Admin/x", "/Admin/*"), ("/admin", "/admin"), ("/admin/login", "/admin/login"),
            ("/admin/Login", "/admin/*"), ("/admin/public/A.js", "/admin/public/*"), ("/ADMIN/x", "404"),
            ("/Users/1", "/Users/{id}"), ("/USERS/1", "404"), ("/Admin/public/x", "/Admin/*"),
            // The path leaves the public route for a server that decodes it again.
            ("/admin/public/%252e%252e/x", "404"), ("/admin/public%252F..%252Fx", "/admin/*"),
            ("/admin/public/a%252Fb", "/admin/public/*"),
        ] {
            expect(Self.match(table, target), equals: expected, "\(target)")
        }
    }

    @Test("Rule 6: an upstream that splits a path before it decodes it again is no way around a parameter")
    func encodedSeparators() throws {
        let table = try Self.table(["GET /users/* public", "GET /users/{id}/keys protected"])
        for target in [
            "/users/1/Keys", "/users/a%252Fb/Keys", "/users/a%3Fb/Keys", "/users/1%252Fkeys", "/users/1/keys/",
        ] {
            expect(Self.match(table, target), equals: "404", "\(target)")
        }
        expect(Self.match(table, "/users/a%252Fb"), equals: "/users/*")
    }

    @Test("Rule 27: a method without a route is not served by a wider route that is less strict")
    func methods() throws {
        let table = try Self.table([
            "GET,POST,OPTIONS /* public", "GET /admin/* protected", "GET /posts public", "POST /posts protected",
            "PUT /{page} public",
        ])
        expect(Self.match(table, "/admin/x", "POST"), equals: "405 GET, HEAD")
        expect(Self.match(table, "/admin/x", "HEAD"), equals: "/admin/*")
        expect(Self.match(table, "/admin/x", "OPTIONS"), equals: "405 GET, HEAD")
        expect(Self.match(table, "/admin", "POST").hasPrefix("405 "))
        expect(Self.match(table, "/Admin/x", "POST"), equals: "404")
        expect(Self.match(table, "/posts", "PUT").hasPrefix("405 "))
        expect(Self.match(table, "/other", "PUT"), equals: "/{page}")
        // The method has a route of its own there, which is not stricter.
        expect(Self.match(table, "/posts/"), equals: "/*")
        expect(Self.match(table, "/posts/", "POST"), equals: "404")
        // A route of OPTIONS alone serves the preflights of all paths.
        let preflights = try Self.table(["OPTIONS /* public", "GET /admin/* protected"])
        expect(Self.match(preflights, "/admin/x", "OPTIONS"), equals: "/*")
    }

    @Test("Equally strict routes do not restrict each other")
    func equal() throws {
        for access in ["public", "protected", "staff"] {
            let table = try Self.table(["GET,POST /* \(access)", "GET /admin/* \(access)"])
            for (target, method) in [("/Admin/x", "GET"), ("/admin/x", "POST"), ("/x/%252e%252e/admin/x", "GET")] {
                expect(Self.match(table, target, method), equals: "/*", "\(target)")
            }
        }
        let table = try Self.table(["GET /* staff", "GET /admin/* protected", "GET /public/* public"])
        for target in ["/Admin/x", "/Public/x"] { expect(Self.match(table, target), equals: "/*", "\(target)") }
    }

    @Test("More sets of access rules than bits are compared")
    func manyKinds() throws {
        let groups = (0..<80).map { "GET /g\($0)/* group\($0)" }
        let table = try Self.table(["GET /* public"] + groups)
        for number in 0..<80 {
            expect(Self.match(table, "/G\(number)/x"), equals: "404")
            expect(Self.match(table, "/g\(number)/x"), equals: "/g\(number)/*")
        }
        expect(Self.match(table, "/h/x"), equals: "/*")
    }

    @Test("The route that is withheld, and the stricter one")
    func withheld() throws {
        let table = try Self.table(["GET,POST /* public", "GET /admin/* protected"])
        func names(_ path: String, _ method: String = "GET") -> [String?]? {
            table.withheldMatch(method: Array(method.utf8).span, path: Array(path.utf8).span).map {
                [$0.route.pattern.description, $0.stricter?.pattern.description]
            }
        }
        expect(names("/Admin/x"), equals: ["/*", "/admin/*"])
        expect(names("/admin/x", "POST"), equals: ["/*", "/admin/*"])
        expect(names("/x/%252e%252e/admin/x"), equals: ["/*", nil])
        expect(names("/x"), equals: nil)
        expect(names("/x", "PUT"), equals: nil)
    }

    private static let requirements: [(SessionRequirement, SessionRequirement, Bool)] = [
        (SessionRequirement.none, SessionRequirement.none, false),
        (groups(["a"]), .none, true), (.none, groups(["a"]), false), (groups(["a"]), groups(["a"]), false),
        (groups(["a"]), groups(["a", "b"]), true), (groups(["a", "b"]), groups(["a"]), false),
        (groups(["a"]), groups(["b"]), true), (groups(["\u{e9}"]), groups(["e\u{301}"]), true),
        (groups(["a"]), SessionRequirement(claims: [.init("roles", in: ["a"])]), true),
        (groups(all: ["a"]), groups(["a"]), false), (groups(["a"]), groups(all: ["a", "b"]), false),
        (groups(all: ["a"]), groups(["a", "b"]), true), (groups(all: ["a", "b"]), groups(all: ["a"]), true),
        (groups(all: ["a"]), groups(all: ["a", "b"]), false), (groups(none: ["a"]), groups(none: ["a", "b"]), false),
        (groups(none: ["a", "b"]), groups(none: ["a"]), true), (groups(none: ["a"]), groups(["b"]), true),
        (groups(["b"]), groups(none: ["a"]), true), (groups(["b"]), groups(["b"], none: ["a"]), false),
        (groups(["b"], none: ["a"]), groups(["b"]), true),
        (anyOf(groups(["a"]), gold), groups(["a"]), false), (groups(["a"]), anyOf(groups(["a"]), gold), true),
        (anyOf(groups(["a"]), gold), anyOf(gold, groups(["a"])), false), (anyOf(gold), gold, false),
        (gold, anyOf(gold), false), (anyOf(groups(["a"]), gold), anyOf(gold), false),
        (anyOf(gold), anyOf(groups(["a"]), gold), true), (anyOf(gold), groups(["a"]), true),
        (SessionRequirement(acr: ["x", "y"]), SessionRequirement(acr: ["y"]), false),
        (SessionRequirement(acr: ["y"]), SessionRequirement(acr: ["x", "y"]), true),
        (SessionRequirement(acr: ["y"]), .none, true),
        (SessionRequirement(maxAge: .seconds(9)), SessionRequirement(maxAge: .seconds(9)), false),
        (SessionRequirement(maxAge: .seconds(9)), SessionRequirement(maxAge: .seconds(8)), false),
        (SessionRequirement(maxAge: .seconds(8)), SessionRequirement(maxAge: .seconds(9)), true),
        (SessionRequirement(maxAge: .seconds(8)), .none, true),
    ]

    @Test(
        "A requirement is stricter unless each session that meets the other one clearly meets it",
        arguments: requirements)
    func requirement(mine: SessionRequirement, other: SessionRequirement, isStricter: Bool) throws {
        func rules(_ requirement: SessionRequirement) throws -> SessionRules {
            ProviderFixture.rules(try ProviderFixture.route(to: ProviderFixture.shop, require: requirement))
        }
        let reason = try rules(mine).reasonStricter(than: rules(other))
        expect(reason != nil, equals: isStricter)
        guard let reason else { return }
        expect(reason, equals: (mine.claims.isEmpty ? .requirement : .claims))
    }

    private static let gold = SessionRequirement(acr: ["gold"])

    private static func anyOf(_ alternatives: SessionRequirement...) -> SessionRequirement {
        SessionRequirement(anyOf: alternatives)
    }

    private static func groups(
        _ values: [String] = [], all: [String] = [], none: [String] = []
    ) -> SessionRequirement {
        SessionRequirement(claims: [.init("groups", in: values, all: all, none: none)])
    }

    @Test("A route that fewer identities may use is stricter, and a public one never is")
    func sources() throws {
        typealias Fixture = ProviderFixture
        let bearer = Fixture.rules(try Fixture.route(to: Fixture.shop))
        let any = Fixture.rules(try Fixture.route(to: Fixture.shop, []))
        let open = Fixture.rules(
            try Fixture.route(to: Fixture.shop, requiresAuthorization: false, require: Self.groups(["a"])))
        expect(bearer.reasonStricter(than: any), equals: .identities)
        expect(!any.isStricter(than: bearer))
        expect(any.reasonStricter(than: open), equals: .authorization)
        expect(!open.isStricter(than: any))
    }

    @Test("Rule 82: no other spelling or method of a path avoids the rate limit of its route")
    func rateLimits() throws {
        func match(_ target: String, _ method: String, wide: [String] = [], isEnforced: Bool = true) throws -> String {
            var routes = [
                Route(
                    name: "login", methods: ["POST"], pattern: try PathPattern("/api/login"),
                    requiresAuthorization: false),
                Route(
                    name: "api", methods: ["GET", "POST", "PUT"], pattern: try PathPattern("/api/*"),
                    requiresAuthorization: false),
            ]
            routes[0].rate = ["tight"]
            routes[1].rate = wide
            var configuration = GatewayConfiguration(
                listeners: [], upstreams: [], routes: routes, accounts: AccountsConfiguration(upstream: nil))
            configuration.rateLimits = [RateLimit(name: "tight"), RateLimit(name: "other")]
            configuration.rateLimits[0].isEnforced = isEnforced
            return Self.match(RouteTable(configuration), target, method)
        }
        for target in ["/api/Login", "/api/login/", "/api/log%2569n"] {
            try expect(match(target, "POST"), equals: "404")
            try expect(match(target, "POST", wide: ["other"]), equals: "404")
            try expect(match(target, "POST", wide: ["other", "tight"]), equals: "/api/*")
            try expect(match(target, "POST", isEnforced: false), equals: "/api/*")
        }
        try expect(match("/api/login", "POST"), equals: "/api/login")
        try expect(match("/api/login", "PUT").hasPrefix("405"))
        try expect(match("/api/login", "PUT", wide: ["tight"]), equals: "/api/*")
        try expect(match("/api/x", "PUT"), equals: "/api/*")
    }
}
