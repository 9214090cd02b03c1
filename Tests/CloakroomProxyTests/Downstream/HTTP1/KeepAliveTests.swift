import CloakroomCore
import TestSupport
import Testing

@Suite("Persistence of client connections (RFC 9112 §9.3)", .serialized)
struct KeepAliveTests {
    @Test("Responses to pipelined requests are sent in request order (RFC 9112 §9.3.2)")
    func pipelining() async throws {
        let gate = Gate()
        let numbered = (1...4).flatMap { number in
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\(number)"
            return number == 1
                ? [ScriptedUpstream.Step.request, .wait(gate), .send(response)] : [.request, .send(response)]
        }
        try await GatewaySetup(numbered).run { gateway, client in
            client.send(
                Ask.get("/public/1") + Ask.post("/public/2", body: "two") + Ask.get("/nowhere") + Ask.get("/public/3")
                    + Ask.get("/public/4"))
            _ = try await gateway.upstream.request()
            gate.open()
            try await expect(client.response().text, equals: "1")
            try await expect(client.response().text, equals: "2")
            try await expect(client.response().status, equals: 404)
            try await expect(client.response().text, equals: "3")
            try await expect(client.response().text, equals: "4")
            expect(gateway.upstream.requests.map(\.line).last, equals: "GET /public/4 HTTP/1.1")
            expect(gateway.upstream.requests[1].text, equals: "two")
        }
    }

    @Test(
        "A connection ends or persists as the version and the request specify (RFC 9112 §9.3, §9.6)",
        arguments: [
            WireExchange(
                "A response to Connection: close has it too, and later bytes are not read (RFC 9112 §9.6)",
                Ask.get("/public/1", "Connection: close") + Ask.get("/public/2"),
                [.init(200, "ok", "Connection: close")], upstream: ["GET /public/1 HTTP/1.1"]),
            WireExchange(
                "An HTTP/1.0 connection ends after the response unless the client asks for keep-alive (RFC 9112 §9.3)",
                "GET /public/a HTTP/1.0\r\n\r\n", [.init(200, "ok", "Connection: close")],
                upstream: ["GET /public/a HTTP/1.1"]),
            WireExchange(
                "An HTTP/1.0 connection with keep-alive persists, and the response has Connection: keep-alive",
                String(repeating: "GET /public/a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", count: 2)
                    + "GET /nowhere HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                [
                    .init(200, "ok", "Connection: keep-alive"), .init(200, "ok", "Connection: keep-alive"),
                    .init(404, nil, "Connection: keep-alive"),
                ], closes: false),
            WireExchange(
                "A higher minor version counts as HTTP/1.1 (RFC 9112 §2.3)",
                "GET /public/a HTTP/1.2\r\nHost: a\r\n\r\n" + Ask.get(), [.init(200, "ok"), .init(200, "ok")],
                closes: false),
            WireExchange(
                "Empty lines before a request are skipped (RFC 9112 §2.2)",
                "\r\n" + Ask.get() + "\r\n\r\n" + Ask.get(), [.init(200, "ok"), .init(200, "ok")], closes: false),
        ])
    func persistence(row: WireExchange) async throws { try await row.run() }

    @Test("For an HTTP/1.0 client the upstream receives an HTTP/1.1 request with its own Host")
    func version10() async throws {
        try await GatewaySetup.serving.run { gateway in
            let response = try await gateway.client().exchange("GET /public/a HTTP/1.0\r\n\r\n")
            expect(response.version, equals: "HTTP/1.1")
            expect(gateway.upstream.requests[0]["Host"]?.hasPrefix("127.0.0.1:"), equals: true)
            expect(gateway.upstream.requests[0]["Via"], equals: "1.0 cloakroom")
        }
    }
}
