import CloakroomConfig
import Foundation
import TestSupport
import Testing

/// A route in a short notation for tables of examples: `name METHODS path public|protected`.
struct DifferenceCase: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let old: [String]
    let new: [String]
    let lines: [String]
    var exitCode: Int32 = 0
}

@Suite struct RouteTableDiffTests {
    @Test(arguments: cases)
    func theDifferenceIsWhatRequestsSee(_ example: DifferenceCase) throws {
        let old = try ConfigFixture(Self.config(example.old))
        let report = try ConfigFixture(Self.config(example.new)).changes(since: old)
        expect(report.rows, equals: example.lines)
        expect(report.exitCode, equals: example.exitCode)
    }

    @Test func pathsThatTheGatewayKeptBecomePublicWhereAWideRouteServesThemNow() throws {
        let all = Self.config(["all GET /* public"])
        func report(_ old: String, _ new: String) throws -> CommandReport {
            try ConfigFixture(new).changes(since: ConfigFixture(old))
        }
        // The prefix moves away from /auth; the token call there reserves only part of its paths.
        let moved = all.replacingOccurrences(of: "session:\n", with: "accounts: { prefix: /me }\nsession:\n")
        let prefix = try report(all, moved)
        expect(
            prefix.rows,
            equals: [
                "added public GET /auth/* all", "removed GET /me all, was public", "removed GET /me/* all, was public",
            ])
        expect(prefix.exitCode, equals: 3)
        // The sign-in call moves from /auth to /in.
        let call = try report(moved, moved.replacingOccurrences(of: "path: /auth", with: "path: /in"))
        expect(call.rows, equals: ["added public GET /auth all", "removed GET /in all, was public"])
        expect(call.exitCode, equals: 3)
        let same = try report(moved, moved)
        expect(same.rows, equals: ["no change"])
        expect(same.exitCode, equals: 0)
    }

    @Test func valueErrorsOfEitherSideEndTheComparison() throws {
        let bad = try ConfigFixture("{}")
        let good = try ConfigFixture()
        expect(bad.changes(since: good).exitCode, equals: 1)
        expect(good.changes(since: bad).exitCode, equals: 1)
    }

