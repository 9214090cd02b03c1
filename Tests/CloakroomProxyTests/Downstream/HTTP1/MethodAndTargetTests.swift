import CloakroomCore
import TestSupport
import Testing

@Suite("Methods and targets with special rules", .serialized)
struct MethodAndTargetTests {
    @Test("OPTIONS * gets a local response (RFC 9110 §9.3.7)")
    func optionsAsterisk() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.status == 204)
            #expect(response["Allow"]?.contains("GET") == true)
            #expect(gateway.upstream.connections.isEmpty)
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }

    @Test(
        "TRACE is 405 on every path (RFC 9110 §9.3.8)", arguments: ["/public/a", "/private/a", "/nowhere", "/auth"])
    func trace(path: String) async throws {
        try await GatewaySetup([.request]).run { gateway in
            let response = try await gateway.client().exchange("TRACE \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.status == 405)
            #expect(response.values("Allow").count == 1)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("The authority of an absolute target takes precedence over Host (RFC 9112 §3.2.2)")
    func absoluteForm() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                "GET http://real.test:81/public/a?b HTTP/1.1\r\nHost: other.test\r\n\r\n")
            #expect(response.text == "ok")
            let request = gateway.upstream.requests[0]
            #expect(request.line == "GET /public/a?b HTTP/1.1")
            #expect(request.values("Host") == ["real.test:81"])
            #expect(request.values("X-Forwarded-Host") == ["real.test:81"])
            #expect(!request.head.contains("other.test"))
        }
    }

    @Test("The upstream receives the client's Host, or the target's authority if so configured (RFC 9110 §7.2)")
    func host() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            _ = try await gateway.client().exchange(Ask.get())
            #expect(gateway.upstream.requests[0].values("Host") == ["gateway.test"])
        }
        try await GatewaySetup([.request, .send(Reply.ok)]).configuration { $0.upstreams[0].preserveHost = false }.run {
            gateway in
            _ = try await gateway.client().exchange(Ask.get())
            #expect(gateway.upstream.requests[0]["Host"]?.hasPrefix("127.0.0.1:") == true)
            #expect(gateway.upstream.requests[0]["X-Forwarded-Host"] == "gateway.test")
        }
    }

    @Test("Any expectation but 100-continue is 417 (RFC 9110 §10.1.1)", arguments: ["/public/a", "/auth"])
    func unknownExpectation(path: String) async throws {
        try await GatewaySetup([.request]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                "POST \(path) HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\nContent-Length: 1\r\n\r\n")
            #expect(response.status == 417)
            #expect(gateway.upstream.connections.isEmpty)
            // It is undefined whether the body follows.
            #expect(response["Connection"] == "close")
            try await client.closed()
        }
    }

    @Test("For an account endpoint the gateway sends 100 (Continue) itself (RFC 9110 §10.1.1)")
    func ownContinue() async throws {
        let endpoints = FakeEndpoints { request in
            AccountResponse(status: 200, content: .json(request.body.bytes))
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway in
            let client = try await gateway.client()
            client.send("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.response().status == 100)
            #expect(try await client.exchange("hello").text == "hello")
        }
    }

    @Test("A request with an unknown method is forwarded if its route allows the method (RFC 9110 §9.1)")
    func unknownMethod() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).configuration { $0.routes[0].methods.append("PURGE") }.run {
            gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange("PURGE /public/a HTTP/1.1\r\nHost: a\r\n\r\n").text == "ok")
            #expect(gateway.upstream.requests[0].line == "PURGE /public/a HTTP/1.1")
            #expect(try await client.exchange("BREW /public/a HTTP/1.1\r\nHost: a\r\n\r\n").status == 405)
        }
    }

    @Test("Hop-by-hop fields are not forwarded (RFC 9110 §7.6.1)")
    func hopByHop() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)]).run { gateway in
            _ = try await gateway.client().exchange(
                Ask.get(
                    "/public/a", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "TE: gzip", "Trailer: X",
                    "Upgrade: h2c", "HTTP2-Settings: x", "Proxy-Connection: close", "Proxy-Authorization: Basic x",
                    "Accept-Encoding: br", "If-None-Match: \"a\""))
            let request = gateway.upstream.requests[0]
            for name in [
                "Connection", "X-Hop", "Keep-Alive", "TE", "Trailer", "Upgrade", "HTTP2-Settings", "Proxy-Connection",
                "Proxy-Authorization",
            ] {
                #expect(request.values(name).isEmpty, "\(name)")
            }
            #expect(request["Accept-Encoding"] == "br")
            #expect(request["If-None-Match"] == "\"a\"")
        }
    }
}
