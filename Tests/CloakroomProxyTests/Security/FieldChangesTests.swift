import CloakroomProxy
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomCore

/// The fields that the configuration changes in requests and responses.
@Suite("Changed fields", .serialized)
struct FieldChangesTests {
    private typealias Change = FieldChange

    /// Three routes as those of the setup, and `/orders/{id}/*` with the changes.
    private static func setup(
        _ reply: String = Reply.ok, requests: [Change] = [], responses: [Change] = [], preset: FieldPreset? = nil
    ) -> GatewaySetup {
        .replying(reply).configuration { configuration in
            guard let pattern = try? PathPattern("/orders/{id}/*") else { return }
            var route = Route(name: "orders", methods: ["GET"], pattern: pattern, requiresAuthorization: false)
            (route.requestFields, route.responseFields, route.responsePreset) = (requests, responses, preset)
            configuration.routes.append(route)
        }
    }

    /// The client is a proxy.
    @Sendable private static func trusting(_ configuration: inout GatewayConfiguration) {
        configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap(\.self)
    }

    private static func reply(_ fields: String..., status: String = "200 OK") -> String {
        (["HTTP/1.1 \(status)", "Content-Length: 2"] + fields).joined(separator: "\r\n") + "\r\n\r\nok"
    }

    private static let names = [
        Change(.set, "X-Order", "{route}/{id}?{id}"), Change(.set, "X-Client", "{client_address}"),
        Change(.set, "X-Id", "{request_id}"), Change(.set, "X-User-Number", "a-{user.id}"),
        Change(.set, "NEL", "{\"a\": {\"b\": 1}}"),
    ]

    /// The user id of a session that ``numbered`` adds.
    private static let number = FakeSessions.make(account: AccountName(userID: "7 é%", source: .init(upstream: "api")))

    private static let spellings = ["X-Tenant", "x-tenant", "X_Tenant", "X.Tenant", "X_TENANT"]

    private static let requests = [
        Scenario(
            "Rule 89: a client cannot send a field that any route sets, on any route, in any spelling",
            on: setup(requests: [Change(.set, "X-Tenant", "acme")]),
            .all(
                spellings.flatMap { name in
                    ["/orders/1/a", "/public/a"].map {
                        Ask.get($0, "\(name): evil", "Connection: x-tenant, keep-alive")
                    }
                }, 200),
            sent: spellings.flatMap { _ in
                [.init(has: ["X-Tenant: acme"], lacks: ["evil"]), .init(has: ["X-Tenant"], lacks: ["evil"])]
            }),
        Scenario(
            "Rule 89: over HTTP/2 too", on: setup(requests: [Change(.set, "X-Tenant", "acme")]),
            .all(["/orders/1/a", "/public/a"].map { Ask.get($0, "x-tenant: evil", "X_Tenant: evil") }, 200),
            sent: [.init(has: ["X-Tenant: acme"], lacks: ["evil"]), .init(has: ["X-Tenant"], lacks: ["evil"])],
            alsoHTTP2: true),
        Scenario(
            "Rule 89: placeholders are expanded once, and values of requests are not", on: setup(requests: names),
            .ok(Ask.get("/orders/%7Broute%7D/a")), .ok(Ask.get("/orders/caf%c3%a9%25/b?{id}")),
            sent: [
                .init(
                    has: [
                        "X-Order: orders/%7Broute%7D?%7Broute%7D", "X-Client: 127.0.0.1", "X-User-Number",
                        "NEL: {\"a\": {\"b\": 1}}",
                    ]),
                .init(has: ["X-Order: orders/caf%C3%A9%25?caf%C3%A9%25"]),
            ], alsoHTTP2: true),
        Scenario(
            "A field with too long values is not sent", on: setup(requests: names),
            .ok(Ask.get("/orders/\(String(repeating: "a", count: 512))/a")),
            .ok(Ask.get("/orders/\(String(repeating: "a", count: 513))/a")),
            .ok(Ask.get("/orders/1" + String(repeating: "/a", count: 3_000))),
            sent: [
                .init(has: ["X-Order: orders/a…"]), .init(has: ["X-Order", "X-Client: 127.0.0.1"]),
                .init(has: ["X-Order: orders/1?1"]),
            ]),
        Scenario(
            "A trusted proxy reports the client and the id",
            on: setup(requests: names).configuration(trusting),
            .ok(Ask.get("/orders/1/a", "X-Forwarded-For: 192.0.2.7", "X-Request-Id: abc")),
            sent: [.init(has: ["X-Client: 192.0.2.7", "X-Id: abc", "X-Request-Id: abc"])]),
        Scenario(
            "The user id is percent-encoded as claims are",
            on: setup(requests: names).configuration { $0.routes[$0.routes.count - 1].requiresAuthorization = true },
            .run { gateway in gateway.sessions.add(number) },
            .ok(Ask.get("/orders/1/a", FakeSessions.cookie(number.0))), .ok(Ask.get("/orders/1/a", Ask.cookie)),
            sent: [.init(has: ["X-User-Number: a-7%20%C3%A9%25"]), .init(has: ["X-User-Number"])], alsoHTTP2: true),
        Scenario(
            "Fields are removed in any spelling, on their route",
            on: setup(requests: [Change(.remove, "Referer"), Change(.remove, "X-Debug")]),
            .all(["/orders/1/a", "/public/a"].map { Ask.get($0, "Referer: r", "X_Debug: d", "X-Debugs: s") }, 200),
            sent: [
                .init(has: ["Referer", "X_Debug", "X-Debugs: s"]),
                .init(has: ["Referer: r", "X_Debug: d", "X-Debugs: s"]),
            ]),
    ]

