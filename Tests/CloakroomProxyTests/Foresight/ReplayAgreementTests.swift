import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomProxy

/// Random configurations are changed at random. The deciders of both are asked about the same requests, and `replay` reads
/// what the first one logs.
@Suite("replay reports what a changed decider decides otherwise")
struct ReplayAgreementTests {
    /// What happens to a request, as far as `replay` compares it.
    private enum Outcome: Equatable {
        case rejected(String, status: Int)
        /// An upstream, a folder or a redirect, the path that is sent, and whether it is a WebSocket.
        case permitted(String, sent: String, isTunnel: Bool)
    }

    /// What a decider makes of a request, and the rest of its line in the log.
    private struct Result {
        let outcome: Outcome
        let log: String
        /// Whether the log states a session.
        let hasSession: Bool
        /// What decided in place of a session.
        let credential: String?
    }

    /// A request, as it is sent to each decider.
    private struct Request {
        let method: String
        let path: String
        let host: String
        let listener: Int
        var fields = ""
        /// Of a session or a token; `nil` without one.
        var groups: [String]?
        var hasField = false
        var isTokenInvalid = false
        var isHandshake = false
    }

    private let now = WallTime(seconds: 2_000_000_000)

    // MARK: - Configurations

    private static let patterns = ["/*", "/admin/*", "/own/{id}", "/docs", "/in/*", "/app", "/pass", "/live", "/new"]

    /// Changes one thing.
    private func change(_ configuration: inout GatewayConfiguration, _ generator: inout SeededGenerator) throws {
        let index = generator.below(configuration.routes.count)
        var route = configuration.routes[index]
        switch generator.below(12) {
        case 0:
            if configuration.routes.count > 4 { configuration.routes.remove(at: index) }
            return
        case 1: route.action = .forward(upstream: generator.below(2), route.rewrite)
        case 2: route.requiresAuthorization.toggle()
        case 3:
            let all: [RouteCredentials] = [
                .session, .bearer, .either, .pass, .basic, [.session, .basic], [.bearer, .basic],
            ]
            route.credentials = all[generator.below(all.count)]
        case 4: route.allowsWebSocket.toggle()
        case 5: route.methods = [["GET"], ["GET", "POST"], ["POST"], ["PUT", "GET"]][generator.below(4)]
        case 6:
            let pattern = try PathPattern(Self.patterns[generator.below(Self.patterns.count)])
            // Two routes with the same paths are an error.
            guard route.rewrite == nil, !configuration.routes.contains(where: { $0.pattern == pattern }) else { return }
            route.pattern = pattern
        case 7:
            let claims = generator.chance(500) ? [RequiredClaim("groups", in: ["admin"])] : []
            route.require = SessionRequirement(claims: claims)
        case 8:
            // Of the route `moved`, whose target has no parameters.
            guard let redirect = configuration.routes.lazy.compactMap(\.redirect).first else { return }
            route.action = .redirect(redirect)
        case 9: route.hosts = generator.chance(500) ? ["a.test"] : []
        case 10:
            let hosts = [[], ["a.test"], ["localhost"], ["a.test", "localhost"]]
            configuration.listeners[generator.below(2)].hosts = hosts[generator.below(4)]
        default: configuration.listeners[generator.below(2)].redirectToHTTPS = generator.chance(300) ? 8_443 : nil
        }
        // Otherwise it would be an error.
        if route.redirect != nil { (route.requiresAuthorization, route.allowsWebSocket) = (false, false) }
        if !route.requiresAuthorization { (route.credentials, route.require) = (.session, .none) }
        if route.credentials == .pass || route.redirect != nil { route.inject = [] }
        configuration.routes[index] = route
    }

    // MARK: - Requests

