import TestSupport
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
        expect(found.count, equals: 1)
        expect(found.first?.route, equals: 1)
        expect(found.first?.other, equals: 0)
        expect(found.first?.message.contains("is already served by route \"\(lines[0])\""), equals: true)
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
            expect(found.count, equals: 1)
            expect(found.first?.message.contains("neither is more specific"), equals: true)
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
        try expect(empty: conflicts(lines))
        try expect(empty: conflicts(lines.reversed()))
    }

    @Test(
        "A route at or below the gateway's own prefix is reported for any method",
        arguments: [
            "GET /auth", "PUT /auth", "GET /auth/", "GET /auth/refresh", "GET /auth/*", "GET /auth/{x}/y",
            "GET /auth/sessions", "POST /auth/sessions", "DELETE /auth/sessions/{id}", "GET /auth/sessions/a/b",
        ])
    func ownPrefix(line: String) throws {
        let found = try conflicts([line])
        expect(found.count, equals: 1)
        expect(found.first?.other, equals: nil)
        expect(
            found.first?.message.contains("below /auth, which is reserved for the gateway's own endpoints"),
            equals: true)
        try expect(empty: conflicts([line], accounts: AccountsConfiguration(upstream: nil)))
        try expect(empty: conflicts([line], accounts: AccountsConfiguration(prefix: "/login")))
    }

    @Test("All conflicts are reported at once")
    func all() throws {
        let found = try conflicts(["GET /a", "GET /a", "GET /auth", "GET /a"])
        expect(found.map(\.route), equals: [1, 2, 3, 3])
        expect(found.map(\.other), equals: [0, nil, 0, 1])
    }

    @Test("A wildcard covers the path that ends with its slash, and a literal there is more specific")
    func emptyRest() throws {
        func relation(_ left: String, _ right: String) throws -> PathPattern.Relation {
            try PathPattern(left).relation(to: PathPattern(right))
        }
        try expect(relation("/*", "/"), equals: .lessSpecific)
        try expect(relation("/a/*", "/a/"), equals: .lessSpecific)
        try expect(relation("/a/*", "/a"), equals: .disjoint)
        try expect(relation("/{x}/*", "/a/"), equals: .lessSpecific)
        try expect(relation("/a/*", "/{x}/"), equals: .overlapping)
        try expect(PathPattern("/*").covers(PathPattern("/")))
        try expect(!PathPattern("/a/*").covers(PathPattern("/a")))
        try expect(PathPattern("/a/{x}/*").base, equals: PathPattern("/a/{x}"))
        try expect(PathPattern("/*").base, equals: nil)
        try expect(PathPattern("/a/").base, equals: nil)
    }

    @Test("The relation of two patterns is symmetric")
    func symmetry() throws {
        let patterns = try ["/", "/a", "/a/", "/{x}", "/*", "/a/{x}", "/{x}/b", "/a/*", "/{x}/*", "/a/b", "/{x}/"].map {
            try PathPattern($0)
        }
        for left in patterns {
            expect(left.relation(to: left), equals: .same)
            for right in patterns {
                let expected: PathPattern.Relation =
                    switch right.relation(to: left) {
                    case .moreSpecific: .lessSpecific
                    case .lessSpecific: .moreSpecific
                    case let other: other
                    }
                expect(left.relation(to: right), equals: expected, "\(left) \(right)")
            }
        }
    }
}
