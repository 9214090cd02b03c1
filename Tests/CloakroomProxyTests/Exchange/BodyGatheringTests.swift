import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Request bodies are buffered before a connection to the upstream is leased", .serialized)
struct BodyGatheringTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let post = "POST /public/a HTTP/1.1\r\nHost: a\r\n"

    @Test("Rule 59: a body in parts reaches the upstream when it is complete, and takes no connection before")
    func parts() async throws {
        try await GatewaySetup(Self.serves).run { gateway, client in
            client.send(Self.post + "Content-Length: 10\r\n\r\n")
            for part in ["01", "23", "45", "67"] {
                try await Task.sleep(for: .milliseconds(30))
                client.send(part)
            }
            try await Task.sleep(for: .milliseconds(50))
            expect(empty: gateway.upstream.connections)
            client.send("89")
            try await expect(client.response().text, equals: "ok")
            expect(gateway.upstream.requests[0].text, equals: "0123456789")
            try await expect(client.exchange(Ask.post(body: "next")).text, equals: "ok")
            expect(gateway.upstream.requests[1].text, equals: "next")
        }
    }

    @Test("A chunked body that was buffered keeps its trailers")
    func trailers() async throws {
        try await GatewaySetup([.head, .wait(Gate())]).run { gateway, client in
            client.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            try await Task.sleep(for: .milliseconds(50))
            expect(empty: gateway.upstream.connections)
            client.send("2\r\nde\r\n0\r\nX-Sum: 1\r\nCookie: a=b\r\n\r\n")
            let request = try await gateway.upstream.request()
            let expected = "5\r\nabcde\r\n0\r\nX-Sum: 1\r\n\r\n".utf8.count
            try await eventually("the body") {
                gateway.upstream.received == request.head.utf8.count + 4 + expected
            }
        }
    }

    @Test("A larger body is forwarded when 16 KiB of it are buffered, byte for byte", arguments: [true, false])
    func large(isHTTP2: Bool) async throws {
        let body = (0..<40_000).map { UInt8(0x61 + $0 % 23) }
        let setup = GatewaySetup([.head, .body(16_000), .wait(Gate())], Self.serves)
        try await setup.http2().run { gateway in
            if isHTTP2 {
                let client = try await gateway.http2()
                client.send(.headers(1, .post("/public/a", ("content-length", "40000")), ends: false))
                client.send(.data(1, Array(body[..<10_000])))
                try await Task.sleep(for: .milliseconds(50))
                expect(empty: gateway.upstream.connections)
                client.send(.data(1, Array(body[10_000..<20_000])), .data(1, Array(body[20_000..<30_000])))
            } else {
                let client = try await gateway.client(sending: Self.post + "Content-Length: 40000\r\n\r\n")
                client.send(ByteBuffer(bytes: body[..<10_000]))
                try await Task.sleep(for: .milliseconds(50))
                expect(empty: gateway.upstream.connections)
                client.send(ByteBuffer(bytes: body[10_000..<20_000]))
            }
            try await eventually("the first part") { gateway.upstream.requests.first?.body.readableBytes == 16_000 }
            expect(gateway.upstream.requests[0].body, equals: ByteBuffer(bytes: body[..<16_000]))
        }
    }

    @Test("Rule 59: of an HTTP/2 body at most 32 KiB are buffered, however large limits.requestBuffer is")
    func streamLimit() async throws {
        let setup = GatewaySetup([.head, .body(32_768), .wait(Gate())]).http2 { $0.limits.requestBuffer = 65_536 }
        try await setup.run { gateway in
            let client = try await gateway.http2()
            client.send(
                .headers(1, .post("/public/a", ("content-length", "60000")), ends: false),
                .data(1, Array(repeating: 0x61, count: 16_384)), .data(1, Array(repeating: 0x62, count: 16_383)))
            try await client.settle()
            try await Task.sleep(for: .milliseconds(50))
            expect(empty: gateway.upstream.connections)
            client.send(.data(1, "c"))
            try await eventually("the first part") { gateway.upstream.requests.first?.body.readableBytes == 32_768 }
        }
    }

    @Test("An HTTP/2 body of 16 KiB to 1 MB arrives complete", arguments: [16_383, 16_384, 16_385, 65_536, 1_000_000])
    func lengths(count: Int) async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/a", ("content-length", "\(count)")), ends: false))
            try await client.upload(1, count)
            try await expect(client.response(1).text, equals: "ok")
            expect(gateway.upstream.requests[0].body.readableBytes, equals: count)
            let second = try await gateway.client()
            try await expect(second.exchange(Ask.post(body: String(repeating: "a", count: count))).text, equals: "ok")
            expect(gateway.upstream.requests[1].body.readableBytes, equals: count)
        }
    }

    @Test("A body of the declared length is complete without END_STREAM: the upstream connection is used again")
    func missingEnd() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            for id in stride(from: UInt32(1), to: 20, by: 2) {
                client.send(.headers(id, .post("/public/a", ("content-length", "1")), ends: false), .data(id, "a"))
                try await expect(client.response(id).text, equals: "ok")
            }
            expect(gateway.upstream.requests.count, equals: 10)
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("So is a body that is forwarded while it arrives")
    func missingEndOfUpload() async throws {
        let part = [UInt8](repeating: 0x61, count: 10_000)
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            for id in stride(from: UInt32(1), to: 10, by: 2) {
                let before = gateway.upstream.received
                client.send(.headers(id, .post("/public/a", ("content-length", "30000")), ends: false))
                client.send(.data(id, part), .data(id, part))
                try await eventually("the first parts") { gateway.upstream.received > before + 2 * part.count }
                client.send(.data(id, part))
                try await expect(client.response(id).text, equals: "ok")
            }
            expect(
                gateway.upstream.requests.map(\.body.readableBytes), equals: [30_000, 30_000, 30_000, 30_000, 30_000])
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("Rule 59: an upload after a gRPC call on the same connection is forwarded byte for byte")
    func afterCall() async throws {
        let body = (0..<40_000).map { UInt8(0x61 + $0 % 23) }
        try await GatewaySetup(Self.serves).http2 { $0.routes[1].grpc = true }.run { gateway in
            let client = try await gateway.http2()
            // The second request uses the objects of the first one.
            try await expect(
                client.exchange(1, .post("/token/m", ("content-type", "application/grpc"))).text, equals: "ok")
            client.send(.headers(3, .post("/public/a", ("content-length", "40000")), ends: false))
            for start in stride(from: 0, to: 40_000, by: 10_000) {
                client.send(.data(3, Array(body[start..<(start + 10_000)]), ends: start == 30_000))
            }
            try await expect(client.response(3, within: .seconds(10)).text, equals: "ok")
            expect(gateway.upstream.requests[1].body, equals: ByteBuffer(bytes: body))
        }
    }

    @Test(
        "A body that has waited for a connection is forwarded to its end, although no more input follows",
        arguments: [70_000, 75_000, 80_000, 85_000, 110_000, 120_000])
    func fillsUpstream(count: Int) async throws {
        let setup = GatewaySetup(Self.serves).configuration {
            $0.upstreams[0].pool.maxConnections = 1
            $0.upstreams[0].pool.congestedAfter = .seconds(60)
            $0.timeouts.bodyIdle = .seconds(15)
        }
        try await setup.run { gateway in
            let upload = Ask.post(body: String(repeating: "a", count: count))
            let client = try await gateway.client()
            // The size of reads grows while a connection is used.
            for _ in 0..<8 { try await expect(client.exchange(upload).text, equals: "ok") }
            for _ in 0..<8 {
                // It occupies the only connection.
                let other = try await gateway.client()
                other.send(Self.post + "Content-Length: 40000\r\n\r\n" + String(repeating: "b", count: 30_000))
                try await Task.sleep(for: .milliseconds(20))
                client.send(upload)
                try await Task.sleep(for: .milliseconds(30))
                other.send(String(repeating: "b", count: 10_000))
                try await expect(other.response().text, equals: "ok")
                try await expect(client.response().text, equals: "ok")
            }
            expect(gateway.upstream.requests.allSatisfy { [count, 40_000].contains($0.body.readableBytes) })
        }
    }

    @Test("Without a buffer or without memory for it the head is forwarded at once")
    func atOnce() async throws {
        let cases: [(body: String, memory: Int, buffer: Int)] = [("", 1 << 20, 0), ("a", 0, 16_384)]
        for (body, memory, buffer) in cases {
            try await GatewaySetup([.head, .body(5), .send(Reply.ok)]).configuration {
                $0.limits.requestBuffers = memory
                $0.limits.requestBuffer = buffer
            }
            .run { gateway, client in
                client.send(Self.post + "Content-Length: 5\r\n\r\n" + body)
                _ = try await gateway.upstream.request()
                client.send(body.isEmpty ? "hello" : "ello")
                try await expect(client.response().text, equals: "ok")
            }
        }
    }

    @Test("The memory of buffered bodies is returned, however the request ends")
    func memory() async throws {
        try await GatewaySetup(Self.serves).configuration {
            $0.limits.requestBuffers = 4_096
            $0.limits.body = 2_000
        }
        .run { gateway in
            let half = String(repeating: "a", count: 500)
            for _ in 0..<10 {
                let client = try await gateway.client()
                // It leaves.
                client.send(Self.post + "Content-Length: 1000\r\n\r\n" + half)
                try await Task.sleep(for: .milliseconds(10))
                try await client.close()
                let second = try await gateway.client()
                // It is malformed.
                second.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + half)
                try await Task.sleep(for: .milliseconds(10))
                second.send("\r\nx\r\n")
                try await expect(second.response().status, equals: 400)
                // It is too large.
                let third = try await gateway.client()
                third.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + half)
                try await Task.sleep(for: .milliseconds(10))
                third.send("\r\nfff\r\n" + half + half + half + half)
                try await expect(third.response().status, equals: 413)
                expect(empty: gateway.upstream.connections)
            }
            let client = try await gateway.client()
            for index in 0..<10 {
                client.send(Self.post + "Content-Length: 1000\r\n\r\n" + half)
                try await Task.sleep(for: .milliseconds(10))
                expect(gateway.upstream.requests.count, equals: index)
                client.send(half)
                try await expect(client.response().text, equals: "ok")
            }
        }
    }

    @Test("A buffered body is sent again if an idle connection was closed by the upstream (RFC 9112 §9.3.1)")
    func stale() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .request, .close], Self.serves).run { gateway, client in
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            client.send("PUT /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            try await Task.sleep(for: .milliseconds(20))
            client.send("2\r\nde\r\n0\r\n\r\n")
            try await expect(client.response().text, equals: "ok")
            expect(
                gateway.upstream.requests.map(\.text),
                equals: ["", "5\r\nabcde\r\n0\r\n\r\n", "5\r\nabcde\r\n0\r\n\r\n"])
        }
    }

    @Test("A request whose method is not idempotent is not sent again, although its body is buffered")
    func notIdempotent() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .request, .close], Self.serves).run { gateway in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            try await expect(client.exchange(Ask.post(body: "a")).status, equals: 502)
            expect(gateway.upstream.requests.count, equals: 2)
        }
    }

    @Test("Rule 59: 200 clients that send their bodies slowly leave a pool of 8 connections to all others")
    func slowBodies() async throws {
        try await GatewaySetup(Self.serves).http2 { $0.upstreams[0].pool.maxConnections = 8 }.run { gateway in
            var clients: [RawPeer] = []
            for _ in 0..<180 {
                let client = try await gateway.client(sending: Self.post + "Content-Length: 100\r\n\r\na")
                clients.append(client)
            }
            let streams = try await gateway.http2()
            for id in stride(from: UInt32(1), to: 40, by: 2) {
                streams.send(.headers(id, .post("/public/a", ("content-length", "5000")), ends: false), .data(id, "a"))
            }
            for _ in 0..<5 {
                for client in clients { client.send("b") }
                let other = try await gateway.client()
                try await expect(other.exchange(Ask.get()).text, equals: "ok")
                try await expect(other.exchange(Ask.post(body: "whole")).text, equals: "ok")
            }
            #expect(gateway.upstream.connections.count <= 2)
            clients[0].send(String(repeating: "c", count: 94))
            try await expect(clients[0].response().text, equals: "ok")
            for client in clients { try? await client.close() }
        }
    }
}
