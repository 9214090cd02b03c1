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
        try await GatewaySetup(numbered).run { gateway in
            let client = try await gateway.client()
            client.send(
                Ask.get("/public/1") + Ask.post("/public/2", body: "two") + Ask.get("/nowhere") + Ask.get("/public/3")
                    + Ask.get("/public/4"))
            _ = try await gateway.upstream.request()
            gate.open()
            #expect(try await client.response().text == "1")
            #expect(try await client.response().text == "2")
            #expect(try await client.response().status == 404)
            #expect(try await client.response().text == "3")
            #expect(try await client.response().text == "4")
            #expect(gateway.upstream.requests.map(\.line).last == "GET /public/4 HTTP/1.1")
            #expect(gateway.upstream.requests[1].text == "two")
        }
    }

    @Test("Hundreds of pipelined requests all get a response")
    func deepPipelining() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            client.send(String(repeating: Ask.get("/nowhere") + Ask.get(), count: 300))
            for _ in 0..<300 {
                #expect(try await client.response().status == 404)
                #expect(try await client.response().text == "ok")
            }
        }
    }

    @Test("A response to Connection: close has it too, and later bytes are not read (RFC 9112 §9.6)")
    func close() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/public/1", "Connection: close") + Ask.get("/public/2"))
            let response = try await client.response()
            #expect(response.text == "ok")
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(client.unread.isEmpty)
            #expect(gateway.upstream.requests.count == 1)
        }
    }

    @Test("An HTTP/1.0 connection ends after the response unless the client asks for keep-alive (RFC 9112 §9.3)")
    func version10() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("GET /public/a HTTP/1.0\r\n\r\n")
            #expect(response.text == "ok")
            #expect(response.version == "HTTP/1.1")
            #expect(response["Connection"] == "close")
            try await client.closed()
            // The upstream receives an HTTP/1.1 request with its own `Host`.
            #expect(gateway.upstream.requests[0].line == "GET /public/a HTTP/1.1")
            #expect(gateway.upstream.requests[0]["Host"]?.hasPrefix("127.0.0.1:") == true)
            #expect(gateway.upstream.requests[0]["Via"] == "1.0 cloakroom")
        }
    }

    @Test("An HTTP/1.0 connection with keep-alive persists, and the response has Connection: keep-alive")
    func keepAliveOf10() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                let response = try await client.exchange("GET /public/a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
                #expect(response.text == "ok")
                #expect(response["Connection"] == "keep-alive")
            }
            let own = try await client.exchange("GET /nowhere HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(own["Connection"] == "keep-alive")
        }
    }

    @Test("A higher minor version counts as HTTP/1.1 (RFC 9112 §2.3)")
    func version12() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange("GET /public/a HTTP/1.2\r\nHost: a\r\n\r\n").text == "ok")
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }

    @Test("Empty lines before a request are skipped (RFC 9112 §2.2)")
    func emptyLines() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange("\r\n" + Ask.get()).text == "ok")
            #expect(try await client.exchange("\r\n\r\n" + Ask.get()).text == "ok")
        }
    }
}
