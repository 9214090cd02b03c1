import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("Bodies in HTTP/2", .serialized)
struct HTTP2BodyTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    @Test("A body with a content-length is forwarded with it; one without is chunked")
    func framing() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client async throws in
            client.send(
                .headers(1, .post("/public/a", ("content-length", "5")), ends: false), .data(1, "he"),
                .data(1, "llo", ends: true))
            try await expect(client.response(1).text, equals: "ok")
            client.send(.headers(3, .post(), ends: false), .data(3, "hello"), .data(3, ends: true))
            try await expect(client.response(3).text, equals: "ok")
            client.send(.headers(5, .post("/public/a", ("content-length", "0")), ends: false), .data(5, ends: true))
            try await expect(client.response(5).text, equals: "ok")
            let requests = gateway.upstream.requests
            expect(requests[0]["Content-Length"], equals: "5")
            expect(requests[0].text, equals: "hello")
            expect(requests[1]["Transfer-Encoding"], equals: "chunked")
            expect(requests[1]["Content-Length"], equals: nil)
            expect(requests[1].text, equals: "5\r\nhello\r\n0\r\n\r\n")
            expect(requests[2]["Content-Length"], equals: "0")
            expect(requests[2].text, equals: "")
        }
    }

    @Test(
        "RFC 9113 §8.1.1: a body that was forwarded in part and whose length then differs aborts the upstream request",
        arguments: [
            [HTTP2WireFrame.data(1, "short", ends: true)], [.headers(1, HTTP2Fields([("x-sum", "a")]))],
            [.data(1, Array(repeating: 0x61, count: 16_384)), .data(1, Array(repeating: 0x61, count: 16_384))],
        ])
    func lateMismatch(frames: [HTTP2WireFrame]) async throws {
        try await GatewaySetup([.head, .body(50_000)], Self.serves).runHTTP2 { gateway, client in
            client.send(.headers(1, .post("/public/a", ("content-length", "120000")), ends: false))
            try await client.upload(1, 100_000, ends: false)
            try await eventually("half of the body") { gateway.upstream.requests.first?.body.readableBytes == 50_000 }
            client.send(frames)
            let response = try await client.response(1)
            expect(response.reset, equals: .protocolError)
            expect(empty: response.sections)
            try await gateway.upstream.closed()
            try await expect(client.exchange(3, .get()).text, equals: "ok")
        }
    }

    @Test("A body of 5 MB, larger than the connection window, arrives complete", arguments: [nil, 0, 255] as [UInt8?])
    func upload(padding: UInt8?) async throws {
        let total = 5 << 20
        // Frames that are mostly padding: a window update that ignores the padding would be detected.
        let size = padding == 255 ? 1_024 : 16_383
        let script: [ScriptedUpstream.Step] = [.head, .body(total), .send(Reply.ok), .again]
        try await GatewaySetup(script).runHTTP2 { gateway, client in
            client.send(.headers(1, .post("/public/a", ("content-length", "\(total)")), ends: false))
            try await client.upload(1, total, frame: size, padding: padding)
            try await expect(client.response(1).text, equals: "ok")
            let body = gateway.upstream.requests[0].body
            expect(body, equals: ByteBuffer(repeating: 0x61, count: total))
            // No window was lost for the next request.
            client.send(.headers(3, .post("/public/a", ("content-length", "\(total)")), ends: false))
            try await client.upload(3, total)
            try await expect(client.response(3).text, equals: "ok")
        }
    }

    @Test("RFC 9110 §15.5.14: a body that is too large is 413, declared or not; then the stream is reset with NO_ERROR")
    func tooLarge() async throws {
        try await GatewaySetup([.head], [.head], Self.serves).configuration {
            $0.limits.body = 1_000
            $0.limits.requestBuffer = 0
        }
        .runHTTP2 { gateway, client in
            client.send(.headers(1, .post("/public/a", ("content-length", "1001")), ends: false))
            let declared = try await client.response(1)
            expect(declared.status, equals: 413)
            expect(declared.isEnded)
            try await expect(client.reset(1), equals: .noError)
            client.send(
                .headers(3, .post(), ends: false), .data(3, Array(repeating: 0x61, count: 900)),
                .data(3, Array(repeating: 0x61, count: 900)))
            try await expect(client.response(3).problem, equals: "413 content_too_large")
            try await expect(client.reset(3), equals: .noError)
            try await gateway.upstream.closed()
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("RFC 9113 §8.1: an early response to an upload is sent completely, then the stream is reset with NO_ERROR")
    func earlyResponse() async throws {
        let early = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
        try await GatewaySetup([.head, .send(early)], Self.serves).configuration { $0.limits.requestBuffer = 0 }
            .runHTTP2 { gateway, client in
                client.send(
                    .headers(1, .post("/public/a", ("content-length", "1000000")), ends: false), .data(1, "some of it"))
                let response = try await client.response(1)
                expect(response.status, equals: 403)
                expect(response.text, equals: "no")
                expect(response.isEnded)
                try await expect(client.reset(1), equals: .noError)
                try await gateway.upstream.closed()
                // Frames that were in flight meanwhile are ignored.
                client.send(.data(1, "the rest"), .windowUpdate(1, 10), .reset(1))
                try await expect(client.exchange(3, .get()).text, equals: "ok")
                expect(empty: client.goAways)
            }
    }

    @Test(
        "RFC 9113 §8.1: a stream is not reset whose body has arrived as declared, when END_STREAM follows in its own frame"
    )
    func lateEnd() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            for id in [1, 3, 5] as [UInt32] {
                // As Python's httpx: the response is complete before the last, empty frame is sent.
                client.send(.headers(id, .post("/public/a", ("content-length", "5")), ends: false), .data(id, "hello"))
                let response = try await client.response(id)
                try await client.settle()
                expect(response.text, equals: "ok")
                expect(client.stream(id).reset, equals: nil)
                client.send(.data(id, ends: true))
                try await client.settle()
                expect(client.stream(id).reset, equals: nil)
            }
            expect(empty: client.goAways)
        }
    }

    @Test(
        "RFC 9112 §8: an aborted response resets the stream and never ends it with END_STREAM",
        arguments: [
            "Content-Length: 100\r\n\r\nsome", "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
        ])
    func cut(rest: String) async throws {
        let gate = Gate()
        let script: [ScriptedUpstream.Step] = [.request, .send("HTTP/1.1 200 OK\r\n\(rest)"), .wait(gate), .close]
        try await GatewaySetup(script, Self.serves).runHTTP2 { gateway, client in
            client.send(.headers(1, .get()))
            try await eventually("some of the response") { client.stream(1).bodyCount == 4 || client.stream(1).isOver }
            gate.open()
            let response = try await client.response(1)
            expect(response.reset, equals: .internalError)
            expect(!response.isEnded)
            expect(response.text, equals: "some")
            try await expect(client.exchange(3, .get()).text, equals: "ok")
        }
    }

    @Test("A response that ends with its connection ends its stream")
    func untilClose() async throws {
        try await GatewaySetup([.request, .send("HTTP/1.1 200 OK\r\n\r\nall"), .close]).http2().run { gateway in
            let response = try await gateway.http2().exchange(1, .get())
            expect(response.text, equals: "all")
            expect(response.isEnded)
            expect(response.reset, equals: nil)
        }
    }

    @Test(
        "RFC 9113 §5.4.2: a client that resets a stream cancels the upstream request at once", arguments: [true, false])
    func cancelled(hasStarted: Bool) async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"
        try await GatewaySetup(hasStarted ? [.request, .send(head)] : [.request], Self.serves).runHTTP2 {
            gateway, client in
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            if hasStarted { try await eventually("some of the response") { client.stream(1).bodyCount == 4 } }
            client.send(.reset(1))
            try await gateway.upstream.closed()
            try await expect(client.exchange(3, .get()).text, equals: "ok")
            expect(client.stream(1).reset, equals: nil)
        }
    }

    @Test("A client that disconnects cancels all its requests")
    func clientGone() async throws {
        try await GatewaySetup([.head]).configuration { $0.limits.requestBuffer = 0 }.runHTTP2 { gateway, client in
            client.send(.headers(1, .get()), .headers(3, .get()), .headers(5, .post(), ends: false))
            try await eventually("three requests at the upstream") { gateway.upstream.requests.count == 3 }
            try await client.close()
            try await eventually("closed upstreams") { gateway.upstream.connections.allSatisfy(\.isClosed) }
        }
    }
}