    private func makeRequest(_ generator: inout SeededGenerator) -> Request {
        let paths = [
            "/", "/admin/a", "/Admin", "/own/a", "/old/admin/a", "/in/a", "/docs", "/moved", "/app", "/machine",
            "/pass",
            "/live", "/auth", "/new", "/own/a%252Fb",
        ]
        var request = Request(
            method: ["GET", "GET", "GET", "HEAD", "POST", "PUT"][generator.below(6)],
            path: paths[generator.below(paths.count)],
            host: ["localhost:8080", "localhost:8080", "a.test", "b.test"][generator.below(4)],
            listener: generator.below(2))
        switch generator.below(5) {
        case 0: request.fields = "Authorization: Basic am86c2VjcmV0\r\n"
        case 1, 2:
            request.groups = [[], ["admin"], ["staff"]][generator.below(3)]
            request.fields = "Cookie: cloakroom=\(Ask.ticket.cookieValue)\r\n"
        case 3:
            request.groups = [[], ["admin"], ["staff"]][generator.below(3)]
            request.isTokenInvalid = generator.chance(300)
            request.fields = "Authorization: Bearer token\r\n"
        default: break
        }
        request.hasField = request.fields.hasPrefix("Authorization")
        if request.method == "GET", generator.chance(200) {
            request.isHandshake = true
            request.fields += ForesightAgreementTests.webSocket
        }
        return request
    }

