import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("WebSockets opened by pages of other sites (RFC 6455 §10.2)", .serialized)
struct CrossSiteTunnelTests {
    private static func run(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (RunningGateway, RawServer) async throws -> Void
    ) async throws {
        try await Tunnel.gateway(GatewaySetup().http2(adjust), body: body)
    }

    private static let evil = "Origin: https://evil.test"

    private static let rows = [
        Scenario(
            "A cross-site page cannot open a WebSocket with the user's cookie, and the upstream receives nothing",
            on: webSockets,
            .all(
                [
                    evil, "Origin: null", "Origin: https://gateway.test", "Sec-Fetch-Site: cross-site",
                    "Sec-Fetch-Site: same-site",
                ].map { Handshake.request("/private/socket", Ask.cookie, $0) }, 403, "cross_site", has: ["Connection"]),
            // They were ordinary responses: the connection stays open.
            .ask(Ask.get("/nowhere"), 404), sent: []),
        Scenario(
            "Without the cookie it is 401, and on a public route the origin does not matter", on: webSockets,
            .ask(Handshake.request("/private/socket", evil), 401),
            .ask(Handshake.request("/public/socket", Ask.cookie, evil), 200), sent: [.init(has: ["Cookie"])]),
        Scenario(
            "Rule 83: an origin that is not listed for the route is 403, with and without the cookie", on: listed,
            .all(
                [
                    evil, "Origin: null", "Origin: https://app.test:444", "Origin: http://app.test",
                    "Origin: http://gateway.test", "\(app)\r\n\(app)",
                ].flatMap { origin in
                    [
                        Handshake.request("/public/socket", origin),
                        Handshake.request("/public/socket", Ask.cookie, origin),
                    ]
                }, 403, "cross_site", has: ["Connection"]), sent: []),
        Scenario(
            "Rule 83: a listed origin and a client without one pass, and so do requests that open no WebSocket",
            on: listed,
            .all(
                [
                    Handshake.request("/public/socket", app), Handshake.request("/public/socket"),
                    Ask.get("/public/a", evil),
                ], 200)),
        Scenario(
            "Rule 83: a listed origin is not a trusted one: with the cookie it is 403 on a protected route", on: listed,
            .ask(Handshake.request("/private/socket", Ask.cookie, app), 403, "cross_site"), sent: []),
    ]

    private static let app = "Origin: https://app.test"

    private static let unreadable = Scenario(
        "Rule 83: if no origin of the list can be parsed, none is permitted",
        on: webSockets.configuration { $0.routes[0].stream.origins = ["app.test"] },
        .ask(Handshake.request("/public/socket", app), 403, "cross_site"), sent: [])

    private static let listed = webSockets.configuration {
        for index in $0.routes.indices { $0.routes[index].stream.origins = ["https://app.test"] }
    }

    private static let webSockets = GatewaySetup.serving.configuration {
        for index in $0.routes.indices { $0.routes[index].allowsWebSocket = true }
    }

    @Test("Handshakes", arguments: rows + [unreadable])
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test(
        "A same-origin page and a page of a trusted origin can open a WebSocket",
        arguments: ["Origin: http://gateway.test", "Origin: https://partner.test", "Sec-Fetch-Site: same-origin"])
    func allowed(field: String) async throws {
        try await Self.run {
            // A page cannot add this field to a WebSocket handshake.
            $0.crossSite = CrossSiteConfiguration(
                trustedOrigins: ["https://partner.test"], requiredField: .init(name: "X-CSRF", value: "1"))
        } body: { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request("/private/socket", Ask.cookie, field))
            let upstream = try await server.requested()
            upstream.send(Handshake.consent)
            try await expect(client.head().hasPrefix("HTTP/1.1 101"))
        }
    }

    @Test("Rule 83: an extended CONNECT of an origin that is not listed for the route is 403 (RFC 8441)")
    func connectOfAnotherOrigin() async throws {
        try await Self.run({ $0.routes[0].stream.origins = ["https://app.test"] }) { gateway, server in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/public/socket")
            fields.lines += HTTP2Fields([("origin", "https://evil.test")]).lines
            client.send(.headers(1, fields, ends: false))
            try await expect(client.response(1).problem, equals: "403 cross_site")
            expect(empty: server.peers)
        }
    }

    @Test("RFC 8441: the same rules apply to an extended CONNECT")
    func connect() async throws {
        try await Self.run { gateway, server in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/private/socket")
            fields.lines += HTTP2Fields([("cookie", Ask.cookieValue)]).lines
            for (index, extra) in [
                ("origin", "https://evil.test"), ("origin", "null"), ("sec-fetch-site", "cross-site"),
            ].enumerated() {
                var evil = fields
                evil.lines += HTTP2Fields([extra]).lines
                let id = UInt32(2 * index + 1)
                client.send(.headers(id, evil, ends: false))
                let response = try await client.response(id)
                expect(response.problem, equals: "403 cross_site")
            }
            expect(empty: server.peers)
            fields.lines += HTTP2Fields([("origin", "http://gateway.test")]).lines
            client.send(.headers(101, fields, ends: false))
            let upstream = try await server.requested()
            upstream.send(Handshake.consent)
            try await eventually("the tunnel") { client.stream(101).status != nil || client.isClosed }
            expect(client.stream(101).status, equals: 200)
        }
    }
}
