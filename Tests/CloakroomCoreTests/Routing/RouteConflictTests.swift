import Testing

@testable import CloakroomCore

@Suite("Conflicts between routes")
struct RouteConflictTests {
    private func conflicts(_ lines: [String], accounts: AccountsConfiguration = AccountsConfiguration()) throws
        -> [RouteConflict]
    {
        let routes = try lines.map { line in
            let parts = line.split(separator: " ")
            return Route(
                name: line, methods: parts[0].split(separator: ",").map(String.init),
                pattern: try PathPattern(String(parts[1])), requiresAuthorization: false)
        }
        return RouteTable.conflicts(in: routes, accounts: accounts)
    }

    @Test(
        "A duplicate path and method is reported with the name of the other route",
        arguments: [
            ["GET /a", "GET /a"], ["GET /{a}", "GET /{b}"], ["GET /a/*", "GET /a/*"], ["GET,POST /a", "PUT,POST /a"],
            ["GET /a", "HEAD /a"], ["GET /", "GET /"], ["GET /{a}/b", "GET /{c}/b"],
        ])
    func same(lines: [String]) throws {
        let found = try conflicts(lines)
        #expect(found.count == 1)
        #expect(found.first?.route == 1)
        #expect(found.first?.other == 0)
        #expect(found.first?.message.contains("is already served by route \"\(lines[0])\"") == true)
    }

    @Test(
        "Two paths of which neither is more specific are reported",
        arguments: [
            ["GET /a/{x}", "GET /{y}/b"], ["GET /{x}/b", "GET /a/*"], ["GET /{x}/b/*", "GET /a/{y}/c"],
            ["GET /a/*", "GET /{x}/"],
        ])
    func overlapping(lines: [String]) throws {
        for lines in [lines, lines.reversed()] {
            let found = try conflicts(lines)
            #expect(found.count == 1)
            #expect(found.first?.message.contains("neither is more specific") == true)
        }
    }

    @Test(
        "Unambiguous routes are not a conflict",
        arguments: [
            ["GET /a", "POST /a"], ["GET /a", "GET /b"], ["GET /a", "GET /a/"], ["GET /a", "GET /{x}"],
            ["GET /a", "GET /*"], ["GET /{x}", "GET /*"], ["GET /a/*", "GET /a/"], ["GET /a/*", "GET /a"],
            ["GET /a/{x}", "GET /a/*"], ["GET /a/{x}", "POST /{y}/b"], ["GET /a/{x}", "GET /b/{x}"],
            ["GET /{x}/a", "GET /{x}/b"], ["GET /{x}/*", "GET /a/{y}"], ["GET /", "GET /*"], ["GET /", "GET /{x}"],
            ["GET /a/", "GET /a/{x}"], ["GET /a/*", "GET /*"], ["GET /a/", "GET /*"], ["GET /authx", "GET /{auth}"], [],
        ])
    func none(lines: [String]) throws {
        #expect(try conflicts(lines).isEmpty)
        #expect(try conflicts(lines.reversed()).isEmpty)
    }

    @Test(
        "A route at or below the gateway's own prefix is reported for any method",
        arguments: [
            "GET /auth", "PUT /auth", "GET /auth/", "GET /auth/refresh", "GET /auth/*", "GET /auth/{x}/y",
            "GET /auth/sessions", "POST /auth/sessions", "DELETE /auth/sessions/{id}", "GET /auth/sessions/a/b",
        ])
    func ownPrefix(line: String) throws {
        let found = try conflicts([line])
        #expect(found.count == 1)
        #expect(found.first?.other == nil)
        #expect(found.first?.message.contains("below /auth, which is reserved for the gateway's own endpoints") == true)
        #expect(try conflicts([line], accounts: AccountsConfiguration(upstream: nil)).isEmpty)
        #expect(try conflicts([line], accounts: AccountsConfiguration(prefix: "/login")).isEmpty)
    }

    @Test("All conflicts are reported at once")
    func all() throws {
        let found = try conflicts(["GET /a", "GET /a", "GET /auth", "GET /a"])
        #expect(found.map(\.route) == [1, 2, 3, 3])
        #expect(found.map(\.other) == [0, nil, 0, 1])
    }

    @Test("A wildcard covers the path that ends with its slash, and a literal there is more specific")
    func emptyRest() throws {
        func relation(_ left: String, _ right: String) throws -> PathPattern.Relation {
            try PathPattern(left).relation(to: PathPattern(right))
        }
        #expect(try relation("/*", "/") == .lessSpecific)
        #expect(try relation("/a/*", "/a/") == .lessSpecific)
        #expect(try relation("/a/*", "/a") == .disjoint)
        #expect(try relation("/{x}/*", "/a/") == .lessSpecific)
        #expect(try relation("/a/*", "/{x}/") == .overlapping)
        #expect(try PathPattern("/*").covers(PathPattern("/")))
        #expect(try !PathPattern("/a/*").covers(PathPattern("/a")))
        #expect(try PathPattern("/a/{x}/*").base == PathPattern("/a/{x}"))
        #expect(try PathPattern("/*").base == nil)
        #expect(try PathPattern("/a/").base == nil)
    }

    @Test("The relation of two patterns is symmetric")
    func symmetry() throws {
        let patterns = try ["/", "/a", "/a/", "/{x}", "/*", "/a/{x}", "/{x}/b", "/a/*", "/{x}/*", "/a/b", "/{x}/"].map {
            try PathPattern($0)
        }
        for left in patterns {
            #expect(left.relation(to: left) == .same)
            for right in patterns {
                let expected: PathPattern.Relation =
                    switch right.relation(to: left) {
                    case .moreSpecific: .lessSpecific
                    case .lessSpecific: .moreSpecific
                    case let other: other
                    }
                #expect(left.relation(to: right) == expected, "\(left) \(right)")
            }
        }
    }
}
