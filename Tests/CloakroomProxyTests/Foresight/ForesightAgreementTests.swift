import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomProxy

@Suite("prove and replay agree with the decider")
struct ForesightAgreementTests {
    static let yaml = """
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
            accessTokens: { audience: [orders] }
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
          - { name: in, methods: [GET], path: /in/*, stripPrefix: /in, upstream: api, requiresAuthorization: false }
          - { name: app, methods: [GET, POST], path: /app, upstream: api, requiresAuthorization: true, authorization: either }
          - { name: machine, methods: [POST], path: /machine, upstream: api, requiresAuthorization: true, authorization: bearer }
          - { name: pass, methods: [GET, POST], path: /pass, upstream: api, requiresAuthorization: true, authorization: pass }
          - { name: live, methods: [GET], path: /live, upstream: api, requiresAuthorization: true, websocket: true }

        """

    /// The number of requests; `.ci/nightly` asks about a million.
    static let count =
        ProcessInfo.processInfo.environment["CLOAKROOM_FORESIGHT_REQUESTS"].flatMap { Int($0) }.map { max($0, 1) }
        ?? 10_000

    /// A statement, and whether a served request breaks it.
    struct Claim: Sendable, CustomTestStringConvertible {
        let text: String
        let holds: Bool
        /// Whether the shortest request that breaks it is permitted with a session.
        var hasSession = false
        let isBroken: @Sendable (Asked) -> Bool

        var testDescription: String { text }
    }

    /// A request and the permit that the decider gave; `nil` if it is not forwarded.
    struct Asked {
        let method: String
        let path: String
        /// The path that the upstream receives.
        let sent: String
        /// Of the session or of the access token.
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
            (Asked.isAdmin($0.path) || Asked.isAdmin($0.sent)) && $0.permit != nil
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
        Claim(text: "ready: writesFromOwnPages", holds: false, hasSession: true) {
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
        // Access tokens, and fields that only the upstream verifies.
        Claim(text: "never: served, paths: [/app], methods: [POST], unless: { session: true }", holds: true) {
            $0.path == "/app" && $0.method == "POST" && $0.permit?.hasSession == false
        },
        Claim(
            text: "never: served, paths: [/app], methods: [POST], claims: { groups: [staff] }", holds: false,
            hasSession: true
        ) {
            $0.path == "/app" && $0.method == "POST" && $0.permit?.hasSession == true
                && $0.groups?.contains("staff") == true
        },
        Claim(text: "never: served, paths: [/machine], methods: [POST], session: true", holds: false, hasSession: true)
        {
            $0.path == "/machine" && $0.permit?.hasSession == true
        },
        Claim(text: "never: served, paths: [/pass], methods: [POST], unless: { session: true }", holds: false) {
            $0.path == "/pass" && $0.method == "POST" && $0.permit?.hasSession == false
        },
    ]

    /// With a required field, which pages of other origins cannot send, and which is not required of WebSockets.
    private static let fieldClaims = [
        Claim(text: "ready: writesFromOwnPages", holds: true) {
            $0.method == "POST" && $0.permit?.hasSession == true && $0.origin != nil
        },
        Claim(text: "never: served, session: true, crossSite: true, unless: { paths: [/live] }", holds: true) {
            $0.permit?.hasSession == true && $0.origin != nil && $0.path != "/live"
        },
        Claim(text: "never: served, paths: [/live], session: true, crossSite: true", holds: false, hasSession: true) {
            $0.path == "/live" && $0.permit?.hasSession == true && $0.origin != nil
        },
    ]

    private struct NotForwarded: Error {
        let text: String
    }

    static func sources(_ statement: String = "", requiresField: Bool = false) -> ConfigSources {
        var sources = ConfigSources(file: nil)
        let field = requiresField ? "csrf: { requireHeader: X-CSRF=1, " : "csrf: { "
        let prove = statement.isEmpty ? "" : "prove:\n  - { name: it, \(statement) }\n"
        sources.standardInput = Array((yaml.replacing("csrf: { ", with: field) + prove).utf8)
        return sources
    }

