import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

/// Behaviour of regular clients that has to stay below every budget.
@Suite("Ordinary use of HTTP/2 is never counted as abuse (RFC 9113 §10.5)", .serialized)
struct HTTP2OrdinaryUseTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    @Test("Rule 56: a browser that leaves a page cancels 100 images, three times in a row", arguments: [true, false])
    func cancelledImages(hasStarted: Bool) async throws {
        let started = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n\(String(repeating: "a", count: 1_000))"
        let script: [ScriptedUpstream.Step] = hasStarted ? [.request, .send(started)] : [.request]
        try await GatewaySetup(script).http2().run { gateway in
            let client = try await gateway.http2()
            try await client.settle()
            var first: UInt32 = 1
            for page in 0..<3 {
                let ids = (0..<100).map { first + 2 * $0 }
                client.send(ids.map { .headers($0, .get("/public/image")) })
                try await eventually("100 requests") { gateway.upstream.requests.count == 100 * (page + 1) }
                if hasStarted { try await eventually("heads") { ids.allSatisfy { client.stream($0).bodyCount > 0 } } }
                client.send(ids.map { .reset($0) })
                try await eventually("closed upstreams") { gateway.upstream.connections.allSatisfy(\.isClosed) }
                #expect(try await client.exchange(first + 200, .get("/nowhere")).status == 404)
                first += 202
                // The time in which a user opens the next page.
                try await Task.sleep(for: .milliseconds(500))
            }
            #expect(client.goAways.isEmpty)
            #expect(!client.isClosed)
        }
    }

    @Test(
        "Rule 56: a gRPC client sends a ping for each message that it reads (BDP estimation) and each message it sends")
    func pings() async throws {
        let message = String(repeating: "m", count: 1_000)
        let gates = (0..<1).map { _ in Gate() }
        let script: [ScriptedUpstream.Step] = [
            .head, .send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n"),
            .send(String(repeating: "3e8\r\n\(message)\r\n", count: 100)), .wait(gates[0]),
            .send("0\r\nGrpc-Status: 0\r\n\r\n"),
        ]
        try await GatewaySetup(script).http2 { $0.timeouts.header = .seconds(1) }.run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/Service/Method", ("te", "trailers")), ends: false))
            for _ in 0..<200 {
                client.send(.data(1, Array(repeating: 1, count: 100)), .ping(7))
                try await Task.sleep(for: .milliseconds(5))
            }
            client.send(.data(1, ends: true))
            gates[0].open()
            let response = try await client.response(1)
            #expect(response.bodyCount == 100_000)
            #expect(response.trailers?.first(name: "grpc-status") == "0")
            #expect(client.goAways.isEmpty)
        }
    }

    @Test(
        "Rule 56: 1,000 sequential requests, each with window updates for stream and connection, as nghttp2 sends them")
    func sequential() async throws {
        let body = String(repeating: "a", count: 3_000)
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n\(body)"
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2(.init(keepsBodies: false))
            for index in 0..<1_000 {
                let response = try await client.exchange(UInt32(2 * index + 1), .get())
                #expect(response.bodyCount == 3_000)
                guard response.isEnded else { break }
            }
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("Rule 56: a slow reader that opens its window in small steps receives a body of 300 KB")
    func slowReader() async throws {
        let body = String(repeating: "a", count: 300_000)
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n\(body)"
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(1_000)], sendsWindowUpdates: false))
            client.send(.headers(1, .get()))
            for count in 1...299 {
                try await eventually("1,000 bytes") { client.stream(1).bodyCount >= 1_000 * count || client.isClosed }
                client.send(.windowUpdate(0, 1_000), .windowUpdate(1, 1_000))
            }
            let response = try await client.response(1)
            #expect(response.bodyCount == 300_000)
            #expect(response.isEnded)
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("Rule 56: 500 requests that the gateway responds to before their bodies have ended (401, 404, 413)")
    func earlyResponses() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            for index in 0..<500 {
                let id = UInt32(2 * index + 1)
                client.send(.headers(id, .post("/private/a"), ends: false))
                #expect(try await client.response(id).status == 401)
                // The client sends the rest of its body before it has read the response.
                if !client.isClosed { client.send(.data(id, "body"), .data(id, ends: true)) }
                guard !client.isClosed else { break }
            }
            #expect(client.goAways.isEmpty)
            #expect(try await client.exchange(2_001, .get()).text == "ok")
        }
    }

    @Test("Rule 56: a proxy whose clients cancel every fourth request, 4,800 requests in a few seconds")
    func proxy() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            for round in 0..<60 where !client.isClosed {
                let ids = (0..<80).map { UInt32(160 * round + 2 * $0 + 1) }
                client.send(
                    ids.flatMap { id -> [HTTP2WireFrame] in
                        id % 8 == 1
                            ? [.headers(id, .get("/nowhere")), .reset(id)] : [.headers(id, .get("/nowhere"))]
                    })
                for id in ids where id % 8 != 1 {
                    #expect(try await client.response(id).status == 404)
                }
            }
            #expect(client.goAways.isEmpty)
            #expect(!client.isClosed)
        }
    }

    @Test(
        "RFC 9113 §8.1: a stream is not reset whose body has arrived as declared, when END_STREAM follows in its own frame"
    )
    func lateEnd() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            for id in [1, 3, 5] as [UInt32] {
                // As Python's httpx: the response is complete before the last, empty frame is sent.
                client.send(.headers(id, .post("/public/a", ("content-length", "5")), ends: false), .data(id, "hello"))
                let response = try await client.response(id)
                try await client.settle()
                #expect(response.text == "ok")
                #expect(client.stream(id).reset == nil)
                client.send(.data(id, ends: true))
                try await client.settle()
                #expect(client.stream(id).reset == nil)
            }
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("Rule 56: Firefox's tree of PRIORITY frames and Chromium's PRIORITY_UPDATE frames for 100 requests")
    func priorities() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send([3, 5, 7, 9, 11].map { .priority($0, dependsOn: 0) })
            for index in 0..<100 {
                let id = UInt32(2 * index + 13)
                client.send(
                    .headers(id, .get()), .priority(id, dependsOn: 11),
                    HTTP2WireFrame(type: 0x10, payload: HTTP2Bytes.of(id) + Array("u=2, i".utf8)))
                #expect(try await client.response(id).text == "ok")
            }
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("Rule 56: an upload in 5,000 DATA frames of 20 bytes, and one with padding in each frame")
    func smallData() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/a", ("content-length", "100000")), ends: false))
            try await client.upload(1, 100_000, frame: 20)
            #expect(try await client.response(1).text == "ok")
            client.send(.headers(3, .post("/public/a", ("content-length", "20000")), ends: false))
            try await client.upload(3, 20_000, frame: 20, padding: 10)
            #expect(try await client.response(3).text == "ok")
            #expect(client.goAways.isEmpty)
        }
    }
}
