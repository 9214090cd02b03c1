import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomProxy

@Suite("prove and replay agree with the decider")
struct ForesightAgreementTests {
    private static let yaml = """
        listeners: [{ address: "127.0.0.1:8080" }]
        upstreams:
          api: { targets: ["http://127.0.0.1:9000"], apiToken: { value: demo } }
          billing: { targets: ["http://127.0.0.1:9001"] }
        identities:
          company:
            issuer: https://id.example.com
            client: { id: cloakroom, secret: 0123456789-abc }
            tokensFor: [api, billing]
            keep: { claims: [groups] }
        accounts: { publicURL: "http://localhost:8080" }
        session: { cookie: { secure: false } }
        csrf: { trustedOrigins: ["https://shop.example.com"] }
        routes:
          - { name: page, methods: [GET, POST], path: /*, upstream: api, requiresAuthorization: false }
          - { name: admin, methods: [GET, POST], path: /admin/*, upstream: api, requiresAuthorization: true, inject: [bearer], require: { claims: { groups: [admin] } } }
          - { name: own, methods: [GET], path: "/own/{id}", upstream: billing, requiresAuthorization: true, inject: [bearer] }
          - { name: old, methods: [GET], path: "/old/{a}/*", forwardAs: "/{a}/*", upstream: api, requiresAuthorization: false }
          - { name: docs, methods: [GET], path: /docs, upstream: api, requiresAuthorization: false, inject: [apiToken] }
          - { name: moved, methods: [GET], path: /moved, redirect: { to: /docs } }

        """

    /// A statement, and whether a served request breaks it.
    struct Claim: Sendable, CustomTestStringConvertible {
        let text: String
        let holds: Bool
        let isBroken: @Sendable (Asked) -> Bool

        var testDescription: String { text }
    }

    /// A request and the permit that the decider gave; `nil` if it is not forwarded.
    struct Asked {
        let method: String
        let path: String
        let groups: [String]?
        let origin: String?
        let permit: UpstreamPermit?
        let route: Route?

        /// Whether a lenient server could read a path as one below `/admin`, in either reading of an encoded slash.
        static func isAdmin(_ path: String) -> Bool {
            ["/", "-"].contains { separator in
                let decoded = path.replacing("%252F", with: separator).replacing("%20", with: " ")
                let end = decoded.firstRange(of: "%253F")?.lowerBound ?? decoded.endIndex
                let read = separator == "/" ? decoded[..<end] : decoded[...]
                let segments = read.split(separator: "/").map { segment in
                    String(segment.lowercased().reversed().drop { $0 == "." || $0 == " " }.reversed())
                }
                return segments.first { !$0.isEmpty } == "admin"
            }
        }
    }

    private static let claims = [
        Claim(text: "never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } }", holds: false) {
            let sent = $0.route?.name == "old" ? String($0.path.dropFirst("/old".count)) : $0.path
            return (Asked.isAdmin($0.path) || Asked.isAdmin(sent)) && $0.permit != nil
                && !($0.permit?.hasSession == true && $0.groups?.contains("admin") == true)
        },
        Claim(
            text: "never: served, paths: [/admin/*], methods: [POST], unless: { claims: { groups: [admin] } }",
            holds: true
        ) {
            Asked.isAdmin($0.path) && $0.method == "POST" && $0.permit != nil && $0.groups?.contains("admin") != true
        },
        Claim(text: "never: forwarded, upstreams: [billing], unless: { sends: [bearer] }", holds: true) {
            $0.route?.upstream == 1 && $0.permit?.hasBearer == false
        },
        Claim(text: "never: served, methods: [unsafe], unless: { session: true }", holds: false) {
            $0.method == "POST" && $0.permit?.hasSession == false
        },
        Claim(text: "ready: writesFromOwnPages", holds: false) {
            $0.method == "POST" && $0.permit?.hasSession == true && $0.origin != nil
        },
        Claim(
            text: "never: served, session: true, crossSite: true, unless: { methods: [GET, HEAD, POST] }", holds: true
        ) {
            !["GET", "HEAD", "POST"].contains($0.method) && $0.permit?.hasSession == true && $0.origin != nil
        },
        Claim(text: "never: forwarded, sends: [apiToken], unless: { paths: [/docs] }", holds: true) {
            $0.permit?.includesAPIToken == true && $0.path != "/docs"
        },
    ]

