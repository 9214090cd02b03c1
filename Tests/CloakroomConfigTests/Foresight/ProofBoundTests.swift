import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite("The work of prove is bounded")
struct ProofBoundTests {
    @Test("What would be decided for too long is an error")
    func bounds() throws {
        let names = (0..<13).map { "{p\($0)}" }.joined(separator: "/")
        let route = "  - { name: long, path: \"/a/\(names)\", forwardAs: \"/\(names)/zz\", \(newRoute) }\n"
        let wanted = String(repeating: "/x", count: 13)
        let yaml = try ProofTests.edited(
            "prove:\n", "\(route)prove:\n  - { name: it, never: served, paths: [\"\(wanted)/yy\"] }\n")
        let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(report.exitCode, equals: 1)
        expect(report.text.contains("distinguish too many classes of paths (prove"), "\(report.text)")
        let loaded = try ConfigFixture(ProofTests.good).load()
        let proof = try Proof(loaded.statements, about: loaded.configuration)
        #expect(throws: TooManyClasses.self) { try proof.verdicts(atMost: 1_000) }
    }

    /// A limit that is enough to decide, at most twice the number of decisions.
    private static func needed(_ proof: Proof) -> Int {
        var limit = 1_024
        while (try? proof.verdicts(atMost: limit)) == nil { limit *= 2 }
        return limit
    }

    @Test("Comparisons of the paths that 60 hosts rewrite with 40 statements are counted")
    func manyHosts() throws {
        let go = "\(ProofTests.go), path: \"/go/{page}\", forwardAs: \"/{page}\""
        var configuration = try ConfigFixture(ProofTests.extended(go)).load().configuration
        let route = try require(configuration.routes.first { $0.name == "go" })
        for number in 0..<60 {
            var route = route
            (route.name, route.hosts) = ("go\(number)", ["h\(number).example"])
            configuration.routes.append(route)
        }
        let hidden = Statement.Conditions(paths: [try PathPattern("/hidden/*")])
        let statements = (0..<40).map { Statement(name: "\($0)", scope: hidden) }
        let one = try Self.needed(Proof([statements[0]], about: configuration))
        let all = try Proof(statements, about: configuration)
        #expect(throws: TooManyClasses.self) { try all.verdicts(atMost: 3 * one) }
    }

    @Test("40 routes and 60 statements reach the limit of decisions, which is named")
    func manyRoutes() throws {
        var configuration = try ConfigFixture(ProofTests.good).load().configuration
        let route = try require(configuration.routes.first { $0.name == "admin" })
        for number in 0..<40 {
            var route = route
            (route.name, route.pattern) = ("r\(number)", try PathPattern("/r\(number)/{id}"))
            route.require = SessionRequirement(claims: [RequiredClaim("groups", in: ["g\(number % 8)"])])
            configuration.routes.append(route)
        }
        let writes = Statement.Conditions(methods: [Statement.unsafeMethods])
        let statements = (0..<60).map { number in
            Statement(
                name: "\(number)", scope: writes,
                unless: Statement.Conditions(claims: [RequiredClaim("groups", in: ["g\(number % 8)", "admin"])]))
        }
        let proof = try Proof(statements, about: configuration)
        let error = #expect(throws: TooManyClasses.self) { try proof.verdicts(atMost: 2_000) }
        expect(error?.message.contains("more than 10000000 requests"), equals: true)
    }
}
