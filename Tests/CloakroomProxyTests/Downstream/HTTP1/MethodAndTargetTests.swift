import CloakroomCore
import TestSupport
import Testing

@Suite("Methods and targets with special rules", .serialized)
struct MethodAndTargetTests {
    private static func ask(_ line: String, _ fields: String...) -> String {
        (["\(line) HTTP/1.1"] + (fields.isEmpty ? ["Host: a"] : fields)).joined(separator: "\r\n") + "\r\n\r\n"
    }

    private static let ownHost = GatewaySetup.serving.configuration { $0.upstreams[0].preserveHost = false }
    private static let purging = GatewaySetup.serving.configuration { $0.routes[0].methods.append("PURGE") }

    @Test(
        "Local responses, and the target and Host that the upstream receives",
        arguments: [
            Scenario(
                "OPTIONS * gets a local response (RFC 9110 §9.3.7)",
                .ask(ask("OPTIONS *"), 204, has: ["Allow: …GET…"]), .ok(), sent: ["GET /public/a HTTP/1.1"]),
            Scenario(
                "TRACE is 405 on every path (RFC 9110 §9.3.8)",
                .each(
                    ["/public/a", "/private/a", "/nowhere", "/auth"].map { ask("TRACE \($0)") }, 405, has: ["Allow: …"]),
                sent: []),
            Scenario(
                "The authority of an absolute target takes precedence over Host (RFC 9112 §3.2.2)",
                .ok(ask("GET http://real.test:81/public/a?b", "Host: other.test")),
                sent: [
                    .init(
                        "GET /public/a?b HTTP/1.1", has: ["Host: real.test:81", "X-Forwarded-Host: real.test:81"],
                        lacks: ["other.test"])
                ]),
            Scenario(
                "The upstream receives the client's Host (RFC 9110 §7.2)", .ok(),
                sent: [.init("…", has: ["Host: gateway.test"])]),
            Scenario(
                "The upstream receives the target's authority if so configured (RFC 9110 §7.2)", on: ownHost, .ok(),
                sent: [.init("…", has: ["Host: 127.0.0.1:…", "X-Forwarded-Host: gateway.test"])]),
            Scenario(
                "A request with an unknown method is forwarded if its route allows the method (RFC 9110 §9.1)",
                on: purging, .ok(ask("PURGE /public/a")), .ask(ask("BREW /public/a"), 405),
                sent: ["PURGE /public/a HTTP/1.1"]),
            Scenario(
                "Hop-by-hop fields are not forwarded (RFC 9110 §7.6.1)",
                .ok(
                    Ask.get(
                        "/public/a", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "TE: gzip",
                        "Trailer: X", "Upgrade: h2c", "HTTP2-Settings: x", "Proxy-Connection: close",
                        "Proxy-Authorization: Basic x", "Accept-Encoding: br", "If-None-Match: \"a\"")),
                sent: [
                    .init(
                        "…",
                        has: [
                            "Connection", "X-Hop", "Keep-Alive", "TE", "Trailer", "Upgrade", "HTTP2-Settings",
                            "Proxy-Connection", "Proxy-Authorization", "Accept-Encoding: br", "If-None-Match: \"a\"",
                        ])
                ]),
        ])
    func row(_ row: Scenario) async throws { try await row.run() }

    @Test("Any expectation but 100-continue is 417 (RFC 9110 §10.1.1)", arguments: ["/public/a", "/auth"])
    func unknownExpectation(path: String) async throws {
        // It is undefined whether the body follows, so the connection ends.
        try await WireExchange(
            "", Self.ask("POST \(path)", "Host: a", "Expect: 200-maybe", "Content-Length: 1"),
            [.init(417, nil, "Connection: close")], upstream: []
        ).run()
    }

    @Test("For an account endpoint the gateway sends 100 (Continue) itself (RFC 9110 §10.1.1)")
    func ownContinue() async throws {
        let endpoints = FakeEndpoints { request in
            AccountResponse(status: 200, content: .json(request.body.bytes))
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway, client async throws in
            client.send("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
            try await expect(client.response().status, equals: 100)
            try await expect(client.exchange("hello").text, equals: "hello")
        }
    }
}
