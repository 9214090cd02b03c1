import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Failures of HTTP/2 upstreams end only what is concerned", .serialized)
struct UpstreamHTTP2FailureTests {
    typealias Act = @Sendable (FrameServer.Link, UInt32) -> Void

    /// Reacts to complete requests by path; others get 200.
    private static func script(
        _ acts: [String: Act]
    ) -> FrameServer.Script {
        { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            let path = head.first(name: ":path") ?? ""
            if let act = acts[path] { act(link, id) } else { link.respond(id) }
        }
    }

    private func run(
        _ acts: [String: Act], _ options: FrameServer.Options = .init(),
        _ body: (RunningGateway, RawPeer, FrameServer) async throws -> Void
    ) async throws {
        try await GatewaySetup().run(options, against: Self.script(acts)) { gateway, server in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.get("/public/first")).text, equals: "ok")
            try await body(gateway, client, server)
            try await expect(gateway.client().exchange(Ask.get("/public/last")).text, equals: "ok")
        }
    }

    @Test("A malformed response is 502, its stream is reset, and the connection continues")
    func malformed() async throws {
        let bad: [String: [(String, String)]] = [
            "/public/none": [], "/public/upper": [(":status", "200"), ("A", "b")],
            "/public/two": [(":status", "200"), (":status", "200")],
            "/public/control": [(":status", "200"), ("a", "b\u{1}")],
            "/public/connection": [(":status", "200"), ("connection", "close")],
            "/public/length": [(":status", "200"), ("content-length", "x")],
        ]
        try await run(
            bad.mapValues { fields in { link, id in link.send(.headers(id, HTTP2Fields(fields), ends: false)) } }
        ) { _, client, server in
            for path in bad.keys.sorted() {
                let response = try await client.exchange(Ask.get(path))
                expect(response.problem, equals: "502 failed_request")
            }
            try await eventually("the resets") { server.resets.count == bad.count }
            expect(server.resets.allSatisfy { $0 == 1 })
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("A head above the limit concerns its stream, up to the announced size of a list")
    func largeHead() async throws {
        let acts: [String: Act] = [
            "/public/large": { link, id in
                let fields = HTTP2Fields([(":status", "200"), ("x-large", String(repeating: "a", count: 65_000))])
                let block = fields.block
                link.send(
                    .headers(id, block: Array(block[..<16_000]), ends: false, isWhole: false),
                    .continuation(id, block: Array(block[16_000..<32_000]), isWhole: false),
                    .continuation(id, block: Array(block[32_000..<48_000]), isWhole: false),
                    .continuation(id, block: Array(block[48_000..<64_000]), isWhole: false),
                    .continuation(id, block: Array(block[64_000...]), isWhole: true), .data(id, "abc", ends: true))
            }
        ]
        try await run(acts) { _, client, server in
            try await expect(client.exchange(Ask.get("/public/large")).status, equals: 502)
            let next = try await client.exchange(Ask.get())
            expect(next.status, equals: 200)
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("Interim responses with more than 256 KiB in all fail their request, and the connection continues")
    func largeInterims() async throws {
        let acts: [String: Act] = [32, 33].reduce(into: [:]) { acts, count in
            acts["/public/\(count)"] = { link, id in
                let hint = HTTP2Fields([(":status", "103"), ("link", String(repeating: "a", count: 8_000))])
                for _ in 0..<count { link.send(.headers(id, hint, ends: false)) }
                link.respond(id)
            }
        }
        try await run(acts) { _, client, server in
            for (count, status) in [(32, 200), (33, 502)] {
                client.send(Ask.get("/public/\(count)"))
                var response = try await client.response()
                while response.status == 103 { response = try await client.response() }
                expect(response.status, equals: status)
            }
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("REFUSED_STREAM and GOAWAY below the stream: the request is sent again, whatever its method")
    func refused() async throws {
        let count = Mutex(0)
        let once: @Sendable () -> Bool = {
            count.withLock {
                $0 += 1
                return $0 % 2 == 1
            }
        }
        let acts: [String: Act] = [
            "/public/refused": { link, id in
                if once() { link.send(.reset(id, .refusedStream)) } else { link.respond(id) }
            },
            "/public/away": { link, id in if once() { link.send(.goAway(last: 0)) } else { link.respond(id) } },
        ]
        try await run(acts) { _, client, server in
            for path in ["/public/refused", "/public/away"] {
                try await expect(client.exchange("DELETE \(path) HTTP/1.1\r\nHost: a\r\n\r\n").text, equals: "ok")
                let post = try await client.exchange("POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                expect(post.text, equals: "ok")
            }
            expect(server.connectionCount, equals: 3)
        }
    }

    @Test("After GOAWAY the streams in progress continue, others use a new connection, and the old one is closed")
    func graceful() async throws {
        let links = Mutex<[(FrameServer.Link, UInt32)]>([])
        let acts: [String: Act] = [
            "/public/slow": { link, id in
                links.withLock { $0.append((link, id)) }
                link.send(.goAway(last: id))
            }
        ]
        try await run(acts) { gateway, client, server in
            client.send(Ask.get("/public/slow"))
            try await eventually("the slow request") { links.withLock { $0.count } == 1 }
            let other = try await gateway.client()
            try await expect(other.exchange(Ask.get()).text, equals: "ok")
            expect(server.connectionCount, equals: 2)
            expect(server.closedCount, equals: 0)
            links.withLock { for (link, id) in $0 { link.respond(id) } }
            try await expect(client.response().text, equals: "ok")
            try await eventually("the end of the connection") { server.closedCount == 1 }
        }
    }

    @Test(
        "A reset before the head is 502, after it the response is cut; RST_STREAM(NO_ERROR) after a whole response is not"
    )
    func resets() async throws {
        let acts: [String: Act] = [
            "/public/before": { link, id in link.send(.reset(id, .internalError)) },
            "/public/after": { link, id in
                link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false), .data(id, "abc"))
                link.send(.reset(id, .internalError))
            },
        ]
        try await run(acts) { gateway, client, server async throws in
            try await expect(client.exchange(Ask.get("/public/before")).status, equals: 502)
            await #expect(throws: ResponseTruncated.self) {
                try await gateway.client().exchange(Ask.get("/public/after"))
            }
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("A response before the end of the request is complete, and the rest of the request is not sent")
    func earlyResponse() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, _) = event else { return }
            link.respond(id, "403")
            link.send(.reset(id, .noError))
        }
        try await GatewaySetup().run(against: script) { gateway, server in
            let client = try await gateway.client()
            // More than is buffered before the request is forwarded.
            let part = String(repeating: "a", count: 20_000)
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n\(part)")
            let response = try await client.response()
            expect(response.status, equals: 403)
            expect(response.text, equals: "ok")
            try await expect(gateway.client().exchange(Ask.get()).status, equals: 403)
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("201 resets and stream errors do not end the connection")
    func manyResets() async throws {
        let acts: [String: Act] = ["/public/reset": { link, id in link.send(.reset(id, .internalError)) }]
        try await run(acts) { _, client, server in
            for _ in 0..<201 {
                let response = try await client.exchange(Ask.get("/public/reset"))
                expect(response.status, equals: 502)
            }
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("Streams lowered to 1: the requests take turns on the connection, and others use another one")
    func loweredStreams() async throws {
        let acts: [String: Act] = [
            "/public/lower": { link, id in
                link.send(.settings([HTTP2WireSetting(id: 3, value: 1)]))
                link.respond(id)
            }
        ]
        try await run(acts) { gateway, client, server in
            try await expect(client.exchange(Ask.get("/public/lower")).text, equals: "ok")
            let clients = try await [gateway.client(), gateway.client(), gateway.client()]
            for _ in 0..<20 {
                for client in clients { client.send(Ask.get()) }
                for client in clients { try await expect(client.response().text, equals: "ok") }
            }
            #expect(server.connectionCount <= 3)
        }
    }

    @Test("A server that supports only HTTP/1.1 is reported as unreachable")
    func http1Server() async throws {
        let bad = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        try await ScriptedUpstream.run([[.send(bad), .close]]) { port, _ in
            try await GatewaySetup().http2Upstream(port).run { gateway in
                try await expect(gateway.client().exchange(Ask.get()).problem, equals: "502 unreachable")
                try await Self.connects(gateway, port, "failed")
            }
        }
    }

    /// Waits until the only connection attempt is counted with an outcome.
    private static func connects(_ gateway: RunningGateway, _ port: Int, _ outcome: String) async throws {
        for other in ["failed", "timeout"] {
            try await gateway.metric(
                "cloakroom_upstream_connects_total{outcome=\"\(other)\",target=\"http://127.0.0.1:\(port)\","
                    + "upstream=\"api\"} \(other == outcome ? 1 : 0)")
        }
    }

    @Test("A server that sends no SETTINGS is not used, and the client gets 504 after the connect timeout")
    func silentServer() async throws {
        var options = FrameServer.Options()
        options.sendsSettings = false
        try await FrameServer.run(options, script: { _, _ in }) { port, server in
            let setup = GatewaySetup().http2Upstream(port)
                .configuration { $0.timeouts.connect = .milliseconds(500) }
            try await setup.run { gateway in
                try await expect(gateway.client().exchange(Ask.get()).status, equals: 504)
                expect(empty: server.requests)
                try await eventually("the end of the connection") { server.closedCount == 1 }
                // Not that it does not support HTTP/2: it may.
                try await Self.connects(gateway, port, "timeout")
            }
        }
    }

    @Test("Cancelled requests are reset; DATA that arrives for them later does not end the connection")
    func cancelled() async throws {
        let links = Mutex<[(FrameServer.Link, UInt32)]>([])
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            guard head.first(name: ":path") == "/public/slow" else { return link.respond(id) }
            link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false), .data(id, "abc"))
            links.withLock { $0.append((link, id)) }
        }
        try await GatewaySetup().http2().run(against: script) { gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 121, by: 2)) as [UInt32]
            for id in ids { client.send(.headers(id, .get("/public/slow"))) }
            for id in ids { try await eventually("data") { client.stream(id).bodyCount == 3 } }
            // Above 20 within 4 s the rest of a response is received instead.
            client.send(ids.map { .reset($0) })
            try await eventually("resets") { server.resets.count >= 20 }
            try await client.settle()
            #expect(server.resets.count < 60)
            links.withLock {
                for (link, id) in $0 {
                    link.send((0..<20).map { _ in .data(id, String(repeating: "a", count: 1_000)) })
                    link.send(.data(id, "", ends: true))
                }
            }
            try await expect(client.exchange(121, .get()).text, equals: "ok")
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("Requests whose bodies are incomplete are reset at most 20 times within 4 s too")
    func cancelledUploads() async throws {
        try await GatewaySetup().http2().configuration { $0.routes[0].grpc = true }.run(against: Self.script([:])) {
            gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 121, by: 2)) as [UInt32]
            let head = HTTP2Fields.post("/public/open", ("content-type", "application/grpc"))
            for id in ids { client.send(.headers(id, head, ends: false)) }
            try await eventually("the requests") { server.requests.count == ids.count }
            client.send(ids.map { .reset($0) })
            try await eventually("resets") { server.resets.count >= 20 }
            // Its head is sent after the resets.
            try await expect(client.exchange(121, .post("/public/a")).text, equals: "ok")
            #expect(server.resets.count < 60)
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("Interim responses without end fail their request, and unknown frames without end their connection")
    func endlessFrames() async throws {
        let acts: [String: Act] = [
            "/public/interim": { link, id in
                let interim = HTTP2WireFrame.headers(id, HTTP2Fields([(":status", "103")]), ends: false)
                link.send(Array(repeating: interim, count: 4_097))
            },
            "/public/unknown": { link, id in
                link.send(Array(repeating: HTTP2WireFrame(type: 0x55, stream: id, payload: [1]), count: 5_001))
            },
        ]
        try await run(acts) { gateway, _, server in
            for (path, connections) in [("/public/interim", 1), ("/public/unknown", 2)] {
                let response = try await gateway.client().exchange("GET \(path) HTTP/1.0\r\n\r\n")
                expect(response.status, equals: 502)
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                expect(server.connectionCount, equals: connections)
            }
        }
    }

    @Test("Resets with CANCEL and without a response count as failures of their target")
    func cancelledByTarget() async throws {
        let bad: FrameServer.Script = { link, event in
            if case .headers(let id, _, ends: true) = event { link.send(.reset(id, .cancel)) }
        }
        try await FrameServer.run(script: bad) { port, _ in
            try await FrameServer.run(script: Self.script([:])) { other, _ in
                let setup = GatewaySetup().http2Upstream(port).targets(
                    .http("127.0.0.1", port), .http("127.0.0.1", other)
                ).configuration { $0.upstreams[0].balance.policy = .roundRobin }
                try await setup.run { gateway, client in
                    try await eventually("an ejection") {
                        _ = try await client.exchange(Ask.post("/public/a"))
                        return gateway.metrics.split(separator: "\n").contains {
                            $0.hasPrefix("cloakroom_upstream_ejections_total") && !$0.hasSuffix(" 0")
                        }
                    }
                }
            }
        }
    }

    @Test("A request that was not sent when the target lowers its limit of streams goes to another target at once")
    func noStreamsAfterLease() async throws {
        var options = FrameServer.Options()
        options.sendsSettings = false
        let bad: FrameServer.Script = { link, event in
            guard case .opened = event else { return }
            let settings = [100, 0].map { HTTP2WireFrame.settings([HTTP2WireSetting(id: 3, value: $0)]) }
            link.send(settings)
        }
        try await FrameServer.run(options, script: bad) { port, server in
            try await FrameServer.run(script: Self.script([:])) { other, _ in
                let setup = GatewaySetup().http2Upstream(port).targets(
                    .http("127.0.0.1", port), .http("127.0.0.1", other)
                ).configuration { $0.upstreams[0].balance.policy = .roundRobin }
                try await setup.run { gateway async throws in
                    for _ in 0..<2 {
                        try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                    }
                    #expect(server.connectionCount > 0)
                    expect(empty: server.requests)
                }
            }
        }
    }

    @Test("A request head that does not fit a frame is 431, and later requests are intact")
    func largeRequest() async throws {
        try await run([:]) { _, client, server in
            let field = "X-Large: \(String(repeating: "\\", count: 9_000))"
            let response = try await client.exchange(Ask.get("/public/a", field))
            expect(response.status, equals: 431)
            try await expect(client.exchange(Ask.get("/public/b", "X-Test: bob")).text, equals: "ok")
            expect(server.requests.last?.head["x-test"], equals: ["bob"])
            expect(server.requests.count, equals: 2)
        }
    }
}
