import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("HTTP/2 to an upstream", .serialized)
struct UpstreamHTTP2Tests {
    /// Responds to each complete request.
    static let responds: FrameServer.Script = { link, event in
        switch event {
        case .headers(let id, _, ends: true), .data(let id, _, ends: true):
            link.respond(id, "200", [("content-type", "text/plain"), ("x-stream", "\(id)")], "hello")
        default: break
        }
    }

    @Test("Requests and responses of all forms, on one connection")
    func ordinary() async throws {
        try await GatewaySetup().run(against: Self.responds) { gateway, server in
            let client = try await gateway.client()
            for (index, request) in [
                Ask.get("/public/a?b=c", "X-Test: A"), Ask.post(body: "12345"),
                "POST /public/a HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            ].enumerated() {
                let response = try await client.exchange(request)
                expect(response.status, equals: 200)
                expect(response.text, equals: "hello")
                expect(response["x-stream"], equals: "\(index * 2 + 1)")
                expect(response["Content-Type"], equals: "text/plain")
            }
            expect(server.connectionCount, equals: 1)
            expect(server.requests.map { String(decoding: $0.body, as: UTF8.self) }, equals: ["", "12345", "abcde"])
            let head = try require(server.requests.first?.head)
            expect(head.first(name: ":path"), equals: "/public/a?b=c")
            expect(head.first(name: ":authority"), equals: "gateway.test")
            expect(head.first(name: ":scheme"), equals: "http")
            expect(head["x-test"], equals: ["A"])
            expect(empty: head["host"])
            expect(head["x-forwarded-proto"], equals: ["http"])
            expect(head["x-request-id"].count, equals: 1)
        }
    }

    @Test("The gateway announces no push, its windows and the size of lists, and credits the connection at once")
    func settings() async throws {
        try await GatewaySetup().configuration { $0.upstreams[0].pool.streamWindow = 70_000 }.run(
            against: Self.responds
        ) { gateway, server in
            _ = try await gateway.client().exchange(Ask.get())
            let settings = server.events.compactMap {
                if case .settings(let settings) = $0 { settings } else { nil }
            }
            expect(settings.first, equals: [2: 0, 4: 70_000, 6: 131_072])
            let credit = server.events.compactMap {
                if case .windowUpdate(0, let count) = $0 { count } else { nil }
            }
            expect(credit.first, equals: 1_048_576 - 65_535)
        }
    }

