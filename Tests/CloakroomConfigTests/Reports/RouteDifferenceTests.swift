import CloakroomConfig
import Testing

/// A route, as short as a table of examples needs it: `name METHODS path public|protected`.
struct DifferenceCase: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let old: [String]
    let new: [String]
    let lines: [String]
    var exitCode: Int32 = 0
}

@Suite struct RouteDifferenceTests {
    @Test(arguments: cases)
    func theDifferenceIsWhatRequestsSee(_ example: DifferenceCase) throws {
        let old = try ConfigFolder(Self.config(example.old))
        let new = try ConfigFolder(Self.config(example.new))
        let report = new.report { new in old.report { Report.routes(new, comparedWith: $0) } }
        let lines = report.text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(lines == example.lines)
        #expect(report.exitCode == example.exitCode)
    }

    @Test func mistakesOfEitherSideEndTheComparison() throws {
        let bad = try ConfigFolder("{}")
        let good = try ConfigFolder()
        #expect(bad.report { bad in good.report { Report.routes(bad, comparedWith: $0) } }.exitCode == 1)
        #expect(good.report { good in bad.report { Report.routes(good, comparedWith: $0) } }.exitCode == 1)
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
                "became public GET /a/b w, was v", "added GET /{y}/b w, public",
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
                "added GET /b b, public", "added GET /c c, requires authorization", "removed GET /a a, was public",
            ]),
        DifferenceCase(
            testDescription: "shadowed by a more specific one", old: ["v GET /v/* protected"],
            new: ["v GET /v/* protected", "x GET /v/x protected"], lines: ["shadowed GET /v/x v, now served by x"]),
        DifferenceCase(
            testDescription: "renamed", old: ["v GET /v protected"], new: ["w GET /v protected"], lines: ["no change"]),
    ]

    private static func config(_ routes: [String]) -> String {
        let head = ConfigFolder.good.split(separator: "routes:\n")[0]
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
