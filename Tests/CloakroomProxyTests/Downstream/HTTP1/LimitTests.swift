import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Limits of a client connection", .serialized)
struct LimitTests {
    private static func text(_ count: Int) -> String { String(repeating: "a", count: count) }

    /// A request whose head has the given number of bytes.
    private static func head(_ count: Int) -> String {
        Ask.get("/public/a", "X: " + text(count - Ask.get("/public/a", "X: ").utf8.count))
    }

    private static func fields(_ count: Int) -> String {
        "GET /public/a HTTP/1.1\r\nHost: a\r\n" + String(repeating: "X: b\r\n", count: count - 1) + "\r\n"
    }

    private static func target(_ count: Int) -> String { Ask.get("/public/" + text(count - "/public/".utf8.count)) }

    @Test(
        "A request of the limit is accepted; one more byte or field is rejected, and the connection ends",
        arguments: [
            WireExchange("16 KiB of a head (RFC 6585 §5)", head(16_384) + head(16_385), [.init(200, "ok"), 431]),
            WireExchange("100 fields (RFC 6585 §5)", fields(100) + fields(101), [.init(200, "ok"), 431]),
            WireExchange(
                "8 KiB of a target (RFC 9110 §15.5.15)", target(8_192) + target(8_193), [.init(200, "ok"), 414]),
        ])
    func excess(row: WireExchange) async throws { try await row.run() }

    @Test("At most 16 KiB and one read of pipelined requests are buffered, and none is lost (RFC 9112 §9.3.2)")
    func pipelining() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Ask.get("/public/first"))
            let upstream = try await server.requested()
            // Far more than the capacity of all sockets on the path.
            let filler = String(repeating: "x", count: 4_000)
            let batch = String(repeating: Ask.get("/nowhere", "X: \(filler)"), count: 100)
            let flood = Task { try await client.stream(ByteBuffer(string: batch), times: 50) }
            let sent = try await waitUntilStable { client.sent }
            #expect(sent < 16 << 20)
            // Another client does not wait.
            try await expect(gateway.client().exchange(Ask.get("/nowhere")).status, equals: 404)
            upstream.send(Reply.ok)
            try await expect(client.head().hasPrefix("HTTP/1.1 200"))
            try await expect(client.text(2), equals: "ok")
            try await flood.value
            client.send(Ask.get("/public/last", "Connection: close"))
            try await expect(upstream.head().hasPrefix("GET /public/last"))
            upstream.send(Reply.ok)
            let rest = String(buffer: try await client.rest())
            expect(
                rest.split(separator: "HTTP/1.1 404").count, equals: 5_001 - (rest.hasPrefix("HTTP/1.1 404") ? 1 : 0))
            expect(rest.hasSuffix("ok"))
        }
    }

    @Test("Local and forwarded responses are sent in request order, bodies included (RFC 9112 §9.3.2)")
    func order() async throws {
        let endpoints = FakeEndpoints { request in AccountResponse(status: 200, content: .json(request.body.bytes)) }
        try await GatewaySetup.serving.with(\.endpoints, endpoints).run {
            gateway, client async throws in
            var requests = ""
            for number in 0..<100 {
                requests += Ask.post("/auth", body: "\(number)") + Ask.get("/public/\(number)") + Ask.get("/nowhere")
                requests += Ask.post("/public/\(number)", body: "body \(number)") + Ask.get("/private/a")
            }
            client.send(requests)
            for number in 0..<100 {
                try await expect(client.response().text, equals: "\(number)")
                try await expect(client.response().text, equals: "ok")
                try await expect(client.response().status, equals: 404)
                try await expect(client.response().text, equals: "ok")
                try await expect(client.response().status, equals: 401)
            }
            expect(gateway.upstream.requests.map(\.line).filter { $0.hasPrefix("GET") }.count, equals: 100)
            let uploads = gateway.upstream.requests.filter { $0.line.hasPrefix("POST") }.map(\.text)
            expect(uploads, equals: (0..<100).map { "body \($0)" })
        }
    }
}