    static let cases = [
        DifferenceCase(
            testDescription: "the same, in another order", old: ["a GET /a public", "b GET /b protected"],
            new: ["b GET /b protected", "a GET /a public"], lines: ["no change"]),
        DifferenceCase(
            testDescription: "a route became public", old: ["v GET,PUT /v/{id} protected"],
            new: ["v GET,PUT /v/{id} public"], lines: ["became public GET,PUT /v/{id} v"], exitCode: 3),
        DifferenceCase(
            testDescription: "one method became public", old: ["v GET,PUT /v protected"],
            new: ["v PUT /v protected", "w GET /v public"], lines: ["became public GET /v w, was v"], exitCode: 3),
        DifferenceCase(
            testDescription: "a new public route takes paths of a protected one", old: ["v GET /v/{id} protected"],
            new: ["v GET /v/{id} protected", "free GET /v/free public"],
            lines: ["became public GET /v/free free, was v"], exitCode: 3),
        DifferenceCase(
            testDescription: "overlapping patterns of two tables", old: ["v GET /a/{x} protected"],
            new: ["w GET /{y}/b public"],
            lines: [
                "became public GET /a/b w, was v", "added public GET /{y}/b w",
                "removed GET /a/{x} v, was requires authorization",
            ], exitCode: 3),
        DifferenceCase(
            testDescription: "a removed exception leaves the wide public route",
            old: ["all GET /* public", "v GET /v/{id} protected"], new: ["all GET /* public"],
            lines: ["became public GET /v/{id} all, was v"], exitCode: 3),
        DifferenceCase(
            testDescription: "a route became protected", old: ["v GET /v public"], new: ["v GET /v protected"],
            lines: ["became protected GET /v v"]),
        DifferenceCase(
            testDescription: "added and removed", old: ["a GET /a public"],
            new: ["b GET /b public", "c GET /c protected"],
            lines: [
                "added public GET /b b", "added GET /c c, requires authorization", "removed GET /a a, was public",
            ], exitCode: 3),
        DifferenceCase(
            testDescription: "shadowed by a more specific one", old: ["v GET /v/* protected"],
            new: ["v GET /v/* protected", "x GET /v/x protected"], lines: ["shadowed GET /v/x v, now served by x"]),
        DifferenceCase(
            testDescription: "a public wildcard is added", old: ["a GET /a public"],
            new: ["a GET /a public", "all GET /* public"], lines: ["added public GET /* all"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public literal is added", old: ["a GET /a public"],
            new: ["a GET /a public", "b GET /b public"], lines: ["added public GET /b b"], exitCode: 3),
        DifferenceCase(
            testDescription: "a protected wildcard is added", old: ["a GET /a public"],
            new: ["a GET /a public", "all GET /* protected"], lines: ["added GET /* all, requires authorization"]),
        DifferenceCase(
            testDescription: "a public route gets a method", old: ["a GET /a public"], new: ["a GET,PUT /a public"],
            lines: ["added public PUT /a a"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public pattern is widened to a parameter", old: ["a GET /a/b public"],
            new: ["a GET /a/{x} public"], lines: ["added public GET /a/{x} a"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public pattern is widened to a wildcard", old: ["a GET /a/{x} public"],
            new: ["a GET /a/* public"], lines: ["added public GET /a/* a"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public pattern is widened by one depth",
            old: ["a GET /a/{x} public"], new: ["a GET /a/{x} public", "b GET /a/{x}/{y} public"],
            lines: ["added public GET /a/{x}/{y} b"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public pattern is narrowed", old: ["a GET /a/* public"], new: ["a GET /a/{x} public"],
            lines: ["removed GET /a/* a, was public"]),
        DifferenceCase(
            testDescription: "a protected literal is removed and a public wildcard serves its path",
            old: ["all GET /* public", "a GET /a/b protected"], new: ["all GET /* public"],
            lines: ["became public GET /a/b all, was a"], exitCode: 3),
        DifferenceCase(
            testDescription: "a protected / is removed and a public wildcard serves it",
            old: ["all GET /* public", "root GET / protected"], new: ["all GET /* public"],
            lines: ["became public GET / all, was root"], exitCode: 3),
        DifferenceCase(
            testDescription: "a public wildcard takes the / of a protected route", old: ["root GET /{x} protected"],
            new: ["root GET /{x} protected", "all GET /* public"], lines: ["added public GET /* all"], exitCode: 3),
        DifferenceCase(
            testDescription: "a protected wildcard that keeps only deep paths leaves the shallow ones to a public one",
            old: ["all GET /* public", "a GET /a/* protected"], new: ["all GET /* public", "a GET /a/{x}/* protected"],
            lines: ["became public GET /a/ all, was a", "removed GET /a/{any} a, was requires authorization"],
            exitCode: 3),
        DifferenceCase(
            testDescription: "a protected wildcard becomes one of a fixed depth",
            old: ["all GET /* public", "a GET /a/* protected"], new: ["all GET /* public", "a GET /a/{x} protected"],
            lines: ["became public GET /a/* all, was a", "removed GET /a/{any}/ a, was requires authorization"],
            exitCode: 3),
        DifferenceCase(
            testDescription: "renamed", old: ["v GET /v protected"], new: ["w GET /v protected"], lines: ["no change"]),
    ]

    private static func config(_ routes: [String]) -> String {
        let head = ConfigFixture.good.split(separator: "routes:\n")[0]
        return head + "routes:\n"
            + routes.map { line in
                let parts = line.split(separator: " ")
                return """
                      - name: \(parts[0])
                        methods: [\(parts[1])]
                        path: \(parts[2].contains("{") ? "\"\(parts[2])\"" : String(parts[2]))
                        upstream: api
                        requiresAuthorization: \(parts[3] == "protected")

                    """
            }.joined()
    }
}
