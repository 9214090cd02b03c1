import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Request bodies (RFC 9112 §6)", .serialized)
struct UploadTests {
    @Test("A body with a Content-Length keeps it, byte for byte")
    func length() async throws {
        let body = String((0..<50_000).map { _ in "0123456789abcdef".randomElement() ?? "0" })
        try await GatewaySetup.serving.run { gateway, client async throws in
            try await expect(client.exchange(Ask.post(body: body)).text, equals: "ok")
            try await expect(client.exchange(Ask.post(body: "short")).text, equals: "ok")
            let requests = gateway.upstream.requests
            expect(requests[0]["Content-Length"], equals: "50000")
            expect(empty: requests[0].values("Transfer-Encoding"))
            expect(requests[0].text, equals: body)
            expect(requests[1].text, equals: "short")
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("A chunked body stays chunked, and is forwarded as it arrives")
    func chunked() async throws {
        try await GatewaySetup([.head, .wait(Gate())]).configuration { $0.limits.requestBuffer = 0 }.run {
            gateway, client in
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            let request = try await gateway.upstream.request()
            expect(request["Transfer-Encoding"], equals: "chunked")
            expect(empty: request.values("Content-Length"))
            let head = request.head.utf8.count + 4
            try await eventually("the first chunk") { gateway.upstream.received == head + "3\r\nabc\r\n".utf8.count }
            client.send("2\r\nde\r\n")
            try await eventually("the second") {
                gateway.upstream.received == head + "3\r\nabc\r\n2\r\nde\r\n".utf8.count
            }
        }
    }

    @Test("Rule 52: a chunked body arrives complete, without extensions and cookie trailers; the connection is reused")
    func chunkedWhole() async throws {
        try await GatewaySetup.serving.run { gateway, client in
            let response = try await client.exchange(
                "POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nAuthorization: Bearer t\r\n"
                    + "Cookie: __Host-cloakroom=x\r\n\r\n")
            expect(response.text, equals: "ok")
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            let body = gateway.upstream.requests[0].text
            expect(body.hasSuffix("0\r\n\r\n"))
            expect(!body.contains("Authorization"))
            expect(!body.contains("Cookie"))
            expect(!body.contains("x=y"))
            let unframed = body.split(separator: "\r\n").enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
            expect(unframed.joined(), equals: "abc0123456789")
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test("A final response to an incomplete upload is forwarded; both connections end (RFC 9110 §7.5)")
    func earlyResponse() async throws {
        let response = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop"
        try await GatewaySetup([.head, .send(response), .reading(false)]).configuration { $0.limits.requestBuffer = 0 }
            .run { gateway, client in
                client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbegin")
                let response = try await client.response()
                expect(response.status, equals: 413)
                expect(response.text, equals: "stop")
                expect(response["Connection"], equals: "close")
                try await client.closed()
            }
    }

    @Test("A client that keeps sending at full speed receives an early final response too")
    func earlyResponseToFastUpload() async throws {
        let response = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop"
        let gate = Gate()
        try await GatewaySetup([.head, .reading(false), .wait(gate), .send(response)])
            .configuration { $0.routes[0].bodyLimit = 1 << 30 }
            .run { gateway, client in
                client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n")
                let upload = Task { try await client.stream(ByteBuffer(repeating: 0x61, count: 65_536), times: 10_000) }
                _ = try await waitUntilStable { client.sent }
                gate.open()
                let response = try await client.response()
                expect(response.status, equals: 413)
                expect(response.text, equals: "stop")
                upload.cancel()
                try await client.closed()
                _ = await upload.result
            }
    }

    @Test("A chunked body over the limit is 413, and the upstream connection is closed (RFC 9110 §15.5.14)")
    func chunkedTooLarge() async throws {
        try await GatewaySetup([.head, .wait(Gate())]).configuration {
            $0.limits.body = 10
            $0.limits.requestBuffer = 0
        }
        .run { gateway, client in
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
            _ = try await gateway.upstream.request()
            client.send("6\r\nabcdef\r\n")
            let response = try await client.response()
            expect(response.status, equals: 413)
            expect(response["Connection"], equals: "close")
            try await client.closed()
            try await gateway.upstream.closed()
        }
    }

    private static func post(_ path: String, _ fields: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
    }

    @Test(
        "Bodies that are not forwarded",
        arguments: [
            WireExchange(
                "A declared length over the limit is 413 before the upstream receives anything (RFC 9110 §15.5.14)",
                on: .serving.configuration { $0.limits.body = 10 },
                post("/public/a", "Content-Length: 100000\r\nExpect: 100-continue\r\n"),
                [.init(413, code: "content_too_large")], upstream: []),
            WireExchange(
                "A small unused body is read and dropped, and the connection stays open (RFC 9110 §10.1.1)",
                post("/nowhere", "Content-Length: 5\r\n") + "GET /" + Ask.get(), [404, .init(200, "ok")], closes: false),
            WireExchange(
                "After an error response instead of 100 (Continue) it is unknown whether a body follows",
                post("/nowhere", "Content-Length: 5\r\nExpect: 100-continue\r\n"),
                [.init(404, nil, "Connection: close")]),
        ])
    func notForwarded(row: WireExchange) async throws { try await row.run() }
}
