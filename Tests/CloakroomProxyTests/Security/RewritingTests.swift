import TestSupport
import Testing

@testable import CloakroomCore

/// What reaches the upstream through routes that rewrite paths, and what comes back.
@Suite("Rewriting of paths and redirects", .serialized)
struct RewritingTests {
    /// A public route of all usual methods.
    private static func route(_ name: String, _ path: String, _ sent: String? = nil) -> Route? {
        guard let pattern = try? PathPattern(path) else { return nil }
        var route = Route(
            name: name, methods: ["GET", "POST"], pattern: pattern, requiresAuthorization: false)
        if let sent {
            guard let sent = try? PathPattern(sent), let rewrite = try? PathRewrite(from: pattern, to: sent) else {
                return nil
            }
            route.action = .forward(upstream: 0, rewrite)
        }
        return route
    }

    private static func redirect(
        _ name: String, _ path: String, to target: String, origin: String = "", status: Int = 308,
        keepsQuery: Bool = true
    ) -> Route? {
        guard var route = Self.route(name, path), let target = try? PathPattern(target),
            let rewrite = try? PathRewrite(from: route.pattern, to: target)
        else { return nil }
        var template = RedirectTemplate(rewrite)
        (template.origin, template.status, template.keepsQuery) = (origin, status, keepsQuery)
        route.action = .redirect(template)
        return route
    }

    private static func setup(_ reply: String = Reply.ok, _ routes: Route?...) -> GatewaySetup {
        let routes = routes.compactMap(\.self)
        return .replying(reply).configuration { configuration in
            configuration.upstreams[0].signIn = IdentityEndpointConfiguration(path: "/auth", credentials: .basic)
            configuration.upstreams[0].refresh = IdentityEndpointConfiguration(path: "/auth/refresh")
            configuration.upstreams[0].user = IdentityEndpointConfiguration(method: "GET", path: "/user")
            configuration.accounts = AccountsConfiguration(prefix: "/session")
            configuration.routes += routes
        }
    }

    /// The client is a proxy.
    @Sendable private static func trusting(_ configuration: inout GatewayConfiguration) {
        configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap(\.self)
    }

    private static let stripping = setup(Reply.ok, route("x", "/x/*", "/*"))

    private static func reply(_ fields: String...) -> String {
        (["HTTP/1.1 200 OK", "Content-Length: 2"] + fields).joined(separator: "\r\n") + "\r\n\r\nok"
    }

    private static let paths = [
        Scenario(
            "The upstream receives the rewritten path and the query as it is", on: stripping,
            .all(
                ["/x/a?b=/x/c&d=%2e%2e", "/x/", "/x/x/x", "/x/caf%c3%a9/", "/x/%61", "/x/[1]?q"].map { Ask.get($0) },
                200),
            sent: [
                "GET /a?b=/x/c&d=%2e%2e HTTP/1.1", "GET / HTTP/1.1", "GET /x/x HTTP/1.1", "GET /caf%C3%A9/ HTTP/1.1",
                "GET /a HTTP/1.1", "GET /%5B1%5D?q HTTP/1.1",
            ], alsoHTTP2: true),
        Scenario(
            "An absolute-form target is rewritten like a path", on: stripping,
            .ok(Ask.get("http://gateway.test/x/a?b")),
            sent: ["GET /a?b HTTP/1.1"]),
        Scenario(
            "A prefix is one of whole segments", on: stripping,
            .all(["/xy/a", "/x", "/X/a", "/y/x/a"].map { Ask.get($0) }, 404, "not_found"), sent: [], alsoHTTP2: true),
        Scenario(
            "A path that upstreams read in two ways is rejected on a rewriting route", on: stripping,
            .each(
                [
                    "/x/../private/a", "/x/%2e%2e/private/a", "/x//private/a", "/x%2Fprivate/a", "/x\\private\\a",
                    "/x/a%2Fb", "/x/%2e", "/x/a;b", "/x/a%00", "/x/a%5cb", "/x/.", "//x/a", "/x/a%",
                ].map { Ask.get($0) }, 400), sent: [], alsoHTTP2: true),
        Scenario(
            "A name is one segment as it is: neither decoded nor expanded",
            on: setup(Reply.ok, route("n", "/n/{a}/{b}", "/v2/{b}/{a}")),
            .all(["/n/%2561/%7Benv.X%7D", "/n/%7B%7Bhome%7D%7D/b?a=%7Bb%7D"].map { Ask.get($0) }, 200),
            sent: ["GET /v2/%7Benv.X%7D/%2561 HTTP/1.1", "GET /v2/b/%7B%7Bhome%7D%7D?a=%7Bb%7D HTTP/1.1"],
            alsoHTTP2: true),
        Scenario(
            "After a reload the path is that of the new configuration", on: stripping, .ok(Ask.get("/x/a")),
            .replace { configuration in
                configuration.routes.removeLast()
                configuration.routes += [route("x", "/x/*", "/v2/*")].compactMap(\.self)
            }, .ok(Ask.get("/x/a")), sent: ["GET /a HTTP/1.1", "GET /v2/a HTTP/1.1"]),
    ]