    /// The decision about a request with a session or a token, which is valid.
    private static func decide(
        _ request: inout InboundRequest, _ decider: RequestDecider, _ session: Session?, now: WallTime
    ) -> RequestDecision {
        let decision = decider.decide(
            &request, session: { _, _ in session.map { .active($0) } ?? .missing(.noSession) }, limit: { _, _ in nil },
            now: now)
        guard case .verify(_, let route) = decision, let session else { return decision }
        return decider.authorize(request, route: route, token: .active(session), now: now)
    }

    static let webSocket =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"

    /// Asks the decider about random requests.
    /// - Parameter body: Called with each request, the name of the decision in the log, and the status.
    private static func ask(
        _ count: Int, seed: UInt64, requiresField: Bool,
        _ body: (Asked, _ request: InboundRequest, _ decision: RequestDecision) throws -> Void
    ) throws {
        let configuration = try loadConfig(sources(requiresField: requiresField)).configuration
        let config = try GatewaySetup().configuration { $0 = configuration }.makeConfig()
        let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: 0)
        var generator = SeededGenerator(seed: seed)
        let words = [
            "admin", "Admin", "admin.", "own", "old", "docs", "moved", "a", "%20", "%253F", "admin%253F", "auth",
        ]
        let paths = [
            "/", "/admin/a", "/own/a", "/old/admin/a", "/in/admin/a", "/docs", "/moved", "/app", "/machine", "/pass",
            "/live",
        ]
        let now = WallTime(seconds: 2_000_000_000)
        for _ in 0..<count {
            var path = ""
            if generator.chance(600) {
                path = paths[generator.below(paths.count)]
            } else {
                for index in 0..<generator.below(4) {
                    path += index > 0 && generator.chance(200) ? "%252F" : "/"
                    path += words[generator.below(words.count)]
                }
                if path.isEmpty || generator.chance(100) { path += "/" }
            }
            let method = ["GET", "GET", "HEAD", "POST", "POST", "PUT", "OPTIONS"][generator.below(7)]
            let origin = [nil, nil, "https://other.example", "https://shop.example.com"][generator.below(4)]
            var fields = requiresField && origin == nil ? "X-CSRF: 1\r\n" : ""
            var groups: [String]?
            // Pages of other origins cannot add a token.
            let credential = generator.below(origin == nil ? 4 : 3)
            if credential == 1 || credential == 3 {
                groups = [[], ["admin"], ["staff", "admin"], ["staff"]][generator.below(4)]
                fields +=
                    credential == 1
                    ? "Cookie: cloakroom=\(Ask.ticket.cookieValue)\r\n" : "Authorization: Bearer token\r\n"
            } else if credential == 2 {
                fields += "Authorization: Basic am86c2VjcmV0\r\n"
            }
            if let origin { fields += "Origin: \(origin)\r\nSec-Fetch-Site: cross-site\r\n" }
            if method == "GET", generator.chance(400) { fields += webSocket }
            var request = try RequestDeciderTests.makeRequest(
                "\(method) \(path) HTTP/1.1\r\nHost: localhost:8080\r\n\(fields)\r\n")
            let session = try groups.map { try Self.session($0, configuration, now) }
            let decision = decide(&request, decider, session, now: now)
            var permit: UpstreamPermit?
            if case .forward(let given) = decision { permit = given }
            let route = permit.map { configuration.routes[$0.route] }
            if route?.redirect != nil { permit = nil }
            let sent = request.sentPath.isEmpty ? path : String(decoding: request.sentPath, as: UTF8.self)
            try body(
                Asked(
                    method: method, path: path, sent: sent, groups: groups, origin: origin, permit: permit, route: route
                ),
                request, decision)
        }
    }