    private static let policy = "Content-Security-Policy: frame-ancestors 'self'"
    private static let opener = "Cross-Origin-Opener-Policy: same-origin-allow-popups"

    private static let responses = [
        Scenario(
            "Responses get, keep and lose fields",
            on: setup(
                reply("Server: s", "X-A: 1", "x-a: 2", "X-B: 1", "X-C: 1"),
                responses: [
                    Change(.remove, "Server"), Change(.set, "X-A", "3"), Change(.add, "X-B", "2"),
                    Change(.default, "X-C", "2"), Change(.default, "X-D", "2"),
                    Change(.set, "X-Request-Id", "{request_id}"),
                ]),
            .ok(
                Ask.get("/orders/1/a"),
                has: ["Server", "X-A: 3", "X-B: 1", "X-B: 2", "X-C: 1", "X-D: 2", "X-Request-Id: …"]),
            .ok(has: ["Server: s", "X-A: 1", "X-A: 2", "X-D", "X-Request-Id"]), alsoHTTP2: true),
        Scenario(
            "A preset applies to local responses of the route and of no route, which keep their own fields",
            on: setup(responses: [Change(.set, "Cache-Control", "public"), Change(.remove, "Referrer-Policy")])
                .configuration {
                    $0.responseFields.preset = .page
                    $0.routes[$0.routes.count - 1].requiresAuthorization = true
                },
            .ask(
                Ask.get("/orders/1/a"), 401,
                has: [policy, opener, "X-Content-Type-Options: nosniff", "Cache-Control: no-store", "Referrer-Policy"]),
            .ask(Ask.get("/none"), 404, has: [policy, opener, "Referrer-Policy: strict-origin-when-cross-origin"]),
            .ask(Ask.ask("PATCH", "/public/a"), 405, has: [policy, "Cross-Origin-Resource-Policy: same-origin"]),
            sent: [], alsoHTTP2: true),
        Scenario(
            "Redirects of a route get its fields",
            on: setup(preset: .api).configuration { configuration in
                let route = configuration.routes.count - 1
                guard let pattern = try? PathPattern("/to/{id}"),
                    let rewrite = try? PathRewrite(from: configuration.routes[route].pattern, to: pattern)
                else { return }
                configuration.routes[route].action = .redirect(RedirectTemplate(rewrite))
            },
            .ask(Ask.get("/orders/1/a"), 308, has: ["Location: /to/1", "Referrer-Policy: no-referrer"]), sent: [],
            alsoHTTP2: true),
        Scenario(
            "Rule 90: a preset keeps what the upstream sends, and X-Frame-Options omits a policy that permits framing",
            on: setup(
                reply("X-Frame-Options: DENY", "Referrer-Policy: origin"), preset: .page),
            .ok(
                Ask.get("/orders/1/a"),
                has: ["Content-Security-Policy", "X-Frame-Options: DENY", "Referrer-Policy: origin", opener]),
            .replace { $0.routes[$0.routes.count - 1].responsePreset = .api },
            .ok(
                Ask.get("/orders/1/a"),
                has: ["Content-Security-Policy: default-src 'none'; frame-ancestors 'none'", "X-Frame-Options: DENY"]),
            alsoHTTP2: true),
        Scenario(
            "Rule 90: a 304 gets none of a preset, and only what replaces the upstream's field",
            on: setup(
                "HTTP/1.1 304 Not Modified\r\nX-A: 1\r\nX-B: 1\r\n\r\n",
                responses: [
                    Change(.set, "X-A", "2"), Change(.add, "X-B", "2"), Change(.default, "X-C", "2"),
                    Change(.remove, "Server"),
                ], preset: .page),
            .ask(
                Ask.get("/orders/1/a"), 304,
                has: ["X-A: 2", "X-B: 1", "X-C", "Content-Security-Policy", "X-Content-Type-Options"]), alsoHTTP2: true),
        Scenario(
            "Rules 30 and 90: a removed Cache-Control does not count as one of the upstream",
            on: setup(
                reply("Cache-Control: no-store", "Vary: Cookie"),
                responses: [
                    Change(.remove, "Cache-Control"), Change(.remove, "Vary"),
                ]
            ).configuration { $0.routes[$0.routes.count - 1].requiresAuthorization = true },
            .ok(Ask.get("/orders/1/a", Ask.cookie), has: ["Cache-Control: private", "Vary: Cookie"]), alsoHTTP2: true),
        Scenario(
            "The response that accepts a WebSocket does not change",
            on: setup(Handshake.consent, responses: [Change(.set, "X-A", "1")], preset: .page).configuration {
                $0.routes[$0.routes.count - 1].allowsWebSocket = true
            }, .ask(Handshake.request("/orders/1/socket"), 101, has: ["X-A", "Content-Security-Policy"])),
    ]

