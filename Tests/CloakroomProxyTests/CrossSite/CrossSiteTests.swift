import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("State-changing requests must be same-origin", .serialized)
struct CrossSiteTests {
    private static let evil = "Origin: https://evil.test"
    private static let ours = "Origin: http://gateway.test"

    /// A gateway whose route `private` allows more methods.
    private static func site(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        .serving.configuration { configuration in
            configuration.routes[2].methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"]
            adjust(&configuration)
        }
    }

    private static func each(_ methods: [String], _ fields: [[String]], body: String = "") -> [String] {
        methods.flatMap { method in
            fields.map {
                Ask.ask(method, "/private/a", [Ask.cookie, "Content-Length: \(body.utf8.count)"] + $0) + body
            }
        }
    }

    private static func post(_ fields: String..., to path: String = "/private/a") -> String {
        Ask.ask("POST", path, [Ask.cookie, "Content-Length: 0"] + fields)
    }

    private static let strangers = [
        [evil], ["Origin: null"], ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
        ["Sec-Fetch-Site: cross-site", ours], [ours, ours],
        ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-origin"], ["Origin: https://gateway.test"],
    ]
    private static let friends = [
        [], [ours], ["Origin: http://GATEWAY.test:80"], ["Sec-Fetch-Site: same-origin", ours], ["Sec-Fetch-Site: none"],
    ]
    /// The upstream receives the same fields as the gateway.
    private static let friendly: [Scenario.Expectation] = [
        .init(text: "abc"), .init(has: ["Origin: http://gateway.test"], text: "abc"), .init(text: "abc"),
        .init(has: ["Sec-Fetch-Site: same-origin"], text: "abc"), .init(text: "abc"),
    ]
    private static let rejected = ["Cache-Control: no-store", "Set-Cookie"]