    static func session(
        _ groups: [String], _ configuration: GatewayConfiguration, _ now: WallTime
    ) throws -> Session {
        let identity = try require(configuration.identities.first)
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

    @Test(
        "No request breaks a statement that holds, and the decider serves what breaks the others",
        arguments: [false, true])
    func agreement(requiresField: Bool) throws {
        let claims = requiresField ? Self.fieldClaims : Self.claims
        var broken = claims.map { _ in 0 }
        try Self.ask(Self.count, seed: 34, requiresField: requiresField) { asked, _, _ in
            for (index, claim) in claims.enumerated() where claim.isBroken(asked) {
                broken[index] += 1
                expect(!claim.holds, "\(claim.text): \(asked.method) \(asked.path) \(asked.groups ?? [])")
            }
        }
        for (claim, count) in zip(claims, broken) {
            let report = CommandReport.prove(Self.sources(claim.text, requiresField: requiresField))
            expect(report.text.hasPrefix(claim.holds ? "holds: it\n" : "fails: it\n"), "\(claim.text): \(report.text)")
            expect(count == 0, equals: claim.holds, "\(claim.text): \(count)")
        }
    }

    @Test(
        "The decider serves each counterexample, which a test sends as it is printed", arguments: [false, true])
    func counterexamples(requiresField: Bool) throws {
        for claim in requiresField ? Self.fieldClaims : Self.claims where !claim.holds {
            let loaded = try loadConfig(Self.sources(claim.text, requiresField: requiresField))
            let config = try GatewaySetup().configuration { $0 = loaded.configuration }.makeConfig()
            let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: 0)
            let proof = try Proof(loaded.statements, about: loaded.configuration)
            guard case .fails(let example)? = try proof.verdicts().first else { throw NotForwarded(text: claim.text) }
            var request = try RequestDeciderTests.makeRequest(
                "\(example.method) \(example.path) HTTP/1.1\r\nHost: \(example.host ?? "")\r\n"
                    + (example.session == nil ? "" : "Cookie: cloakroom=\(Ask.ticket.cookieValue)\r\n")
                    + (example.authorization == nil ? "" : "Authorization: Bearer token\r\n")
                    + (example.outcome.hasSuffix("as a WebSocket") ? Self.webSocket : "")
                    + (example.origin.map { "Origin: \($0)\r\nSec-Fetch-Site: cross-site\r\n" } ?? "") + "\r\n")
            let described = example.session ?? example.authorization ?? ""
            let groups = ["admin", "staff"].filter { described.contains($0) }
            let session = try Self.session(groups, loaded.configuration, DecisionTables.now)
            let decision = Self.decide(&request, decider, session, now: DecisionTables.now)
            guard case .forward(let permit) = decision else { throw NotForwarded(text: example.curl) }
            expect(loaded.configuration.routes[permit.route].name, equals: example.route, "\(example.curl)")
            expect(permit.hasSession, equals: claim.hasSession, "\(example.curl)")
        }
    }

    @Test("A log of the decider, replayed with its configuration, has no difference", arguments: [false, true])
    func replay(requiresField: Bool) throws {
        let names = try loadConfig(Self.sources()).configuration.routes.map(\.name)
        var log: [String] = []
        try Self.ask(max(Self.count / 10, 4_000), seed: 43, requiresField: requiresField) { asked, request, decision in
            guard let (name, status) = Self.logged(decision, asked) else { return }
            var more = ""
            if let permit = asked.permit, let route = asked.route {
                more += "\"upstream\":\"\(route.upstream == 0 ? "api" : "billing")\","
                if permit.hasSession { more += "\"session\":\"0be95bab328bcd6b\"," }
                if !request.sentPath.isEmpty {
                    more += "\"sent_path\":\"\(String(decoding: request.sentPath, as: UTF8.self))\","
                }
            }
            if let credential = request.credential { more += "\"credential\":\"\(credential)\"," }
            if name == "unauthenticated" { more += "\"unauthorized_reason\":\"no_session\"," }
            let index = request.routeIndex
            let route = index < 0 ? "(unmatched)" : index < names.count ? names[index] : "(accounts)"
            log.append(
                "{\"logger\":\"access\",\"method\":\"\(asked.method)\",\"path\":\"\(asked.path)\",\"route\":\"\(route)\","
                    + "\(more)\"status\":\(status),\"decision\":\"\(name)\",\"host\":\"localhost:8080\"}\n")
        }
        let report = try CommandReport.replay(Self.sources(requiresField: requiresField)) {
            $0.read(Array(log.joined().utf8))
        }
        expect(report.exitCode, equals: 0, "\(report.text)")
        expect(report.text.hasSuffix("\n\(log.count) requests: 0 decided otherwise\n"), "\(report.text)")
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
