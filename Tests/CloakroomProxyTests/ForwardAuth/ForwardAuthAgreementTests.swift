import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

/// The decision for another proxy is the one that the gateway would make about the same request.
@Suite("Forward authorization agrees with ordinary listeners")
struct ForwardAuthAgreementTests {
    /// The number of requests for each kind of proxy: 10,000 together, and 100,000 in `.ci/nightly`.
    private static let count =
        (ProcessInfo.processInfo.environment["CLOAKROOM_FORESIGHT_REQUESTS"].flatMap { Int($0) } ?? 100_000) / 40

    /// A random request, without the fields of a proxy.
    private struct Request {
        var method: String
        var path: String
        var host: String
        var fields: [String] = []
        /// Whether a field has the name of one that only the gateway may set, or names another request or protocol.
        var isSpoofed: Bool

        init(_ generator: inout SeededGenerator, cookies: [String]) {
            func any(_ values: [String]) -> String { values[generator.below(values.count)] }
            let roots = [
                "public", "private", "token", "staff", "either", "either", "pass", "basic", "auth", "Public", "%61", "",
            ]
            let words = ["a", "private", "auth", "login", "..", "%2e", "a;b", "", "a", "a", "a"]
            path = "/" + any(roots)
            for _ in 0..<generator.below(3) { path += "/" + any(words) }
            if generator.chance(200) { path += any(["?a=b", "?%2e%2e", "?", "#x"]) }
            if generator.chance(20) { path = "http://gateway.test" + path }
            method = any(["GET", "GET", "HEAD", "POST", "POST", "PUT", "OPTIONS", "TRACE", "FOO", "get"])
            let hosts = ["evil.test", "GATEWAY.test", "gateway.test:8443", "gateway.test@evil.test", "", "a b"]
            host = generator.chance(100) ? any(hosts) : "gateway.test"
            if generator.chance(700) { fields.append("Cookie: " + any(cookies)) }
            if generator.chance(400) {
                fields.append("Authorization: " + any(["Bearer good", "Bearer bad", "Bearer", "Basic am86c2VjcmV0"]))
            }
            fields +=
                [
                    [], [], ["Sec-Fetch-Site: same-origin"], ["Sec-Fetch-Site: cross-site"],
                    ["Origin: https://gateway.test"], ["Origin: https://evil.test"], ["Origin: null"],
                    ["Origin: https://gateway.test", "Sec-Fetch-Site: cross-site"],
                ][generator.below(8)]
            if generator.chance(300) { fields += Question.navigation.dropLast() }
            isSpoofed = generator.chance(50)
            if isSpoofed {
                fields.append(
                    any([
                        "X_Identity: root", "X-API-TOKEN: x", "X-HTTP-Method-Override: PUT", "X-Host: evil.test",
                        "Upgrade: h2c",
                    ]))
            }
        }
    }

    private enum Outcome: Equatable {
        case permitted(UpstreamPermit)
        case refused(Int, ProblemCode)
        /// To the sign-in, with 303.
        case redirected(String)
        case local
    }