    private static let sameOrigin = [
        Scenario(
            "A cross-site request with the cookie is 403 cross_site, and the upstream receives nothing", on: site(),
            .all(each(["POST", "PUT", "PATCH", "DELETE", "PURGE"], strangers), 403, "cross_site", has: rejected),
            .all(strangers.map { Ask.ask("POST", "/auth", [Ask.cookie] + $0) }, 403, "cross_site"), sent: [],
            alsoHTTP2: true),
        Scenario(
            "Connection cannot name the origin and the site away", on: site(),
            .all(
                each(
                    ["POST", "PUT", "PATCH", "DELETE", "PURGE"],
                    [["Connection: origin", evil], ["Connection: sec-fetch-site", "Sec-Fetch-Site: cross-site"]]), 403,
                "cross_site"),
            sent: []),
        Scenario(
            "Same-origin requests and requests of non-browsers are forwarded with their body", on: site(),
            .all(each(["POST", "PUT", "DELETE"], friends, body: "abc"), 200, text: "ok"),
            sent: friendly + friendly + friendly, alsoHTTP2: true),
        Scenario(
            "The body of a rejected request is not awaited, and none of it is forwarded", on: site(),
            .ask(Ask.post("/private/a", Ask.cookie, evil, body: String(repeating: "x", count: 5_000)), 403),
            .ask(
                Ask.ask("POST", "/private/a", [Ask.cookie, evil, "Content-Length: 9000000", "Expect: 100-continue"]),
                403), sent: []),
        Scenario(
            "Safe methods are served for any origin", on: site(),
            .each(
                ["GET", "HEAD", "OPTIONS"].map {
                    Ask.ask($0, "/private/a", [Ask.cookie, evil, "Sec-Fetch-Site: cross-site"])
                }, 200)),
        Scenario(
            "A request without the session cookie, or to a route that does not use it, is accepted from any origin",
            on: site(), .ask(Ask.post("/public/a", evil), 200),
            // The route does not use the cookie, and the gateway removes it.
            .ask(post(evil, to: "/public/a"), 200),
            // Without the cookie the request has no user's authority.
            .all([Ask.post("/private/a", evil), Ask.post("/private/a", "Cookie: theirs=1", evil)], 401),
            sent: [.init(), .init(has: ["Cookie"])]),
        Scenario(
            "An invalid session cookie is checked like a valid one: the response does not reveal its validity",
            on: site(),
            .all(
                [FakeSessions.strangeCookie, "Cookie: __Host-cloakroom=x"].map { Ask.post("/private/a", $0, evil) },
                403)),
        Scenario(
            "An origin on either list is trusted",
            on: site {
                $0.crossSite.trustedOrigins = ["https://partner.test"]
                $0.crossSite.corsOrigins = ["https://app.gateway.test"]
            },
            .all(
                ["https://partner.test", "https://app.gateway.test"].map {
                    post("Origin: \($0)", "Sec-Fetch-Site: cross-site")
                }, 200), .ask(post(evil), 403)),
        Scenario(
            "Behind a trusted TLS proxy the scheme is the one that the proxy reports",
            on: site { $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } },
            .ask(post("Origin: https://gateway.test", "X-Forwarded-Proto: https"), 200),
            .ask(post(ours, "X-Forwarded-Proto: https"), 403)),
        Scenario(
            "The scheme that an untrusted peer reports is ignored", on: site(),
            .ask(post("Origin: https://gateway.test", "X-Forwarded-Proto: https"), 403)),
        Scenario(
            "The authority of an absolute target is the target origin", on: site(),
            .ask(post(ours, to: "http://other.test/private/a"), 403)),
        Scenario(
            "A rejection is counted with its own decision label", on: site(), .ask(post(evil)),
            metrics: [#"cloakroom_auth_decisions_total{decision="csrf_rejected",route="private"} 1"#]),
        Scenario(
            "A message configured for the route is used",
            on: site { $0.routes[2].messages = [.crossSite: "Open this page from the shop."] },
            .ask(post(evil), text: "…Open this page from the shop.…")),
    ]

    private static let requiredField = [
        Scenario(
            "If a header field is required, every request with the cookie must carry it, whatever its method",
            on: site { $0.crossSite.requiredField = .init(name: "X-CSRF", value: "1") },
            .all(
                [
                    Ask.get("/private/a", Ask.cookie), Ask.get("/private/a", Ask.cookie, "X-CSRF: 2"), post(),
                    Ask.get("/auth", Ask.cookie), Ask.post("/auth"), post("X-CSRF: 1", evil),
                    Ask.post("/auth/page", evil),
                ], 403, "cross_site"),
            .run { expect($0.upstream.received, equals: 0) },
            .all(
                [
                    Ask.get("/private/a", Ask.cookie, "x-csrf: 1"), post("X-CSRF: 1", ours),
                    Ask.get("/auth", Ask.cookie, "X-CSRF: 1"), Ask.get("/auth"), Ask.post("/auth", "X-CSRF: 1"),
                    Ask.get("/public/a", Ask.cookie),
                    // The sign-in page: neither a link nor a form can send the field.
                    Ask.get("/auth/page", Ask.cookie), post(ours, to: "/auth/page"),
                ], 200))
    ]

    @Test("Cross-site requests", arguments: sameOrigin + requiredField)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("A rejected request does not extend the idle timeout of the session: the session is not looked up")
    func notLookedUp() async throws {
        let setup = GatewaySetup.serving.with(\.sessions, FakeSessions(load: .fail))
        try await Scenario(
            "not looked up", on: setup, .ask(Ask.post("/private/a", FakeSessions.strangeCookie, Self.evil), 403)
        ).run()
        expect(setup.sessions.loads, equals: 0)
    }

    @Test("State-changing account endpoints reject cross-site requests with or without cookie, including login CSRF")
    func accountEndpoints() async throws {
        let asked = Mutex<[AccountEndpoint]>([])
        let endpoints = FakeEndpoints { request in
            asked.withLock { $0.append(request.endpoint) }
            return AccountResponse(status: 200, content: .json(Array("{}".utf8)))
        }
        func paths(_ fields: String...) -> [String] {
            [
                ("POST", "/auth"), ("POST", "/auth/page"), ("DELETE", "/auth"), ("DELETE", "/auth/sessions"),
                ("DELETE", "/auth/sessions/0123456789abcdef"),
            ].map { Ask.ask($0.0, $0.1, fields) }
        }
        let sameSite = "Sec-Fetch-Site: same-site"
        try await Scenario(
            "account endpoints", on: GatewaySetup([]).with(\.endpoints, endpoints),
            .all(
                paths(Self.evil) + paths(Ask.cookie, Self.evil) + paths(sameSite) + paths(Ask.cookie, sameSite), 403,
                "cross_site"),
            .run { _ in expect(asked.withLock { $0.isEmpty }) }, .all(paths(Self.ours) + paths(), 200),
            .all(["/auth", "/auth/sessions", "/auth/page"].map { Ask.get($0, Ask.cookie, Self.evil) }, 200)
        ).run()
        expect(asked.withLock { $0.count }, equals: 13)
    }
}