    @Sendable private static func strict(_ configuration: inout GatewayConfiguration) {
        configuration.responseFields.strictTransport.maxAge = .seconds(60)
    }

    private static let transport = [
        Scenario(
            "Rule 91: without TLS there is no Strict-Transport-Security, and the upstream's is removed",
            on: setup(reply("Strict-Transport-Security: max-age=9")).configuration(strict),
            .ok(Ask.get("/orders/1/a", "X-Forwarded-Proto: https"), has: ["Strict-Transport-Security"]),
            .ask(Ask.get("/none"), 404, has: ["Strict-Transport-Security"]), alsoHTTP2: true),
        Scenario(
            "Rule 91: behind a proxy that terminates TLS it is sent on every status",
            on: setup(reply("Strict-Transport-Security: max-age=9", status: "503 No")).configuration(strict)
                .configuration {
                    $0.responseFields.strictTransport.includeSubDomains = true
                    $0.listeners[0].isBehindTLSProxy = true
                },
            .each(
                ["/orders/1/a", "/none", "/auth"].map { Ask.get($0) },
                has: ["Strict-Transport-Security: max-age=60; includeSubDomains"]), alsoHTTP2: true),
        Scenario(
            "Rule 91: a trusted proxy reports the scheme", on: setup().configuration(strict).configuration(trusting),
            .ok(Ask.get("/public/a", "X-Forwarded-Proto: https"), has: ["Strict-Transport-Security: max-age=60"]),
            .ok(Ask.get("/public/a", "X-Forwarded-Proto: http"), has: ["Strict-Transport-Security"])),
        Scenario(
            "Rule 91: it does so also for a request that is rejected before its fields are evaluated",
            on: setup().configuration(strict).configuration(trusting).configuration {
                $0.listeners[0].isBehindTLSProxy = true
            },
            .ask("GET / HTTP/1.1\r\nX-Forwarded-Proto: http\r\n\r\n", 400, has: ["Strict-Transport-Security"]),
            .ask(
                "GET / HTTP/1.1\r\nX-Forwarded-Proto: https\r\n\r\n", 400,
                has: ["Strict-Transport-Security: max-age=60"]),
            .ask("GET / HTTP/1.1\r\n\r\n", 400, has: ["Strict-Transport-Security: max-age=60"]), sent: []),
        Scenario(
            "Rule 91: the gateway's own endpoints have the security fields of pages, without an opener policy",
            on: setup().configuration { $0.responseFields.preset = .page },
            .ask(
                Ask.get("/auth"), 200,
                has: [policy, "X-Content-Type-Options: nosniff", "Cross-Origin-Opener-Policy"]),
            .replace { $0.responseFields.own = .none }, .ask(Ask.get("/auth"), 200, has: ["X-Content-Type-Options"]),
            sent: [], alsoHTTP2: true),
        Scenario(
            "References to https come back if a proxy in front terminates TLS",
            on: setup(reply("Location: https://gateway.test/b")).configuration { configuration in
                configuration.listeners[0].isBehindTLSProxy = true
                let route = configuration.routes.count - 1
                guard let path = try? PathPattern("/x/*"), let sent = try? PathPattern("/*"),
                    let rewrite = try? PathRewrite(from: path, to: sent)
                else { return }
                configuration.routes[route].pattern = path
                configuration.routes[route].action = .forward(upstream: 0, rewrite)
            }, .ok(Ask.get("/x/a"), has: ["Location: /x/b"])),
    ]

    @Test("Fields of requests", arguments: requests)
    func ofRequests(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Fields of responses", arguments: responses + transport)
    func ofResponses(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("An HTTP/2 upstream receives and sends the same")
    func http2() async throws {
        let changes = [Change(.set, "X-Stream", "9"), Change(.remove, "Content-Type")]
        let setup = GatewaySetup().configuration {
            $0.routes[0].requestFields = [Change(.set, "X-Tenant", "acme")]
            ($0.routes[0].responseFields, $0.routes[0].responsePreset) = (changes, .api)
        }
        try await setup.run(against: UpstreamHTTP2Tests.responds) { gateway, server in
            let response = try await gateway.client().exchange(Ask.get("/public/a", "X_Tenant: evil"))
            expect(response.values("X-Stream"), equals: ["9"])
            expect(response["Content-Type"], equals: nil)
            expect(response["Referrer-Policy"], equals: "no-referrer")
            let head = try require(server.requests.first?.head)
            expect(head["x-tenant"], equals: ["acme"])
            expect(empty: head["x_tenant"])
        }
    }

    @Test("Responses to gRPC calls do not change, also local ones")
    func calls() throws {
        var configuration = try GatewaySetup().makeConfig().configuration
        configuration.responseFields.preset = .page
        Self.strict(&configuration)
        var route = configuration.routes[0]
        expect(configuration.responseChanges(of: route).count, equals: 6)
        route.grpc = true
        expect(empty: configuration.responseChanges(of: route))
    }
}
