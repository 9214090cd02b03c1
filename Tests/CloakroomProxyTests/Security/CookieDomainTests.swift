import CloakroomCore
import TestSupport
import Testing

/// A session cookie that all hosts of a site receive, and can set.
@Suite("A session cookie with Domain", .serialized)
struct CookieDomainTests {
    private static let name = "__Secure-cloakroom"
    private static let own = "\(name)=\(Ask.ticket.cookieValue)"
    private static let planted = "\(name)=\(FakeSessions.make().0.cookieValue)"

    private static func setup(
        _ base: GatewaySetup = .serving, _ change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        base.configuration { configuration in
            configuration.session.cookie.name = name
            configuration.session.cookie.domain = "example.com"
            change(&configuration)
        }
    }

    private static func post(from origin: String) -> String {
        Ask.post("/private/a", "Cookie: \(own)", "Sec-Fetch-Site: same-site", "Origin: \(origin)")
    }

    private static let ownCookies =
        "Set-Cookie: \(name)=x; Domain=example.com; Path=/\r\nSet-Cookie: __Host-cloakroom-login-A=x\r\n"

    private static let rows = [
        Scenario(
            "Rule 101: two values, as another host of the domain can cause, are no session in any field and order",
            on: setup(),
            .all(
                [
                    "\(own); \(planted)", "\(planted); a=b; \(own)", "\(own)\r\nCookie: \(planted)",
                    "\(planted)\r\nCookie: a=b\r\nCookie: \(own)", "\(own)\r\nCookie: \(name)=", Ask.cookieValue,
                ].map { Ask.get("/private/a", "Cookie: \($0)") }, 401, reason: "no_session", has: ["Set-Cookie"]),
            .ok(Ask.get("/private/a", "Cookie: \(own)")),
            .ok(Ask.get("/private/a", "Cookie: \(own)\r\nCookie: \(own)")),
            sent: [.init(has: ["Cookie"]), .init(has: ["Cookie"])], alsoHTTP2: true),
        Scenario(
            "Rule 101: a request of another host of the domain is cross-site, unless its origin is listed",
            on: setup { $0.crossSite.trustedOrigins = ["https://shop.example.com"] },
            .ask(post(from: "https://other.example.com"), 403, "cross_site"),
            .ask(post(from: "https://example.com"), 403, "cross_site"), .ok(post(from: "https://shop.example.com")),
            sent: [.init()], alsoHTTP2: true),
        Scenario(
            "Rule 101: upstreams neither get nor set it, nor the login cookies, whose prefix stays __Host-",
            on: setup(.replying("HTTP/1.1 200 OK\r\n\(ownCookies)Set-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok")) {
                $0.addCompany()
            },
            .ok(
                Ask.get("/public/a", "Cookie: \(own); __Host-cloakroom-login-A=x; c=d"), has: ["Set-Cookie: a=b"]),
            sent: [.init(has: ["Cookie: c=d"])], alsoHTTP2: true),
    ]

    @Test("A session cookie with Domain", arguments: rows)
    func domain(_ scenario: Scenario) async throws {
        try await scenario.run()
    }
}
