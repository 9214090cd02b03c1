import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

@Suite("Trailer sections in HTTP/2 (RFC 9113 §8.1)", .serialized)
struct HTTP2TrailerTests {
    /// A chunked response with these lines after its last chunk.
    private static func reply(_ trailers: String, body: String = "2\r\nok\r\n") -> String {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\(body)0\r\n\(trailers)\r\n"
    }

    @Test(
        "Trailers of which none is permitted are no field section: the stream ends with DATA",
        arguments: [
            "Content-Length: 5\r\n",
            "Authorization: Bearer a\r\nSet-Cookie: cloakroom=a\r\nTransfer-Encoding: chunked\r\n",
            "Connection: close\r\nTE: trailers\r\nTrailer: X-Sum\r\nHost: a\r\n", "",
        ], ["2\r\nok\r\n", ""])
    func onlyDisallowed(trailers: String, body: String) async throws {
        try await GatewaySetup([.request, .send(Self.reply(trailers, body: body)), .again]).runHTTP2 {
            gateway, client in
            let response = try await client.exchange(1, .get("/public/a", ("te", "trailers")))
            expect(response.text, equals: (body.isEmpty ? "" : "ok"))
            expect(response.reset, equals: nil)
            expect(response.sections.count, equals: 1)
            let frames = client.frames(of: 1)
            expect(frames.filter(\.isHeaders).count, equals: 1)
            expect(frames.allSatisfy { !$0.isHeaders || $0.length > 0 })
            expect(frames.last?.isData, equals: true)
            expect(frames.last?.endsStream, equals: true)
            expect(frames.filter(\.endsStream).count, equals: 1)
        }
    }

    @Test("Permitted trailers of a response arrive in the last HEADERS frame, the others do not")
    func response() async throws {
        let trailers = "X-Sum: abc\r\nContent-Length: 5\r\nGrpc-Status: 0\r\nSet-Cookie: a=b\r\n"
        try await GatewaySetup([.request, .send(Self.reply(trailers)), .again]).runHTTP2 { gateway, client in
            for id in [1, 3] as [UInt32] {
                let response = try await client.exchange(id, .get("/public/a", ("te", "trailers")))
                expect(response.text, equals: "ok")
                expect(response.endedWithFields)
                expect(response.trailers?.map { "\($0.name)=\($0.value)" }, equals: ["x-sum=abc", "grpc-status=0"])
                expect(client.frames(of: id).last?.isHeaders, equals: true)
            }
        }
    }

    @Test("Trailers both ways in one exchange; pseudo-fields are no trailers (RFC 9113 §8.1)")
    func bothWays() async throws {
        let expected = "5\r\nhello\r\n0\r\nx-request-sum: abc\r\n\r\n"
        let script: [ScriptedUpstream.Step] = [
            .head, .body(expected.utf8.count), .send(Self.reply("X-Response-Sum: def\r\n")), .again,
        ]
        try await GatewaySetup(script).runHTTP2 { gateway, client in
            client.send(
                .headers(1, .post("/public/a", ("te", "trailers")), ends: false), .data(1, "hello"),
                .headers(1, HTTP2Fields([("x-request-sum", "abc")])))
            let response = try await client.response(1)
            expect(response.trailers?["x-response-sum"], equals: ["def"])
            expect(gateway.upstream.requests[0].text, equals: expected)
            client.send(
                .headers(3, .post(), ends: false), .data(3, "hello"),
                .headers(3, HTTP2Fields([("x-sum", "abc"), (":status", "200")])))
            try await expect(client.response(3).reset, equals: .protocolError)
            expect(empty: client.goAways)
        }
    }

    @Test("Request trailers of which none is permitted, or none at all, end the body without a trailer section")
    func requestWithout() async throws {
        let expected = "5\r\nhello\r\n0\r\n\r\n"
        let script: [ScriptedUpstream.Step] = [.head, .body(expected.utf8.count), .send(Reply.ok), .again]
        try await GatewaySetup(script).runHTTP2 { gateway, client async throws in
            var id: UInt32 = 1
            for fields in [[("authorization", "a"), ("content-length", "5"), ("cookie", "cloakroom=a")], []] {
                client.send(
                    .headers(id, .post("/public/a", ("te", "trailers")), ends: false), .data(id, "hello"),
                    .headers(id, HTTP2Fields(fields)))
                try await expect(client.response(id).text, equals: "ok")
                expect(gateway.upstream.requests.last?.text, equals: expected)
                id += 2
            }
        }
    }

    @Test("Rule 53: trailers wait for the windows of the body before them, and large ones are continued")
    func behindWindow() async throws {
        let body = String(repeating: "a", count: 50_000)
        let reply = Self.reply("X-Sum: \(String(repeating: "\\", count: 7_000))\r\n", body: "c350\r\n\(body)\r\n")
        try await GatewaySetup.replying(reply).runHTTP2(
            .init(settings: [.initialWindow(10_000)], sendsWindowUpdates: false)
        ) { gateway, client in
            client.send(.headers(1, .get()))
            try await eventually("a window of data") { client.stream(1).bodyCount == 10_000 }
            expect(client.stream(1).trailers, equals: nil)
            client.send(.windowUpdate(1, 40_000))
            let response = try await client.response(1)
            expect(response.bodyCount, equals: 50_000)
            expect(response.trailers?["x-sum"].first?.count, equals: 7_000)
            try await expect(client.exchange(3, .get("/nowhere")).status, equals: 404)
        }
    }
}
