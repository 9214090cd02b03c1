import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The decision on a request, without a connection")
struct RequestDeciderTests {
    private static let now = WallTime(seconds: 1_000)
    private static let cookie = FakeSessions.strangeCookie

    /// Decides on a request.
    /// - Parameter lookup: Result of the session lookup.
    private static func decide(
        _ text: String, isTrusted: Bool = false, upgrade: RequestedUpgrade = .none,
        session lookup: SessionLookup = .missing(.noSession), setup: GatewaySetup = GatewaySetup()
    ) throws -> (decision: RequestDecision, request: InboundRequest, lookups: Int) {
        let config = try setup.makeConfig()
        var request = try makeRequest(text, upgrade: upgrade)
        var lookups = 0
        let decider = RequestDecider(config: config, isTrusted: isTrusted, scheme: .http, listener: 0)
        let decision = decider.decide(
            &request,
            session: { _, _ in
                lookups += 1
                return lookup
            }, limit: { _, _ in nil }, now: now)
        return (decision, request, lookups)
    }

    static func makeRequest(_ text: String, upgrade: RequestedUpgrade = .none) throws -> InboundRequest {
        var bytes = ByteBuffer(string: text)
        var parser = HeadParser(limits: HeadLimits())
        var request = InboundRequest()
        try expect(parser.parse(&bytes, into: &request.head))
        request.version = request.head.minorVersion == 0 ? .http1_0 : .http1_1
        request.begin(try BodyFraming.of(request.head), upgrade: upgrade)
        return request
    }

    private static func code(_ decision: RequestDecision) -> ProblemCode? {
        if case .problem(let document, _, _) = decision { document.problem.code } else { nil }
    }

    // MARK: - Target, authority, route

    @Test(
        "A request without exactly one valid authority is malformed",
        arguments: ["", "Host: a\r\nHost: b\r\n", "Host: a b\r\n"])
    func malformedAuthority(fields: String) throws {
        let result = try Self.decide("GET /public/a HTTP/1.1\r\n\(fields)\r\n")
        guard case .malformed = result.decision else { throw Unexpected(result.decision) }
        expect(result.request.routeIndex, equals: -1)
    }

    @Test(
        "Requests that no route serves get their problem",
        arguments: [
            ("GET /nowhere", ProblemCode.notFound), ("PATCH /public/a", .methodNotAllowed),
            ("TRACE /public/a", .methodNotAllowed), ("TRACE /nowhere", .methodNotAllowed),
            ("CONNECT a.test:443", .notImplemented), ("GET *", .badRequest),
        ])
    func unserved(line: String, code: ProblemCode) throws {
        let result = try Self.decide("\(line) HTTP/1.1\r\nHost: a\r\n\r\n")
        // A target of another form is malformed; both are a 400.
        if case .malformed = result.decision { return expect(code, equals: .badRequest) }
        expect(Self.code(result.decision), equals: code)
    }

