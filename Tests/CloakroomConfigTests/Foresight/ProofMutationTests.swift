import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomConfig

/// Twelve changes of each of five configurations, whose names are chosen by a seed.
@Suite("prove finds the changes that break a statement, and no others")
struct ProofMutationTests {
    /// A configuration with statements that hold.
    struct Base: Sendable {
        let seed: UInt64
        let yaml: String
        let guarded, group, first, second: String

        init(seed: UInt64) {
            var generator = SeededGenerator(seed: seed)
            let words = ["admin", "audit", "ledger", "vault", "ops", "payroll", "grants", "orders", "parcels"]
                .shuffled(using: &generator)
            self.seed = seed
            guarded = words[0]
            group = ["admin", "leads", "owners", "board"][generator.below(4)]
            (first, second) = (["api", "core", "shop"][generator.below(3)], ["billing", "mail"][generator.below(2)])
            let (settings, identity, route) = Self.features(first)[Int(seed % 5)]
            yaml = """
                listeners: [{ address: "127.0.0.1:8080" }]
                upstreams:
                  \(first): { targets: ["http://127.0.0.1:9000"], apiToken: { value: demo } }
                  \(second): { targets: ["http://127.0.0.1:9001"], apiToken: { value: demo } }
                \(ConfigFixture.company)
                    tokensFor: [\(first), \(second)]
                    keep: { claims: [groups] }
                \(identity)
                accounts: { publicURL: "http://localhost:8080", login: { returnTo: / } }
                session: { cookie: { secure: false } }
                \(settings)
                routes:
                  - { name: page, methods: [GET], path: /*, upstream: \(first), requiresAuthorization: false }
                  - { name: guarded, methods: [GET, POST], path: /\(guarded)/*, upstream: \(first), requiresAuthorization: true, inject: [bearer], require: { claims: { groups: [\(group)] } } }
                  - { name: own, methods: [GET, POST], path: "/\(words[1])/{id}", upstream: \(second), requiresAuthorization: true, inject: [apiToken, bearer] }
                  - { name: old, methods: [GET], path: /\(words[2])/*, forwardAs: /pub/*, upstream: \(first), requiresAuthorization: false }
                \(route)
                prove:
                  - { name: members, never: served, paths: [/\(guarded)/*], unless: { claims: { groups: [\(group)] } } }
                  - { name: tokens, never: forwarded, upstreams: [\(second)], unless: { sends: [bearer] } }
                  - { name: key, never: forwarded, sends: [apiToken], unless: { upstreams: [\(second)] } }
                  - { name: writes, ready: writesNeedSession }

                """
        }

        /// Settings, keys of the identity, and a route: hosts, access tokens, WebSockets, another rewrite, or nothing.
        private static func features(_ upstream: String) -> [(settings: String, identity: String, route: String)] {
            let rest = "upstream: \(upstream), requiresAuthorization"
            return [
                ("", "", ""),
                ("", "", "  - { name: host, hosts: [a.test], methods: [GET], path: /host, \(rest): false }"),
                (
                    "", "    accessTokens: { audience: [orders] }",
                    "  - { name: app, methods: [GET, POST], path: /app, \(rest): true, authorization: either }"
                ),
                (
                    "csrf: { trustedOrigins: [\"https://shop.example.com\"] }", "",
                    "  - { name: live, methods: [GET], path: /live, \(rest): true, websocket: true }"
                ),
                (
                    "", "",
                    "  - { name: v2, methods: [GET], path: \"/v2/{a}/x\", forwardAs: \"/pub/{a}/x\", \(rest): false }"
                ),
            ]
        }
    }

    struct Mutation: Sendable, CustomTestStringConvertible {
        let base: Base
        let change: (old: String, new: String, failing: [String])

        var testDescription: String { "seed \(base.seed): \(change.old) => \(change.new)" }
    }

    static let mutations = (0..<5).map { Base(seed: $0) }.flatMap { base -> [Mutation] in
        let (path, claims) = ("path: /\(base.guarded)/*,", "require: { claims: { groups: [\(base.group)] } }")
        let changes: [(String, String, [String])] = [
            // A route made public, a wider pattern, a removed claim, a further value, another token.
            ("true, inject: [bearer], \(claims)", "false", ["members", "writes"]),
            (path, "path: \"/\(base.guarded)/{id}\",", ["members"]),
            (", \(claims)", "", ["members"]),
            (claims, claims.replacing("]", with: ", staff]"), ["members"]),
            ("inject: [bearer],", "inject: [apiToken, bearer],", ["key"]),
            ("inject: [apiToken, bearer]", "inject: [apiToken]", ["tokens"]),
            // A swapped upstream, and a rewrite.
            ("path: /*, upstream: \(base.first)", "path: /*, upstream: \(base.second)", ["tokens"]),
            ("forwardAs: /pub/*", "forwardAs: /\(base.guarded)/*", ["members"]),
            // Harmless ones.
            ("name: page", "name: site", []),
            ("methods: [GET, POST], \(path)", "methods: [GET], \(path)", []),
            (claims, "require: { claims: { groups: { all: [\(base.group), staff] } } }", []),
            ("http://127.0.0.1:9001", "http://127.0.0.1:9002", []),
        ]
        return changes.map { Mutation(base: base, change: $0) }
    }

    @Test("Each of 60 changes breaks the expected statements", arguments: mutations)
    func sixty(mutation: Mutation) throws {
        expect(Self.mutations.count, equals: 60)
        let (yaml, change) = (mutation.base.yaml, mutation.change)
        guard yaml.contains(change.old) else { throw ConfigFixture.ReplacementNotFound(piece: change.old) }
        let report = try ConfigFixture(yaml.replacing(change.old, with: change.new)).report { CommandReport.prove($0) }
        let failing = report.text.split(separator: "\n").map(String.init).filter { $0.hasPrefix("fails: ") }
        expect(failing, equals: change.failing.map { "fails: \($0)" }, "\(report.text)")
        expect(report.text.split(separator: "\n").count { $0.hasPrefix("holds: ") }, equals: 4 - change.failing.count)
        expect(report.exitCode, equals: (change.failing.isEmpty ? 0 : 3), "\(report.text)")
    }
}