    @Test("Concurrent requests share a connection, and a second one is made beyond its streams", arguments: [4, 2])
    func concurrent(streams: Int) async throws {
        let gate = Gate()
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            let eventLoop = link.channel.eventLoop
            gate.whenOpen { eventLoop.execute { link.respond(id) } }
        }
        try await GatewaySetup().http2().configuration { $0.upstreams[0].pool.streams = streams }.run(against: script) {
            gateway, server in
            let client = try await gateway.http2()
            for id in [1, 3, 5, 7] as [UInt32] { client.send(.headers(id, .get())) }
            try await eventually("all requests") { server.requests.count == 4 }
            gate.open()
            for id in [1, 3, 5, 7] as [UInt32] { try await expect(client.response(id).text, equals: "ok") }
            expect(server.connectionCount, equals: 4 / streams)
        }
    }

    @Test("Over TLS with ALPN; a target that does not select HTTP/2 is only used by `auto`", arguments: [true, false])
    func tls(selects: Bool) async throws {
        let directory = try CertificateFixture()
        let pair = try directory.server("api", names: ["localhost"])
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(pair.certificateFile).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: pair.keyFile, format: .pem)))
        configuration.applicationProtocols = selects ? ["h2"] : ["http/1.1"]
        let context = try NIOSSLContext(configuration: configuration)
        let files = UpstreamTLSConfiguration(caFile: directory.authorityFile)
        for version in [UpstreamProtocol.http2, .auto] {
            let use: @Sendable (Int) async throws -> Int = { port in
                try await GatewaySetup().http2Upstream(port, version).targets(.https("localhost", port), tls: files)
                    .run { gateway in try await gateway.client().exchange(Ask.get()).status }
            }
            if selects {
                let status = try await FrameServer.run(tls: context, script: Self.responds) { port, server in
                    let status = try await use(port)
                    expect(server.requests.first?.head.first(name: ":scheme"), equals: "https")
                    return status
                }
                expect(status, equals: 200)
            } else {
                let status = try await ScriptedUpstream.run([[.request, .send(Reply.ok), .again]], tls: context) {
                    port, _ in try await use(port)
                }
                expect(status, equals: (version == .auto ? 200 : 502))
            }
        }
    }

    @Test("HEAD, responses without a body, interim responses and trailers reach clients of both versions")
    func sections() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            switch head.first(name: ":path") {
            case "/public/empty": link.respond(id, "200", [], "")
            case "/public/204": link.respond(id, "204", [], "")
            case "/public/trailers":
                link.send(
                    .headers(id, HTTP2Fields([(":status", "103"), ("link", "a")]), ends: false),
                    .headers(id, HTTP2Fields([(":status", "200")]), ends: false), .data(id, "ab"), .data(id, "c"),
                    .headers(id, HTTP2Fields([("x-sum", "1"), ("set-cookie", "a=b")])))
            default: link.send(.headers(id, HTTP2Fields([(":status", "200"), ("content-length", "7")])))
            }
        }
        try await FrameServer.run(script: script) { port, server in
            try await GatewaySetup().http2().http2Upstream(port).run { gateway in
                let first = try await gateway.http2()
                let response = try await first.exchange(1, .get("/public/trailers", ("te", "trailers")))
                expect(response.text, equals: "abc")
                expect(response.interim, equals: ["103"])
                expect(response.trailers?.map { "\($0.name)=\($0.value)" }, equals: ["x-sum=1"])
                try await expect(first.exchange(3, .get("/public/empty")).endedWithFields)
            }
            try await GatewaySetup().http2Upstream(port).run { gateway, client in
                let head = try await client.exchange("HEAD /public/a HTTP/1.1\r\nHost: a\r\n\r\n", isToHead: true)
                expect(head["Content-Length"], equals: "7")
                try await expect(client.exchange(Ask.get("/public/empty"))["Content-Length"], equals: "0")
                try await expect(client.exchange(Ask.get("/public/204")).status, equals: 204)
                client.send(Ask.get("/public/trailers", "TE: trailers", "Connection: TE"))
                try await expect(client.response().status, equals: 103)
                let last = try await client.response()
                expect(last.framing, equals: "chunked")
                expect(last.text, equals: "abc")
            }
            expect(server.connectionCount, equals: 2)
        }
    }

    @Test("WebSockets use HTTP/1.1 on a connection of their own")
    func webSocket() async throws {
        let directory = try CertificateFixture()
        let tls = try directory.server("api", names: ["localhost"]).serverContext()
        let accept = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        let files = UpstreamTLSConfiguration(caFile: directory.authorityFile)
        try await ScriptedUpstream.run([[.request, .send(accept)]], tls: tls) { port, upstream in
            let setup = GatewaySetup().http2Upstream(port, .http2).targets(.https("localhost", port), tls: files)
            try await setup.configuration { $0.routes[0].allowsWebSocket = true }.run { gateway, client async throws in
                client.send(
                    Ask.get(
                        "/public/a", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
                try await expect(client.head().hasPrefix("HTTP/1.1 101"))
            }
        }
    }

    @Test("Rule 65: secrets that are sent are never entered into the compression state")
    func secrets() async throws {
        let setup = GatewaySetup()
        let cookie = setup.sessions.add()
        try await FrameServer.run(script: Self.responds) { port, server in
            try await setup.http2Upstream(port).run { gateway, client in
                _ = try await client.exchange(Ask.get("/private/a", "\(cookie); other=1"))
                let head = try require(server.requests.first?.head)
                for name in ["authorization", "cookie", "x-api-token"] {
                    let field = try require(head.first { $0.name == name }, "\(name)")
                    expect(field.indexable, equals: .neverIndexed)
                }
                expect(head["authorization"], equals: ["Bearer \(Canary.accessToken)"])
                expect(head.filter { $0.name == "cookie" }.map(\.value), equals: ["other=1"])
            }
        }
    }
}
