import CloakroomCore
import TestSupport
import Testing

@Suite("Interim responses (RFC 9110 §15.2)", .serialized)
struct InformationalResponseTests {
    private static let expecting = "POST /public/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"

    @Test("Rule 78: the gateway asks for the body itself; the upstream gets no Expect, and the request with its body")
    func `continue`() async throws {
        try await GatewaySetup([.request, .send("HTTP/1.1 100 Continue\r\n\r\n" + Reply.ok), .again]).run {
            gateway, client async throws in
            client.send(Self.expecting + "Content-Length: 5\r\n\r\n")
            try await expect(client.response().status, equals: 100)
            await gateway.settle()
            expect(empty: gateway.upstream.connections)
            client.send("hello")
            // A 100 of the upstream, which was not asked for it, is dropped.
            try await expect(client.response().text, equals: "ok")
            expect(empty: gateway.upstream.requests[0].values("Expect"))
            expect(gateway.upstream.requests[0].text, equals: "hello")
            try await expect(client.exchange(Ask.get()).status, equals: 200)
        }
    }

    @Test("Rule 78: in HTTP/2 the gateway asks for the body once")
    func continueInHTTP2() async throws {
        let unsolicited = "HTTP/1.1 100 Continue\r\n\r\n"
        try await GatewaySetup([.request, .send(unsolicited + Reply.ok)]).runHTTP2 { gateway, client in
            let fields = HTTP2Fields.post("/public/a", ("content-length", "5"), ("expect", "100-continue"))
            client.send(.headers(1, fields, ends: false))
            try await eventually("100") { client.stream(1).interim == ["100"] }
            expect(empty: gateway.upstream.connections)
            client.send(.data(1, "hello", ends: true))
            let response = try await client.response(1)
            expect(response.text, equals: "ok")
            expect(response.interim, equals: ["100"])
            expect(empty: gateway.upstream.requests[0].values("Expect"))
        }
    }

    @Test("103 (Early Hints) and any number of other interim responses are forwarded before the final response")
    func earlyHints() async throws {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: close\r\n\r\n"
        let unknown = "HTTP/1.1 199 Whatever\r\n\r\n"
        try await GatewaySetup([.request, .send(hints + unknown + hints + Reply.ok), .again]).run { gateway, client in
            let first = try await client.exchange(Ask.get())
            expect(first.status, equals: 103)
            expect(first["Link"], equals: "</a.css>; rel=preload")
            expect(empty: first.values("Connection"))
            try await expect(client.response().status, equals: 199)
            try await expect(client.response().status, equals: 103)
            try await expect(client.response().text, equals: "ok")
            try await expect(client.exchange(Ask.get()).status, equals: 103)
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    private static let upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

    @Test(
        "Those that do not reach the client",
        arguments: [
            Scenario(
                "They are not forwarded to HTTP/1.0 clients (RFC 9110 §15.2)",
                on: GatewaySetup([.request, .send("HTTP/1.1 103 Early Hints\r\n\r\n" + Reply.ok)]),
                .ok("GET /public/a HTTP/1.0\r\n\r\n")),
            Scenario(
                "An unsolicited 101 (Switching Protocols) is 502 (RFC 9110 §15.2.2)",
                on: GatewaySetup([.request, .send(upgrade)], [.request, .send(Reply.ok)]),
                .ask(Ask.get("/public/a", "Connection: Upgrade", "Upgrade: websocket"), 502, "failed_request"),
                .run { try await $0.upstream.closed() }, .ok(), sent: [.init("…", has: ["Upgrade"]), "…"]),
        ])
    func dropped(row: Scenario) async throws { try await row.run() }
}