    /// Two configured listeners, and the users.
    private struct Site {
        let config: ConfigSnapshot
        let staff = Company.session()
        let guest = Company.session(claims: #"{"groups":[]}"#)
        let other = FakeSessions.make()
        private let sessions: [SessionTicket: Session]
        private let now = WallTime(seconds: 2_000_000_000)

        init(_ proxy: ForwardAuthConfiguration.Proxy) throws {
            sessions = Dictionary(uniqueKeysWithValues: [staff, guest, other])
            let paths = try ["/staff/*", "/either/*", "/pass/*", "/basic/*"].map { try PathPattern($0) }
            config = try GatewaySetup().configuration {
                $0.addCompany()
                $0.listeners.append($0.listeners[0])
                $0.listeners[0].hosts = ["gateway.test"]
                $0.listeners[1].forwardAuth = ForwardAuthConfiguration(
                    proxy: proxy, sources: [], hosts: ["gateway.test"])
                $0.upstreams[0].claimHeaders = [ClaimHeader("X-Identity", claim: "sub")]
                $0.changePrivate { $0.onMissingSession = .login }
                for (path, name) in zip(paths, ["staff", "either", "pass", "basic"]) {
                    $0.routes.append(
                        Route(
                            name: name, methods: ["GET", "POST"], pattern: path, requiresAuthorization: true,
                            inject: [.apiToken]))
                }
                $0.routes[3].require = SessionRequirement(claims: [.init("groups", in: ["staff"])])
                $0.routes[4].credentials = .either
                $0.routes[5].credentials = .pass
                $0.routes[6].credentials = [.session, .basic]
            }.makeConfig()
        }

        var cookies: [String] {
            [staff, guest, other, FakeSessions.make()].map { "__Host-cloakroom=" + $0.0.cookieValue }
                + ["__Host-cloakroom=x", "theme=dark", "a=b; __Host-cloakroom=" + staff.0.cookieValue]
        }

        /// The decision, and the request as it was decided about. `nil` for what is no request at all.
        func decide(
            _ text: String, for proxy: ForwardAuthConfiguration.Proxy?
        ) throws -> (outcome: Outcome, request: InboundRequest)? {
            guard var request = try? RequestDeciderTests.makeRequest(text) else { return nil }
            if let proxy { request.replaceByOriginal(of: proxy, maxTarget: 8_192) }
            let decider = RequestDecider(
                config: config, isTrusted: true, scheme: .http, listener: proxy == nil ? 0 : 1,
                decidesForProxy: proxy != nil)
            var decision = decider.decide(
                &request, session: { ticket, _ in sessions[ticket].map { .active($0) } ?? .missing(.noSession) },
                limit: { _, _ in nil }, now: now)
            if case .verify(let token, let route) = decision {
                let isGood = ["Bearer good", "Basic am86c2VjcmV0"].contains(
                    String(decoding: token.bytes, as: UTF8.self))
                decision = decider.authorize(
                    request, route: route, token: isGood ? .active(staff.1) : .failed(Problem(.invalidToken)), now: now)
            }
            return (Self.outcome(decision, for: proxy), request)
        }

        private static func outcome(
            _ decision: RequestDecision, for proxy: ForwardAuthConfiguration.Proxy?
        ) -> Outcome {
            func refused(_ document: ProblemDocument) -> Outcome {
                let problem = (proxy == nil ? document : document.denying).problem
                return .refused(problem.status, problem.code)
            }
            return switch decision {
            case .forward(let permit): .permitted(permit)
            case .malformed: refused(ProblemDocument(Problem(.badRequest)))
            case .problem(let document, _, _): refused(document)
            case .denied(let denial):
                switch denial.response {
                case .problem(let document): refused(document)
                case .redirect(let path): .redirected(path)
                }
            default: .local
            }
        }

        /// What the proxy gets, if the ordinary listener decides so: the same, but for the documented differences.
        func expected(_ request: Request, _ ordinary: Outcome, _ decided: InboundRequest) -> Outcome {
            // Rule 110: the target is forwarded in its own spelling.
            guard isInNormalForm(request.path) else { return .refused(403, .badRequest) }
            // Rule 107: nginx passes on no status but 401 and 403. Nothing is decided before the host.
            if case .refused(let status, let code) = ordinary, code == .badRequest || code == .misdirected {
                expect(status == 400 || status == 421)
                return .refused(403, code)
            }
            // Rules 111 and 147: names that only the gateway may set, and other protocols.
            if request.isSpoofed { return .refused(403, .badRequest) }
            let index = decided.routeIndex
            // Rule 107: the account endpoints are not served here.
            if index >= config.routes.count { return .refused(403, .notFound) }
            // Rule 112: a proxy may have dropped the fields that name another site.
            if index >= 0, !decided.method.isSafe, decided.summary.origin == .absent,
                decided.summary.fetchSite == .absent, config.routes[index].checksSite(decided)
            {
                return .refused(403, .crossSite)
            }
            guard case .refused(let status, let code) = ordinary else { return ordinary }
            return .refused(status == 401 ? 401 : 403, code)
        }

        private func isInNormalForm(_ path: String) -> Bool {
            let bytes = Array(path.utf8)
            var scratch: [UInt8] = []
            guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch) else { return false }
            return RequestDecider.isInNormalForm(target)
        }
    }

    @Test("Rule 113: random requests are decided as on an ordinary listener", arguments: Question.proxies)
    func agreement(_ proxy: ForwardAuthConfiguration.Proxy) throws {
        let site = try Site(proxy)
        let cookies = site.cookies
        var generator = SeededGenerator(seed: 33)
        var (permitted, refused, redirected) = (0, [ProblemCode: Int](), 0)
        for _ in 0..<Self.count {
            let request = Request(&generator, cookies: cookies)
            let common = ["X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7"]
            let head = ["\(request.method) \(request.path) HTTP/1.1", "Host: \(request.host)"]
            let text = (head + common + request.fields).joined(separator: "\r\n") + "\r\n\r\n"
            let what = "\(request.method) \(request.path) \(request.host) \(request.fields)"
            let question = Question.of(proxy, request.method, request.path, host: request.host, request.fields)
            // What no server could parse reaches no decision.
            guard let ordinary = try site.decide(text, for: nil), let asked = try site.decide(question, for: proxy)
            else {
                continue
            }
            let expected = site.expected(request, ordinary.outcome, ordinary.request)
            expect(asked.outcome, equals: expected, "\(what), ordinary: \(ordinary.outcome)")
            switch asked.outcome {
            case .permitted: permitted += 1
            case .refused(_, let code): refused[code, default: 0] += 1
            case .redirected: redirected += 1
            case .local: Issue.record("neither permitted nor denied: \(what)")
            }
        }
        #expect(permitted > Self.count / 50, "too few requests are permitted: \(permitted)")
        #expect(redirected > 0)
        let codes: Set<ProblemCode> = [
            .badRequest, .misdirected, .notFound, .methodNotAllowed, .crossSite, .unauthorized, .missingClaim,
            .invalidToken,
        ]
        expect(codes.isSubset(of: refused.keys), "\(refused)")
    }
}

extension RouteRuntime {
    /// Whether the site of an unsafe request matters: the browser adds the credentials that the route checks.
    fileprivate func checksSite(_ request: InboundRequest) -> Bool {
        let field = request.value(of: .authorization).map { String(decoding: $0, as: UTF8.self) }
        if credentials == .pass, let field { return !field.hasPrefix("Bearer") }
        if credentials.contains(.basic), let field { return field.hasPrefix("Basic") }
        return request.summary.hasSessionCookie && access.usesSession && !(credentials == .either && field != nil)
    }
}
