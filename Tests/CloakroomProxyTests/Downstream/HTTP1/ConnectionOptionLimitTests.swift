import CloakroomCore
import TestSupport
import Testing

@Suite("More connection options than any legitimate use needs (RFC 9110 §7.6.1)", .serialized)
struct ConnectionOptionLimitTests {
    private static func line(_ count: Int) -> String {
        "Connection: " + Array(repeating: "b", count: count).joined(separator: ",")
    }

    @Test("Rule 46: a request with more than 32 connection options is 400, and the connection ends")
    func request() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get("/public/a", Self.line(32))).text == "ok")
            let response = try await client.exchange(Ask.get("/public/a", Self.line(32), "Connection: c"))
            #expect(response.status == 400)
            try await client.closed()
            #expect(gateway.upstream.requests.count == 1)
            try await gateway.metric("cloakroom_rejections_total{reason=\"connection_options\"} 1")
        }
    }

    @Test(
        "Rule 46: a response with more than 32 connection options is 502, an interim one too",
        arguments: ["200 OK", "103 Hints"])
    func response(status: String) async throws {
        let response = "HTTP/1.1 \(status)\r\n\(Self.line(33))\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(response)], [.request, .send(Reply.ok)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).status == 502)
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }
}
