import CloakroomCore
import TestSupport
import Testing

@Suite("Reuse of upstream connections (RFC 9112 §9.3)", .serialized)
struct ConnectionReuseTests {
    private static let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    private static let keepAliveOf10 = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"

    /// Requests of two clients to an upstream that serves several requests on each connection.
    private static func reused(_ name: String, _ response: String) -> Scenario {
        Scenario(
            name, on: .replying(response), .each([Ask.get("/public/1"), Ask.get("/public/2")], 200, text: "ok"),
            .run { expect($0.upstream.connections.count, equals: 1) },
            sent: ["GET /public/1 HTTP/1.1", "GET /public/2 HTTP/1.1"])
    }

    /// A request, a response after which the connection is not usable, and another request.
    private static func notReused(_ response: String, _ status: Int = 200, text: String = "ok") -> Scenario {
        Scenario(
            "not after \(response.debugDescription)",
            on: GatewaySetup([.request, .send(response)], [.request, .send(Reply.ok)]),
            .ask(Ask.get(), status, text: text), .ok(),
            .run {
                expect($0.upstream.connections.count, equals: 2)
                try await $0.upstream.closed()
            })
    }

    @Test(
        "A connection is used for further requests unless the upstream will not keep it open (RFC 9112 §9.6)",
        arguments: [
            reused("Two requests of two clients use one upstream connection", Reply.ok),
            reused("An HTTP/1.0 connection is reused if the response has Connection: keep-alive", keepAliveOf10),
            notReused(closing),
            notReused("HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 2\r\n\r\nok"),
            notReused("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            // Extra bytes after a response are never parsed as the next one.
            notReused(Reply.ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
            notReused(Reply.noContent + "x", 204, text: ""),
        ])
    func reuse(row: Scenario) async throws { try await row.run() }

    @Test("An idle connection is closed one second before the Keep-Alive timeout of the upstream (RFC 2068 §19.7.1.1)")
    func keepAliveTimeout() async throws {
        let response = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup.replying(response).steppedTime().run { gateway, client in
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            try await gateway.advance(.milliseconds(3_900))
            expect(gateway.upstream.connections.first?.isClosed, equals: false)
            try await gateway.advance(.milliseconds(200))
            try await gateway.upstream.closed()
        }
    }

    @Test("Bytes on an idle connection close it, and are never parsed as a response (RFC 9112 §9.3)")
    func bytesWhileIdle() async throws {
        let gate = Gate()
        try await GatewaySetup(
            [.request, .send(Reply.ok), .wait(gate), .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")],
            [.request, .send(Reply.ok)]
        ).run { gateway, client in
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            gate.open()
            try await gateway.upstream.closed()
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.connections.count, equals: 2)
        }
    }

    @Test(
        "Rule 148: after bytes that belong to no request, connections to the target serve one request each for 60 s",
        arguments: ["with the response", "while the connection is idle"])
    func singleUse(moment: String) async throws {
        let gate = Gate()
        let once: [ScriptedUpstream.Step] = [.request, .send(Reply.ok)]
        let excess = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        let first: [ScriptedUpstream.Step] =
            moment == "with the response"
            ? [.request, .send(Reply.ok + excess)] : once + [.wait(gate), .send(excess)]
        try await GatewaySetup(first, once, once, once + once).steppedTime().run { gateway in
            func asks() async throws { try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok") }
            try await asks()
            gate.open()
            try await gateway.upstream.closed()
            try await asks()
            try await asks()
            expect(gateway.upstream.connections.count, equals: 3)
            try await gateway.advance(.seconds(61))
            try await asks()
            try await asks()
            expect(gateway.upstream.connections.count, equals: 4)
        }
    }

    @Test("Rule 148: connections to the target that were idle then serve no other request")
    func idleBefore() async throws {
        let (both, gate) = (Gate(), Gate())
        let once: [ScriptedUpstream.Step] = [.request, .send(Reply.ok)]
        let first: [ScriptedUpstream.Step] = [.request, .wait(both), .send(Reply.ok), .wait(gate), .send("x")]
        try await GatewaySetup(first, once + once, once).steppedTime().run { gateway in
            async let response = gateway.client().exchange(Ask.get())
            try await eventually("the request") { gateway.upstream.connections.first?.requests.count == 1 }
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            both.open()
            try await expect(response.text, equals: "ok")
            gate.open()
            try await gateway.upstream.closed()
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.connections.count, equals: 3)
        }
    }

    @Test("An idle connection is closed after its idle timeout")
    func idleTimeout() async throws {
        try await GatewaySetup.serving
            .configuration {
                $0.upstreams[0].pool.idleTimeout = .milliseconds(100)
                $0.timeouts.bodyIdle = .milliseconds(500)
            }
            .run { gateway in
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                try await gateway.upstream.closed()
            }
    }

    // MARK: - Stale connections (RFC 9110 §9.2.2)

    private static let stale: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .request, .close]

    private static func ask(_ method: String, _ fields: String = "") -> String {
        "\(method) /public/a HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
    }

    /// A request that is sent again, after one that made the connection a reused one.
    private static func retried(_ method: String) -> Scenario {
        Scenario(
            "\(method) on a reused connection that closes before the first response byte",
            on: GatewaySetup(stale, [.request, .send(Reply.ok)]), .ok(), .ask(ask(method), 200),
            .run {
                let connections = $0.upstream.connections
                expect(connections.count, equals: 2)
                expect(connections.last?.requests.map(\.line), equals: ["\(method) /public/a HTTP/1.1"])
            }, metrics: ["cloakroom_upstream_retries_total{outcome=\"sent\",reason=\"stale\",upstream=\"api\"} 1"])
    }

    /// A request that is not sent again, after one that made the connection a reused one.
    private static func notRetried(_ name: String, _ request: String, _ script: [ScriptedUpstream.Step] = stale)
        -> Scenario
    {
        Scenario(
            name, on: GatewaySetup(script, [.request, .send(Reply.ok)]), .ok(), .ask(request, 502),
            .run { expect($0.upstream.connections.count, equals: 1) }, sent: ["…", "…"])
    }

    /// The first request on a new connection that is closed.
    private static func fresh(_ method: String, sends count: Int) -> Scenario {
        Scenario(
            "\(method) on a new connection is sent \(count) times", on: GatewaySetup([.request, .close]),
            .ask(ask(method), 502), sent: Array(repeating: "…", count: count))
    }

    @Test(
        "A request is sent once more if its method and the state of its connection permit it (RFC 9110 §9.2.2)",
        arguments: [
            retried("GET"), retried("HEAD"), retried("DELETE"), retried("OPTIONS"),
            Scenario(
                "It is sent once more, and not twice", on: GatewaySetup(stale, [.request, .close]), .ok(),
                .ask(Ask.get(), 502, "failed_request"), sent: ["…", "…", "…"]),
            fresh("GET", sends: 2), fresh("HEAD", sends: 2), fresh("OPTIONS", sends: 2), fresh("DELETE", sends: 1),
            fresh("PUT", sends: 1), notRetried("POST", ask("POST", "Content-Length: 0\r\n")),
            notRetried("POST with a body", ask("POST", "Content-Length: 3\r\n") + "abc"),
            notRetried(
                "Nothing is sent again after the first response byte", Ask.get(),
                [.request, .send(Reply.ok), .request, .send("H"), .close]),
        ])
    func retry(row: Scenario) async throws { try await row.run() }
}