    /// Each spelling of a token call, behind the prefix that is removed.
    private static let spellings = [
        "/auth", "/Auth", "/auth%20", "/auth/", "/AUTH./", "/%61uth", "/%2561uth", "/auth?a=b", "/auth/refresh",
        "/auth/Refresh%20", "/USER", "/user", "/user/",
    ]

    private static let tokenCalls = [
        Scenario(
            "Rule 33: no spelling reaches an identity endpoint by a prefix that is removed", on: stripping,
            .each(
                ["GET", "POST"].flatMap { method in
                    (spellings.map { "/x" + $0 } + ["http://gateway.test/x/auth"])
                        .map { Ask.ask(method, $0, ["Content-Length: 0"]) }
                }, 404, text: "…not_found…"), sent: []),
        Scenario(
            "Rule 33: no spelling reaches an identity endpoint by a prefix that is added",
            on: setup(Reply.ok, route("x", "/x/*", "/auth/*"), route("y", "/y/{a}/*", "/{a}")),
            .each(
                ["/x/", "/x/refresh", "/x/Refresh.", "/x/%2572efresh", "/y/auth/x", "/y/AUTH%20/", "/y/user/x"]
                    .map { Ask.get($0) }, 404), .ok(Ask.get("/x/other")), .ok(Ask.get("/y/authx/")),
            sent: ["GET /auth/other HTTP/1.1", "GET /authx HTTP/1.1"], alsoHTTP2: true),
        Scenario(
            "Rule 33: no name has the value of a segment of an identity endpoint",
            on: setup(Reply.ok, route("x", "/x/{a}/{b}", "/{a}/{b}")),
            .each(["/x/auth/refresh", "/x/Auth/REFRESH", "/x/%61uth/refresh%20"].map { Ask.get($0) }, 404), sent: [],
            alsoHTTP2: true),
        Scenario(
            "Rule 33: the received path is compared too", on: setup(Reply.ok, route("all", "/{a}/*", "/v2/{a}/*")),
            .each(["/auth/refresh", "/Auth/Refresh"].map { Ask.get($0) }, 404), sent: []),
    ]

    private static let wrongPrefixes = [
        "//outer", "/outer/", "/outer, /b", "outer", "/outer?b", "/outer#b", "/../outer", "/outer%2fb", "/%6futer", "/",
        "http://outer/b", "/outer;b", "/outer\\b", "/outer/./b",
    ]

