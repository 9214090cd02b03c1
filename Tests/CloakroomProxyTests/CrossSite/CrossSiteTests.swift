import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("State-changing requests must be same-origin", .serialized)
struct CrossSiteTests {
    private static let evil = "Origin: https://evil.test"
    private static let ours = "Origin: http://gateway.test"

    /// A gateway with one session, and its `Cookie` line.
    private static func run(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (RunningGateway, String) async throws -> Void
    ) async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions)
            .configuration { configuration in
                configuration.routes[2].methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"]
                adjust(&configuration)
            }
            .run { try await body($0, cookie) }
    }

    private static func ask(_ method: String, _ path: String, _ fields: [String]) -> String {
        (["\(method) \(path) HTTP/1.1", "Host: gateway.test"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    @Test(
        "A cross-site request with the cookie is 403 cross_site, and the upstream receives nothing",
        arguments: ["POST", "PUT", "PATCH", "DELETE", "PURGE"])
    func rejected(method: String) async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            for fields in [
                [Self.evil], ["Origin: null"], ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
                ["Sec-Fetch-Site: cross-site", Self.ours], [Self.ours, Self.ours],
                ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-origin"], ["Origin: https://gateway.test"],
                ["Connection: origin", Self.evil],
            ] {
                let response = try await client.exchange(Self.ask(method, "/private/a", [cookie] + fields))
                #expect(response.status == 403)
                #expect(response.code == "cross_site")
                #expect(response["Cache-Control"] == "no-store")
                #expect(response.values("Set-Cookie").isEmpty)
            }
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test(
        "Same-origin requests and requests of non-browsers are forwarded with their body",
        arguments: ["POST", "PUT", "DELETE"])
    func passes(method: String) async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            for fields in [
                [], [Self.ours], ["Origin: http://GATEWAY.test:80"], ["Sec-Fetch-Site: same-origin", Self.ours],
                ["Sec-Fetch-Site: none"],
            ] {
                let request = Self.ask(method, "/private/a", [cookie, "Content-Length: 3"] + fields) + "abc"
                #expect(try await client.exchange(request).text == "ok")
            }
            #expect(gateway.upstream.requests.count == 5)
            #expect(gateway.upstream.requests.allSatisfy { $0.text == "abc" })
            // The upstream receives the same `Origin` as the gateway.
            #expect(gateway.upstream.requests[1].values("Origin") == ["http://gateway.test"])
            #expect(gateway.upstream.requests[3].values("Sec-Fetch-Site") == ["same-origin"])
        }
    }

    @Test("The body of a rejected request is not awaited, and none of it is forwarded")
    func rejectedWithBody() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Ask.post("/private/a", cookie, Self.evil, body: String(repeating: "x", count: 5_000)))
            #expect(response.status == 403)
            let early = try await client.exchange(
                Self.ask("POST", "/private/a", [cookie, Self.evil, "Content-Length: 9000000", "Expect: 100-continue"]))
            #expect(early.status == 403)
            #expect(gateway.upstream.received == 0)
        }
    }

    @Test("Safe methods are served for any origin", arguments: ["GET", "HEAD", "OPTIONS"])
    func safe(method: String) async throws {
        try await Self.run { gateway, cookie in
            let response = try await gateway.client().exchange(
                Self.ask(method, "/private/a", [cookie, Self.evil, "Sec-Fetch-Site: cross-site"]),
                isToHead: method == "HEAD")
            #expect(response.status == 200)
        }
    }

    @Test("A request without the session cookie, or to a route that does not use it, is accepted from any origin")
    func noCookie() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.post("/public/a", Self.evil)).status == 200)
            // The route does not use the cookie, and the gateway removes it.
            #expect(try await client.exchange(Ask.post("/public/a", cookie, Self.evil)).status == 200)
            #expect(gateway.upstream.requests[1].values("Cookie").isEmpty)
            // Without the cookie the request has no user's authority.
            #expect(try await client.exchange(Ask.post("/private/a", Self.evil)).status == 401)
            #expect(try await client.exchange(Ask.post("/private/a", "Cookie: theirs=1", Self.evil)).status == 401)
        }
    }

    @Test("An invalid session cookie is checked like a valid one: the response does not reveal its validity")
    func worthlessCookie() async throws {
        try await Self.run { gateway, _ in
            let client = try await gateway.client()
            for cookie in [FakeSessions.strangeCookie, "Cookie: __Host-cloakroom=x"] {
                #expect(try await client.exchange(Ask.post("/private/a", cookie, Self.evil)).status == 403)
            }
        }
    }

    @Test("An origin on either list is trusted")
    func trusted() async throws {
        try await Self.run {
            $0.crossSite = CrossSiteConfiguration(
                trustedOrigins: ["https://partner.test"], corsOrigins: ["https://app.gateway.test"])
        } body: { gateway, cookie in
            let client = try await gateway.client()
            for origin in ["https://partner.test", "https://app.gateway.test"] {
                let response = try await client.exchange(
                    Ask.post("/private/a", cookie, "Origin: \(origin)", "Sec-Fetch-Site: cross-site"))
                #expect(response.status == 200)
            }
            #expect(try await client.exchange(Ask.post("/private/a", cookie, Self.evil)).status == 403)
        }
    }

    @Test("Behind a trusted TLS proxy the scheme is the one that the proxy reports")
    func forwardedScheme() async throws {
        let secure = "Origin: https://gateway.test"
        try await Self.run {
            $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 }
        } body: { gateway, cookie in
            let client = try await gateway.client()
            let proto = "X-Forwarded-Proto: https"
            #expect(try await client.exchange(Ask.post("/private/a", cookie, secure, proto)).status == 200)
            #expect(try await client.exchange(Ask.post("/private/a", cookie, Self.ours, proto)).status == 403)
        }
        try await Self.run { gateway, cookie in
            let response = try await gateway.client().exchange(
                Ask.post("/private/a", cookie, secure, "X-Forwarded-Proto: https"))
            #expect(response.status == 403)
        }
    }

    @Test("The authority of an absolute target is the target origin")
    func absoluteTarget() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Self.ask("POST", "http://other.test/private/a", [cookie, "Content-Length: 0", Self.ours]))
            #expect(response.status == 403)
        }
    }

    @Test("A rejection is counted with its own decision label")
    func counted() async throws {
        try await Self.run { gateway, cookie in
            _ = try await gateway.client().exchange(Ask.post("/private/a", cookie, Self.evil))
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"csrf_rejected\",route=\"private\"} 1")
        }
    }

    @Test("A rejected request does not extend the idle timeout of the session: the session is not looked up")
    func notLookedUp() async throws {
        let sessions = FakeSessions(load: .fail)
        try await GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions).run { gateway in
            let response = try await gateway.client().exchange(
                Ask.post("/private/a", FakeSessions.strangeCookie, Self.evil))
            #expect(response.status == 403)
            #expect(sessions.loads == 0)
        }
    }

    @Test("A message configured for the route is used")
    func words() async throws {
        try await Self.run {
            $0.routes[2].messages = [.crossSite: "Open this page from the shop."]
        } body: { gateway, cookie in
            let response = try await gateway.client().exchange(Ask.post("/private/a", cookie, Self.evil))
            #expect(response.text.contains("Open this page from the shop."))
        }
    }

    // MARK: - Account endpoints

    @Test("State-changing account endpoints reject cross-site requests with or without cookie, including login CSRF")
    func accountEndpoints() async throws {
        let asked = Mutex<[AccountEndpoint]>([])
        let sessions = FakeSessions()
        let cookie = sessions.add()
        var setup = GatewaySetup([]).with(\.sessions, sessions)
        setup.endpoints = FakeEndpoints { request in
            asked.withLock { $0.append(request.endpoint) }
            return AccountResponse(status: 200, content: .json(Array("{}".utf8)))
        }
        try await setup.run { gateway in
            let client = try await gateway.client()
            let paths = [
                ("POST", "/auth"), ("POST", "/auth/page"), ("DELETE", "/auth"), ("DELETE", "/auth/sessions"),
                ("DELETE", "/auth/sessions/0123456789abcdef"),
            ]
            for (method, path) in paths {
                for fields in [[], [cookie]] {
                    let evil = Self.ask(method, path, fields + [Self.evil])
                    let response = try await client.exchange(evil)
                    #expect(response.status == 403)
                    #expect(response.code == "cross_site")
                    #expect(
                        try await client.exchange(Self.ask(method, path, fields + ["Sec-Fetch-Site: same-site"])).status
                            == 403)
                }
            }
            #expect(asked.withLock { $0.isEmpty })
            for (method, path) in paths {
                #expect(try await client.exchange(Self.ask(method, path, [Self.ours])).status == 200)
                #expect(try await client.exchange(Self.ask(method, path, [])).status == 200)
            }
            for path in ["/auth", "/auth/sessions", "/auth/page"] {
                #expect(try await client.exchange(Ask.get(path, cookie, Self.evil)).status == 200)
            }
            #expect(asked.withLock { $0.count } == 13)
        }
    }

    // MARK: - The required header field

    @Test("If a header field is required, every request with the cookie must carry it, whatever its method")
    func requiredField() async throws {
        try await Self.run {
            $0.crossSite.requiredField = .init(name: "X-CSRF", value: "1")
        } body: { gateway, cookie in
            let client = try await gateway.client()
            for request in [
                Ask.get("/private/a", cookie), Ask.get("/private/a", cookie, "X-CSRF: 2"),
                Ask.post("/private/a", cookie), Ask.get("/auth", cookie), Ask.post("/auth"),
                Ask.post("/private/a", cookie, "X-CSRF: 1", Self.evil), Ask.post("/auth/page", Self.evil),
            ] {
                let response = try await client.exchange(request)
                #expect(response.status == 403)
                #expect(response.code == "cross_site")
            }
            #expect(gateway.upstream.received == 0)
            for request in [
                Ask.get("/private/a", cookie, "x-csrf: 1"), Ask.post("/private/a", cookie, "X-CSRF: 1", Self.ours),
                Ask.get("/auth", cookie, "X-CSRF: 1"), Ask.get("/auth"), Ask.post("/auth", "X-CSRF: 1"),
                Ask.get("/public/a", cookie),
                // The sign-in page: neither a link nor a form can send the field.
                Ask.get("/auth/page", cookie), Ask.post("/auth/page", cookie, Self.ours),
            ] {
                #expect(try await client.exchange(request).status == 200)
            }
        }
    }
}