    /// Asks a decider.
    /// - Returns: `nil` for what has no line that `replay` compares.
    private func ask(_ asked: Request, _ config: ConfigSnapshot) throws -> Result? {
        let configuration = config.configuration
        let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: asked.listener)
        var request = try RequestDeciderTests.makeRequest(
            "\(asked.method) \(asked.path) HTTP/1.1\r\nHost: \(asked.host)\r\n\(asked.fields)\r\n")
        let session = try asked.groups.map { try ForesightAgreementTests.session($0, configuration, now) }
        var decision = decider.decide(
            &request, session: { _, _ in session.map { .active($0) } ?? .missing(.noSession) }, limit: { _, _ in nil },
            now: now)
        // A name and a password are right, and those of the upstream that signs users in.
        let isBasic = asked.fields.hasPrefix("Authorization: Basic")
        if case .verify(_, let route) = decision, isBasic, let source = configuration.sessionSource {
            let signedIn = Session(
                key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "jo")),
                tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: now), source: source,
                createdAt: SessionTime(milliseconds: 0), expiresAt: SessionTime(milliseconds: .max),
                lastUsedAt: SessionTime(milliseconds: 0))
            decision = decider.authorize(request, route: route, token: .active(signedIn), now: now)
        } else if case .verify(_, let route) = decision, let session {
            decision = decider.authorize(
                request, route: route, token: asked.isTokenInvalid ? .failed(Problem(.invalidToken)) : .active(session),
                now: now)
        }
        let index = request.routeIndex
        let names = configuration.routes.map(\.name)
        let route = index < 0 ? "(unmatched)" : index < names.count ? names[index] : "(accounts)"
        var more = request.credential.map { "\"credential\":\"\($0)\"," } ?? ""
        let outcome: Outcome
        var (label, status, hasSession) = ("", 0, false)
        switch decision {
        case .forward(let permit):
            let route = configuration.routes[permit.route]
            (label, status) = (route.requiresAuthorization ? "forwarded" : "public", 200)
            hasSession = permit.hasSession
            if hasSession { more += "\"session\":\"0be95bab328bcd6b\"," }
            if let redirect = route.redirect {
                (label, status) = ("redirected", redirect.status)
                outcome = .permitted("a redirect", sent: "", isTunnel: false)
            } else {
                let upstream = route.upstream == 0 ? "api" : "billing"
                more += "\"upstream\":\"\(upstream)\","
                let sent = request.sentPath.isEmpty ? asked.path : String(decoding: request.sentPath, as: UTF8.self)
                if !request.sentPath.isEmpty { more += "\"sent_path\":\"\(sent)\"," }
                let isTunnel = asked.isHandshake && route.allowsWebSocket
                if isTunnel { status = 101 }
                outcome = .permitted(upstream, sent: sent, isTunnel: isTunnel)
            }
        case .problem(let document, let decision, _):
            (label, status) = ("\(decision.label)", document.problem.status)
            if decision == .unauthenticated, !asked.isTokenInvalid {
                more += "\"unauthorized_reason\":\"no_session\","
            }
            outcome = .rejected(label, status: status)
        case .denied(let denial):
            (label, status) = ("\(denial.decision.label)", 403)
            outcome = .rejected(label, status: status)
        case .own:
            (label, status) = ("local", 200)
            outcome = .rejected(label, status: status)
        case .redirect:
            (label, status) = ("redirected", 308)
            outcome = .rejected("redirected by a listener", status: status)
        default: return nil
        }
        let address = configuration.listeners[asked.listener].address.description
        return Result(
            outcome: outcome,
            log: "{\"logger\":\"access\",\"method\":\"\(asked.method)\",\"path\":\"\(asked.path)\","
                + "\"route\":\"\(route)\","
                + "\(more)\"status\":\(status),\"decision\":\"\(label)\",\"scheme\":\"http\","
                + "\"listener\":\"\(address)\",\"host\":\"\(asked.host)\"}",
            hasSession: hasSession, credential: request.credential.map { "\($0)" })
    }

    /// Whether the log cannot state what makes the difference, as Foresight.md describes.
    private func isUnstated(_ asked: Request, _ before: Result, _ after: Result) -> Bool {
        if asked.hasField, before.credential == nil { return true }
        // A route that reads only tokens does not state that there was a cookie.
        if asked.groups != nil, !asked.hasField, case .rejected("unauthenticated", _) = before.outcome { return true }
        // Whether it asked for a WebSocket that it did not get.
        if asked.isHandshake, case .permitted(_, _, false) = before.outcome { return true }
        return [before, after].contains { result in
            guard case .rejected(let label, _) = result.outcome else { return false }
            // Claims and origins.
            return label == "forbidden" || label == "csrf_rejected"
        }
    }

    @Test("The requests of random configurations, after random changes")
    func changes() throws {
        var base = try loadConfig(ForesightAgreementTests.sources()).configuration
        base.listeners.append(ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 8_081)))
        var generator = SeededGenerator(seed: 34)
        var (compared, differing, unknown) = (0, 0, 0)
        let count = max(ForesightAgreementTests.count / 10, 2_000)
        let setup = GatewaySetup()
        let telemetry = GatewayTelemetry(settings: setup.settings)
        defer { telemetry.shutdown() }
        while compared < count {
            var old = base
            for _ in 0..<generator.below(5) { try change(&old, &generator) }
            var new = old
            for _ in 0...generator.below(2) { try change(&new, &generator) }
            let before = try setup.makeConfig(old, telemetry)
            let after = try setup.makeConfig(new, telemetry)
            let same = try Replay(old, name: "old")
            let changed = try Replay(new, name: "new")
            for _ in 0..<50 {
                let asked = makeRequest(&generator)
                guard let was = try ask(asked, before), let now = try ask(asked, after) else { continue }
                compared += 1
                var own = same
                own.read(Array(was.log.utf8))
                if !own.result.groups.isEmpty { Issue.record("not by its own: \(was.log) \(own.result.groups)") }
                var replay = changed
                replay.read(Array(was.log.utf8))
                let group = replay.result.groups.first
                // What was verified, and is not any more.
                let isVerified = was.credential == "bearer" || was.credential == "basic"
                let isDifferent = was.outcome != now.outcome || isVerified && now.credential == "unverified"
                if isDifferent { differing += 1 }
                let isRight: Bool
                if let group, group.unknown {
                    unknown += 1
                    isRight = !was.hasSession
                } else {
                    isRight = (group != nil) == isDifferent || isUnstated(asked, was, now)
                }
                if !isRight {
                    Issue.record("\(asked) \(was.log) \(now.outcome) \(group?.now ?? "the same")")
                }
            }
        }
        #expect(differing > count / 50)
        #expect(unknown > 0)
    }
}