    private static let prefixes = [
        Scenario(
            "Rule 7: X-Forwarded-Prefix is what was removed, and an untrusted peer's is dropped", on: stripping,
            .ok(Ask.get("/x/a", "X-Forwarded-Prefix: /evil", "X_Forwarded_Prefix: /evil")),
            .ok(Ask.get("/public/a", "X-Forwarded-Prefix: /evil")),
            sent: [
                .init(has: ["X-Forwarded-Prefix: /x"], lacks: ["evil"]),
                .init(has: ["X-Forwarded-Prefix"], lacks: ["evil"]),
            ], alsoHTTP2: true),
        Scenario(
            "The prefix of a trusted proxy precedes it",
            on: stripping.configuration(trusting),
            .all(
                ["/outer", "/outer/caf%C3%A9"].map {
                    Ask.get("/x/a", "X_Forwarded_Prefix: /evil", "X-Forwarded-Prefix: \($0)")
                }, 200), .ok(Ask.get("/x/a", "X-Forwarded-Prefix: /one", "X-Forwarded-Prefix: /two")),
            .ok(Ask.get("/public/a", "X-Forwarded-Prefix: /outer")),
            sent: [
                .init(has: ["X-Forwarded-Prefix: /outer/x"], lacks: ["evil"]),
                .init(has: ["X-Forwarded-Prefix: /outer/caf%C3%A9/x"], lacks: ["evil"]),
                .init(has: ["X-Forwarded-Prefix: /x"]), .init(has: ["X-Forwarded-Prefix: /outer"]),
            ]),
        Scenario(
            "A prefix that is no path in its normal form is not used", on: stripping.configuration(trusting),
            .all(wrongPrefixes.map { Ask.get("/x/a", "X-Forwarded-Prefix: \($0)") }, 200),
            .ok(Ask.get("/x/a", "X.Forwarded.Prefix: /outer")),
            sent: (wrongPrefixes + [""]).map { _ in .init(has: ["X-Forwarded-Prefix: /x"], lacks: ["outer"]) }),
        Scenario(
            "Without a prefix that was removed there is none",
            on: setup(Reply.ok, route("o", "/o/*", "/v2/*")), .ok(Ask.get("/o/a")),
            sent: [.init("GET /v2/a HTTP/1.1", has: ["X-Forwarded-Prefix"])]),
    ]