    private struct NotForwarded: Error {
        let text: String
    }

    private static func sources(_ statement: String = "") -> ConfigSources {
        var sources = ConfigSources(file: nil)
        let prove = statement.isEmpty ? "" : "prove:\n  - { name: it, \(statement) }\n"
        sources.standardInput = Array((yaml + prove).utf8)
        return sources
    }

    /// Asks the decider about random requests.
    /// - Parameter body: Called with each request, the name of the decision in the log, and the status.
    private static func ask(
        _ count: Int, seed: UInt64,
        _ body: (Asked, _ request: InboundRequest, _ decision: RequestDecision) throws -> Void
    ) throws {
        let configuration = try loadConfig(sources()).configuration
        let config = try GatewaySetup().configuration { $0 = configuration }.makeConfig()
        let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: 0)
        var generator = SeededGenerator(seed: seed)
        let words = [
            "admin", "Admin", "admin.", "own", "old", "docs", "moved", "a", "%20", "%253F", "admin%253F", "auth",
        ]
        let now = WallTime(seconds: 2_000_000_000)
        for _ in 0..<count {
            var path = ""
            for index in 0..<generator.below(4) {
                path += index > 0 && generator.chance(200) ? "%252F" : "/"
                path += words[generator.below(words.count)]
            }
            if path.isEmpty || generator.chance(100) { path += "/" }
            let method = ["GET", "HEAD", "POST", "PUT", "OPTIONS"][generator.below(5)]
            let groups: [String]? = [nil, [], ["admin"], ["staff", "admin"], ["staff"]][generator.below(5)]
            let origin = [nil, "https://other.example", "https://shop.example.com"][generator.below(3)]
            var fields = groups == nil ? "" : "Cookie: cloakroom=\(Ask.ticket.cookieValue)\r\n"
            if let origin { fields += "Origin: \(origin)\r\nSec-Fetch-Site: cross-site\r\n" }
            var request = try RequestDeciderTests.makeRequest(
                "\(method) \(path) HTTP/1.1\r\nHost: localhost:8080\r\n\(fields)\r\n")
            let session = try groups.map { try Self.session($0, configuration, now) }
            let decision = decider.decide(
                &request, session: { _ in session.map { .active($0) } ?? .missing(.noSession) },
                limit: { _, _ in nil }, now: now)
            var permit: UpstreamPermit?
            if case .forward(let given) = decision { permit = given }
            let route = permit.map { configuration.routes[$0.route] }
            if route?.redirect != nil { permit = nil }
            try body(
                Asked(method: method, path: path, groups: groups, origin: origin, permit: permit, route: route),
                request,
                decision)
        }
    }

    private static func session(
        _ groups: [String], _ configuration: GatewayConfiguration, _ now: WallTime
    ) throws -> Session {
        let identity = try #require(configuration.identities.first)
        let list = groups.map { "\"\($0)\"" }.joined(separator: ",")
        return Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "jo")),
            tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: now), source: identity.source,
            provenance: SessionProvenance(
                identity: identity.name, issuer: identity.issuer, subject: "jo", nonceHash: [],
                claims: Array("{\"groups\":[\(list)]}".utf8)),
            createdAt: SessionTime(milliseconds: 0), expiresAt: SessionTime(milliseconds: .max),
            lastUsedAt: SessionTime(milliseconds: 0))
    }

    @Test("No request breaks a statement that holds, and the decider serves what breaks the others")
    func agreement() throws {
        var broken = Self.claims.map { _ in 0 }
        try Self.ask(10_000, seed: 34) { asked, _, _ in
            for (index, claim) in Self.claims.enumerated() where claim.isBroken(asked) {
                broken[index] += 1
                #expect(!claim.holds, "\(claim.text): \(asked.method) \(asked.path) \(asked.groups ?? [])")
            }
        }
        for (claim, count) in zip(Self.claims, broken) {
            let report = CommandReport.prove(Self.sources(claim.text))
            #expect(report.text.hasPrefix(claim.holds ? "holds: it\n" : "fails: it\n"), "\(claim.text): \(report.text)")
            #expect((count == 0) == claim.holds, "\(claim.text): \(count)")
        }
    }

    @Test("The decider serves each counterexample, which a test sends as it is printed")
    func counterexamples() throws {
        let config = try GatewaySetup().configuration { [loaded = try loadConfig(Self.sources())] in
            $0 = loaded.configuration
        }.makeConfig()
        let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: 0)
        for claim in Self.claims where !claim.holds {
            let loaded = try loadConfig(Self.sources(claim.text))
            let proof = try Proof(loaded.statements, about: loaded.configuration)
            guard case .fails(let example)? = proof.verdicts().first else { throw NotForwarded(text: claim.text) }
            var request = try RequestDeciderTests.makeRequest(
                "\(example.method) \(example.path) HTTP/1.1\r\nHost: \(example.host ?? "")\r\n"
                    + (example.session == nil ? "" : "Cookie: cloakroom=\(Ask.ticket.cookieValue)\r\n")
                    + (example.origin.map { "Origin: \($0)\r\nSec-Fetch-Site: cross-site\r\n" } ?? "") + "\r\n")
            let groups = example.session?.contains("admin") == true ? ["admin"] : []
            let session = try Self.session(groups, loaded.configuration, DecisionTables.now)
            let decision = decider.decide(
                &request, session: { _ in .active(session) }, limit: { _, _ in nil }, now: DecisionTables.now)
            guard case .forward(let permit) = decision else { throw NotForwarded(text: example.curl) }
            #expect(loaded.configuration.routes[permit.route].name == example.route, "\(example.curl)")
            #expect(permit.hasSession == (example.session != nil && claim.text == "ready: writesFromOwnPages"))
        }
    }

    @Test("A log of the decider, replayed with its configuration, has no difference")
    func replay() throws {
        let names = try loadConfig(Self.sources()).configuration.routes.map(\.name)
        var log: [String] = []
        try Self.ask(10_000, seed: 43) { asked, request, decision in
            guard let (name, status) = Self.logged(decision, asked) else { return }
            var more = ""
            if let permit = asked.permit, let route = asked.route {
                more += "\"upstream\":\"\(route.upstream == 0 ? "api" : "billing")\","
                if permit.hasSession { more += "\"session\":\"0be95bab328bcd6b\"," }
                if !request.sentPath.isEmpty {
                    more += "\"sent_path\":\"\(String(decoding: request.sentPath, as: UTF8.self))\","
                }
            }
            if name == "unauthenticated" { more += "\"unauthorized_reason\":\"no_session\"," }
            let index = request.routeIndex
            let route = index < 0 ? "(unmatched)" : index < names.count ? names[index] : "(accounts)"
            log.append(
                "{\"logger\":\"access\",\"method\":\"\(asked.method)\",\"path\":\"\(asked.path)\",\"route\":\"\(route)\","
                    + "\(more)\"status\":\(status),\"decision\":\"\(name)\",\"host\":\"localhost:8080\"}\n")
        }
        let report = try CommandReport.replay(Self.sources()) { $0.read(Array(log.joined().utf8)) }
        #expect(report.exitCode == 0, "\(report.text)")
        #expect(report.text.hasSuffix("\n\(log.count) requests: 0 decided otherwise\n"), "\(report.text)")
    }

    /// How the gateway logs a decision.
    private static func logged(_ decision: RequestDecision, _ asked: Asked) -> (String, Int)? {
        switch decision {
        case .forward:
            if asked.route?.redirect != nil { return ("redirected", 308) }
            return (asked.route?.requiresAuthorization == true ? "forwarded" : "public", 200)
        case .problem(let document, let decision, _): return ("\(decision.label)", document.problem.status)
        case .denied(let denial): return ("\(denial.decision.label)", 403)
        case .own: return ("local", 200)
        default: return nil
        }
    }
}