    @Test("OPTIONS * and an exhausted Max-Forwards get a local response", arguments: ["*", "/public/a"])
    func serverOptions(target: String) throws {
        let result = try Self.decide("OPTIONS \(target) HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        guard case .serverOptions = result.decision else { throw Unexpected(result.decision) }
    }

    // MARK: - Session

    @Test("A route that requires a session looks it up once and returns each of its decisions")
    func sessions() throws {
        let ask = Ask.get("/private/a", Self.cookie)
        let (_, session) = FakeSessions.make()
        let active = try Self.decide(ask, session: .active(session))
        guard case .forward(let permit) = active.decision else { throw Unexpected(active.decision) }
        expect(permit.bearerSession === session)
        expect(active.lookups, equals: 1)
        let unknown = try Self.decide(ask, session: .notCached)
        guard case .loadSession(_, route: 2) = unknown.decision else { throw Unexpected(unknown.decision) }
        let (_, expired) = FakeSessions.make(
            refreshToken: "r", accessTokenExpiresAt: WallTime(seconds: 1), obtainedAt: WallTime(seconds: 0))
        let old = try Self.decide(ask, session: .active(expired))
        guard case .refresh(let refreshed, _, route: 2) = old.decision else { throw Unexpected(old.decision) }
        expect(refreshed === expired)
        let (_, foreign) = FakeSessions.make(source: SessionSource(upstream: "other"))
        let other = try Self.decide(ask, session: .active(foreign))
        guard case .endSession(_, route: 2) = other.decision else { throw Unexpected(other.decision) }
        let none = try Self.decide(ask, session: .missing(.expiredIdle))
        guard case .problem(let document, .unauthenticated, _) = none.decision else { throw Unexpected(none.decision) }
        expect(document.problem.reason, equals: .expiredIdle)
    }

    @Test("Without a ticket there is no lookup, and the reason is that there is no session")
    func noTicket() throws {
        let result = try Self.decide(Ask.get("/private/a"), session: .notCached)
        guard case .problem(let document, .unauthenticated, _) = result.decision else {
            throw Unexpected(result.decision)
        }
        expect(document.problem.reason, equals: .noSession)
        expect(result.lookups, equals: 0)
    }

    @Test(
        "An upgrade is exempt from csrf.requireHeader only if it is a handshake that the route forwards",
        arguments: [
            ("GET", "/private/a", "", true, true), ("GET", "/private/a", "", false, false),
            ("POST", "/private/a", "Content-Length: 0\r\n", true, false),
            ("GET", "/private/a", "Content-Length: 1\r\n", true, false), ("GET", "/auth", "", true, false),
        ])
    func upgradeWithoutRequiredField(
        method: String, path: String, fields: String, allowsWebSocket: Bool, isAccepted: Bool
    ) throws {
        let setup = GatewaySetup().configuration {
            $0.crossSite.requiredField = .init(name: "X-CSRF", value: "1")
            for index in $0.routes.indices { $0.routes[index].allowsWebSocket = allowsWebSocket }
        }
        let text =
            "\(method) \(path) HTTP/1.1\r\nHost: gateway.test\r\nOrigin: http://gateway.test\r\n\(Self.cookie)\r\n"
            + "Connection: Upgrade\r\nUpgrade: websocket\r\n\(fields)"
        let (_, session) = FakeSessions.make()
        let result = try Self.decide(text + "\r\n", session: .active(session), setup: setup)
        expect(Self.code(result.decision) != .crossSite, equals: isAccepted)
        let with = try Self.decide(text + "X-CSRF: 1\r\n\r\n", session: .active(session), setup: setup)
        expect(Self.code(with.decision) != .crossSite)
    }

    // MARK: - Preparing

    private static func prepare(_ text: String, upgrade: RequestedUpgrade = .none, allowsWebSocket: Bool = false) throws
        -> (problem: ProblemCode?, request: InboundRequest)
    {
        let setup = GatewaySetup().configuration { $0.routes[0].allowsWebSocket = allowsWebSocket }
        let config = try setup.makeConfig()
        var request = try Self.decide(text, upgrade: upgrade, setup: setup).request
        let decider = RequestDecider(config: config, isTrusted: false, scheme: .http, listener: 0)
        return (decider.prepare(&request, for: config.routes[0]), request)
    }

    @Test("An upgrade is ignored unless the route allows it; an extended CONNECT is refused")
    func upgrades() throws {
        let handshake = Ask.get(
            "/public/a", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        let refused = try Self.prepare(handshake)
        expect(refused.problem, equals: nil)
        expect(refused.request.upgrade, equals: .none)
        let allowed = try Self.prepare(handshake, allowsWebSocket: true)
        expect(allowed.problem, equals: nil)
        expect(allowed.request.upgrade, equals: .webSocketUpgrade)
        let connect = Ask.get("/public/a", "Sec-WebSocket-Version: 13")
        try expect(Self.prepare(connect, upgrade: .webSocketConnect).problem, equals: .notImplemented)
        try expect(Self.prepare(connect, upgrade: .webSocketConnect, allowsWebSocket: true).problem, equals: nil)
        try expect(Self.prepare(connect, upgrade: .unknown, allowsWebSocket: true).problem, equals: .notImplemented)
        let ambiguous = handshake.replacing("Version: 13", with: "Version: 13\r\nSec-WebSocket-Version: 8")
        try expect(Self.prepare(ambiguous, allowsWebSocket: true).problem, equals: .badRequest)
    }

    /// Another decision than the expected one.
    private struct Unexpected: Error, CustomStringConvertible {
        let description: String
        init(_ decision: RequestDecision) { description = "unexpected decision: \(decision)" }
    }
}