    private static let references = [
        Scenario(
            "References and cookies come back with the prefix",
            on: setup(
                reply(
                    "Location: /login", "Content-Location: http://gateway.test/c", "Refresh: 1; url=/r",
                    "Link: </l>; rel=next", "Set-Cookie: a=1; Path=/; Domain=gateway.test", "Set-Cookie: b=2",
                    "X-Other: /o"), route("x", "/x/*", "/*")),
            .ok(
                Ask.get("/x/a"),
                has: [
                    "Location: /x/login", "Content-Location: /x/c", "Refresh: 1; url=/x/r", "Link: </x/l>; rel=next",
                    "…Set-Cookie: a=1; Path=/x", "…Set-Cookie: b=2", "X-Other: /o",
                ]),
            metrics: [#"cloakroom_references_total{outcome="rewritten",upstream="api"} 5"#], alsoHTTP2: true),
        Scenario(
            "The host that was sent is the upstream's without preserveHost",
            on: setup(reply("Location: https://gateway.test/b"), route("x", "/x/*", "/*")).configuration {
                $0.upstreams[0].preserveHost = false
            }, .ok(Ask.get("/x/a"), has: ["Location: https://gateway.test/b"])),
        Scenario(
            "References to the upstream's own address change without preserveHost",
            on: GatewaySetup([
                .request,
                .reply { reply("Location: http://127.0.0.1:\($0)/b", "Content-Location: https://127.0.0.1:\($0)/c") },
                .again,
            ]).configuration {
                $0.upstreams[0].preserveHost = false
                $0.routes += [route("x", "/x/*", "/*")].compactMap(\.self)
            }, .ok(Ask.get("/x/a"), has: ["Location: /x/b", "Content-Location: /x/c"])),
        Scenario(
            "Without https a redirect to https keeps its origin",
            on: setup(reply("Location: https://gateway.test/x/b"), route("x", "/x/*", "/*")),
            .ok(Ask.get("/x/a", "X-Forwarded-Proto: https"), has: ["Location: https://gateway.test/x/b"])),
        Scenario(
            "With a trusted proxy, the scheme of its client decides about a redirect to https",
            on: setup(reply("Location: https://gateway.test/x/b"), route("x", "/x/*", "/*")).configuration(trusting),
            .all(
                ["http", "https, http", "wss"].map { Ask.get("/x/a", "X-Forwarded-Proto: \($0)") }, 200,
                has: ["Location: https://gateway.test/x/b"]),
            .ok(Ask.get("/x/a", "X-Forwarded-Proto: HTTPS"), has: ["Location: /x/b"]), alsoHTTP2: true),
        Scenario(
            "Rule 86: no reference leads to a new origin",
            on: setup(reply("Location: //evil", "Link: <//evil>, </x/x/y>"), route("x", "/x/*", "/*")),
            .ok(Ask.get("/x/a"), has: ["Location: //evil", "Link: <//evil>, </x/x/y>"]), alsoHTTP2: true),
        Scenario(
            "Rule 29: the session cookie of an upstream is removed first",
            on: setup(reply("Set-Cookie: __Host-cloakroom=x; Path=/"), route("x", "/x/*", "/*")),
            .ok(Ask.get("/x/a"), has: ["Set-Cookie"]), alsoHTTP2: true),
        Scenario(
            "A reference without a path for clients stays and is counted",
            on: setup(reply("Location: /login"), route("o", "/o/*", "/v2/*")),
            .ok(Ask.get("/o/a"), has: ["Location: /login"]),
            metrics: [#"cloakroom_references_total{outcome="unmapped",upstream="api"} 1"#]),
        Scenario(
            "Other routes forward references as they are", on: setup(reply("Location: /login"), route("o", "/o/*")),
            .ok(Ask.get("/o/a"), has: ["Location: /login"]),
            metrics: [#"cloakroom_references_total{outcome="rewritten",upstream="api"} 0"#]),
        Scenario(
            "Interim responses are dropped on a rewriting route",
            on: setup(
                "HTTP/1.1 102 Processing\r\nContent-Location: /b\r\n\r\n"
                    + "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + Reply.ok, route("x", "/x/*", "/*")),
            .ok(Ask.get("/x/a"), has: ["Link", "Content-Location"]), alsoHTTP2: true),
        Scenario(
            "The response that accepts a WebSocket comes back with the prefix",
            on: setup(
                Handshake.consent.replacing(
                    "Sec-WebSocket-Protocol: chat", with: "Set-Cookie: a=1; Path=/; Domain=gateway.test"),
                route("x", "/x/*", "/*")
            ).configuration { $0.routes[$0.routes.count - 1].allowsWebSocket = true },
            .ask(Handshake.request("/x/socket"), 101, has: ["Set-Cookie: a=1; Path=/x", "Upgrade: websocket"])),
    ]

    private static let redirects = [
        Scenario(
            "A redirect is made of the path, and forwards nothing",
            on: setup(
                Reply.ok, redirect("old", "/shop/{id}", to: "/orders/{id}"),
                redirect("far", "/far/*", to: "/*", origin: "https://far.example", status: 302, keepsQuery: false)),
            .all(
                ["/shop/7?a=/b", "/shop/%37?a=/b"].map { Ask.get($0) }, 308, text: "",
                has: ["Location: /orders/7?a=/b", "Cache-Control", "Content-Length: 0"]),
            .ask(
                Ask.get("/far/a/b?c"), 302, text: "",
                has: ["Location: https://far.example/a/b", "Cache-Control: no-store"]),
            .ask(Ask.post("/shop/7", body: "abc"), 308, has: ["Location: /orders/7"]), sent: [], alsoHTTP2: true),
        Scenario(
            "Rule 87: no request chooses the host of a redirect",
            on: setup(Reply.ok, redirect("go", "/go/*", to: "/*")),
            .each(["/go//evil", "/go/%2Fevil", "/go/\\evil", "/go/%5Cevil", "/go/%0d%0aX:y"].map { Ask.get($0) }, 400),
            .ask(Ask.get("http://evil.example/go/a", "X-Forwarded-Host: evil"), 308, has: ["Location: /a"]),
            .ask(Ask.get("/go/http:"), 308, has: ["Location: /http:"]), sent: []),
        Scenario(
            "A redirect may require a session, of whatever source",
            on: setup(Reply.ok, redirect("old", "/old/*", to: "/new/*")).configuration {
                $0.routes[$0.routes.count - 1].requiresAuthorization = true
            }, .ask(Ask.get("/old/a"), 401),
            .ask(
                Ask.get("/old/a", Ask.cookie), 308, has: ["Location: /new/a", "Cache-Control: no-store"]), sent: []),
    ]

    /// The only listener redirects.
    private static let clearText = GatewaySetup.serving.configuration { configuration in
        configuration.accounts.publicURL = "https://gateway.test:8443"
        configuration.listeners[0].redirectToHTTPS = 8_443
    }

    private static let https = [
        Scenario(
            "A listener redirects all that is read to https", on: clearText,
            .all(
                ["/public/%61?b=//c", "/no/route?b=//c"].map { Ask.get($0) }, 308, text: "",
                has: ["Location: https://gateway.test:8443/…?b=//c", "Strict-Transport-Security"]),
            .ask(
                Ask.ask("HEAD", "/private/a", [Ask.cookie]), 308, has: ["Location: https://gateway.test:8443/private/a"]
            ),
            sent: [], alsoHTTP2: true),
        Scenario(
            "Rule 88: a request with a password is not redirected", on: clearText,
            .ask(Ask.post("/auth", body: "password"), 403, "https_required", has: ["Location"]), sent: []),
        Scenario(
            "Rule 88: another host gets 421 without a location", on: clearText,
            .each(
                ["evil.example", "gateway.test.evil"].map {
                    "GET / HTTP/1.1\r\nHost: \($0)\r\nX-Forwarded-Host: gateway.test\r\n\r\n"
                } + ["GET / HTTP/1.0\r\n\r\n"], 421, "misdirected", has: ["Location", "Cache-Control: no-store"]),
            .each(
                ["GATEWAY.test.", "gateway.test:80"].map { "GET /a HTTP/1.1\r\nHost: \($0)\r\n\r\n" }, 308,
                has: ["Location: https://gateway.test:8443/a"]), sent: []),
        Scenario(
            "A path without a normal form is rejected and not redirected", on: clearText,
            .each(["//evil", "/../a", "/a\\b"].map { Ask.get($0) }, 400, has: ["Location"]), sent: []),
        Scenario(
            "* names no path to redirect to", on: clearText, .each([Ask.get("*")], 400, has: ["Location"]),
            .each([Ask.ask("OPTIONS", "*")], 204, has: ["Location"]), sent: []),
        Scenario(
            "Rule 78: where nothing is forwarded, a response instead of 100 (Continue) ends the connection too",
            on: clearText,
            .each(
                [Ask.get("/a", "Content-Length: 5", "Expect: 100-continue")], 308, has: ["Connection: close"]),
            .each(
                [Ask.ask("OPTIONS", "*", ["Content-Length: 5", "Expect: 100-continue"])], 204,
                has: ["Connection: close"]),
            .each([Ask.get("/a", "Content-Length: 5") + "hello"], 308, has: ["Connection"]), sent: []),
        Scenario(
            "Whether a listener redirects can change while it serves",
            on: clearText.configuration {
                $0.listeners[0].redirectToHTTPS = nil
            }, .ok(), .replace { $0.listeners[0].redirectToHTTPS = 443 },
            .ask(Ask.get(), 308, has: ["Location: https://gateway.test/public/a"]), sent: [.init()]),
    ]

    @Test("Rewriting", arguments: paths + tokenCalls + prefixes + references)
    func rewriting(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Redirects", arguments: redirects + https)
    func redirecting(_ scenario: Scenario) async throws { try await scenario.run() }
}
