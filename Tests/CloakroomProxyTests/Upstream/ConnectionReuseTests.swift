import CloakroomCore
import TestSupport
import Testing

@Suite("Reuse of upstream connections (RFC 9112 §9.3)", .serialized)
struct ConnectionReuseTests {
    @Test("Two requests of two clients use one upstream connection")
    func reuse() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let first = try await gateway.client().exchange(Ask.get("/public/1"))
            let second = try await gateway.client().exchange(Ask.get("/public/2"))
            #expect(first.text == "ok")
            #expect(second.text == "ok")
            #expect(gateway.upstream.connections.count == 1)
            #expect(gateway.upstream.requests.map(\.line) == ["GET /public/1 HTTP/1.1", "GET /public/2 HTTP/1.1"])
        }
    }

    @Test(
        "A connection that the upstream will not keep open is not reused (RFC 9112 §9.6)",
        arguments: [
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            // Extra bytes after a response are never parsed as the next one.
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            "HTTP/1.1 204 No Content\r\n\r\nx",
        ])
    func notReused(response: String) async throws {
        try await GatewaySetup([.request, .send(response)], [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text != "evil")
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(gateway.upstream.connections.count == 2)
            try await gateway.upstream.closed()
        }
    }

    @Test("An HTTP/1.0 connection is reused if the response has Connection: keep-alive (RFC 9112 §9.3)")
    func keepAliveOf10() async throws {
        let response = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(response), .again]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).version == "HTTP/1.1")
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(gateway.upstream.connections.count == 1)
        }
    }

    @Test("An idle connection is closed one second before the Keep-Alive timeout of the upstream (RFC 2068 §19.7.1.1)")
    func keepAliveTimeout() async throws {
        let response = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(response), .again]).steppedTime().run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            try await gateway.advance(.milliseconds(3_900))
            #expect(gateway.upstream.connections.first?.isClosed == false)
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
        ).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            gate.open()
            try await gateway.upstream.closed()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(gateway.upstream.connections.count == 2)
        }
    }

    @Test("An idle connection is closed after its idle timeout")
    func idleTimeout() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again])
            .configuration {
                $0.upstreams[0].pool.idleTimeout = .milliseconds(100)
                $0.timeouts.bodyIdle = .milliseconds(500)
            }
            .run { gateway in
                #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
                try await gateway.upstream.closed()
            }
    }

    // MARK: - Stale connections (RFC 9110 §9.2.2)

    private static let stale: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .request, .close]

    @Test(
        "If a reused connection closes before the first response byte, an idempotent request is sent again (RFC 9110 §9.2.2)",
        arguments: ["GET", "HEAD", "DELETE", "OPTIONS"])
    func retried(method: String) async throws {
        try await GatewaySetup(Self.stale, [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            let response = try await client.exchange(
                "\(method) /public/a HTTP/1.1\r\nHost: a\r\n\r\n", isToHead: method == "HEAD")
            #expect(response.status == 200)
            #expect(gateway.upstream.connections.count == 2)
            #expect(gateway.upstream.connections[1].requests.map(\.line) == ["\(method) /public/a HTTP/1.1"])
            try await gateway.metric(
                "cloakroom_upstream_retries_total{outcome=\"sent\",reason=\"stale\",upstream=\"api\"} 1")
        }
    }

    @Test("It is sent once more, and not twice")
    func retriedOnce() async throws {
        try await GatewaySetup(Self.stale, [.request, .close]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            let response = try await client.exchange(Ask.get())
            #expect(response.status == 502)
            #expect(response.code == "failed_request")
            #expect(gateway.upstream.requests.count == 3)
        }
    }

    @Test(
        "The first request on a new connection is sent once more if its method permits it",
        arguments: [("GET", 2), ("HEAD", 2), ("OPTIONS", 2), ("DELETE", 1), ("PUT", 1)])
    func freshIsReset(method: String, sends: Int) async throws {
        try await GatewaySetup([.request, .close]).run { gateway in
            let response = try await gateway.client().exchange(
                "\(method) /public/a HTTP/1.1\r\nHost: a\r\n\r\n", isToHead: method == "HEAD")
            #expect(response.status == 502)
            #expect(gateway.upstream.requests.count == sends)
        }
    }

    @Test(
        "A request that is not idempotent is never sent twice",
        arguments: [
            "POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        ])
    func notRetried(request: String) async throws {
        try await GatewaySetup(Self.stale, [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(try await client.exchange(request).status == 502)
            #expect(gateway.upstream.connections.count == 1)
            #expect(gateway.upstream.requests.count == 2)
        }
    }

    @Test("Nothing is sent again after the first response byte (RFC 9110 §9.2.2)")
    func notRetriedAfterAByte() async throws {
        try await GatewaySetup(
            [.request, .send(Reply.ok), .request, .send("H"), .close], [.request, .send(Reply.ok)]
        ).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).text == "ok")
            #expect(try await client.exchange(Ask.get()).status == 502)
            #expect(gateway.upstream.connections.count == 1)
        }
    }
}
