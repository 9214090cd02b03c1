import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// Floods by what the gateway does beyond the budget of the connection, which has tests of its own for each kind.
@Suite("Floods of frames that cost the gateway more than the client (RFC 9113 §10.5)", .serialized)
struct HTTP2FloodTests {
    /// Frames that are sent repeatedly, and the frames sent before them.
    struct Flood: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var before: [HTTP2WireFrame] = []
        var frames: @Sendable (_ stream: UInt32) -> [HTTP2WireFrame]
    }

    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let open: [HTTP2WireFrame] = [.headers(1, .post(), ends: false)]

    @Test(
        "Rule 56: a flood ends with ENHANCE_YOUR_CALM within 100,000 frames; meanwhile others are served",
        arguments: [
            Flood(testDescription: "CVE-2019-9512: PING") { _ in [.ping()] },
            Flood(testDescription: "SETTINGS that open and close all windows", before: open) { _ in
                [.settings([.initialWindow(0), .initialWindow(100_000)])]
            },
            Flood(testDescription: "CVE-2019-9518: empty DATA", before: open) { _ in [.data(1)] },
            Flood(testDescription: "requests without an end that are reset by the client") {
                [.headers($0, .post(), ends: false), .reset($0)]
            },
        ])
    func flood(_ flood: Flood) async throws {
        try await GatewaySetup([.head], Self.serves).runHTTP2(.init(acknowledgesSettings: false)) { gateway, client in
            try await client.settle()
            client.send(flood.before)
            try await client.settle()
            var stream: UInt32 = 3
            for round in 0..<1_000 where !client.isClosed {
                client.send((0..<100).flatMap { flood.frames(stream + 2 * $0) })
                stream += 200
                if round == 10 { #expect(try await gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(1))
            }
            #expect(try await client.error() == .enhanceYourCalm)
            try await client.closed()
            #expect(try await gateway.servesSoon())
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("Rule 56: 100,000 window updates that open nothing do not delay others", arguments: [0, 1] as [UInt32])
    func harmless(stream: UInt32) async throws {
        try await GatewaySetup([.head], Self.serves).runHTTP2(.init(acknowledgesSettings: false)) { gateway, client in
            client.send(Self.open)
            try await client.settle()
            for round in 0..<1_000 where !client.isClosed {
                client.send(Array(repeating: .windowUpdate(stream, 1), count: 100))
                if round % 200 == 10 { #expect(try await gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(1))
            }
            #expect(!client.isClosed)
            #expect(client.goAways.isEmpty)
            #expect(try await gateway.servesSoon())
        }
    }

    @Test("Rule 56, CVE-2024-27316: a header block that never ends, ends its connection", arguments: [0, 16_000])
    func continuations(count: Int) async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            // Prevents an acknowledgement of settings between the frames.
            try await client.settle()
            client.send(.headers(1, block: HTTP2Fields.get().block, isWhole: false))
            let block = [UInt8](repeating: 0x82, count: count)
            for round in 0..<200 where !client.isClosed {
                client.send(Array(repeating: .continuation(1, block: block, isWhole: false), count: 10))
                if round == 5 { #expect(try await gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try await client.error() == .enhanceYourCalm)
            try await client.closed()
            #expect(try await gateway.servesSoon())
            #expect(gateway.upstream.requests.isEmpty)
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("Rule 56: 100,000 cookie crumbs of one request are rejected, and do not delay others")
    func crumbs() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            try await client.settle()
            // `cookie: a=b` in the table, then references to it.
            client.send(.headers(1, block: HTTP2Fields.get().block + [0x60, 3, 0x61, 0x3d, 0x62]))
            #expect(try await client.response(1).text == "ok")
            let start = ContinuousClock.now
            let block = HTTP2Fields.get().block + Array(repeating: UInt8(0x80 | 62), count: 100_000)
            client.sendSection(3, block: block)
            try await eventually("a rejection") { client.isClosed || client.stream(3).isOver }
            #expect(.now - start < .seconds(20))
            #expect(client.stream(3).status ?? 431 == 431)
            #expect(try await gateway.servesSoon())
            #expect(gateway.upstream.requests.count == 1)
        }
    }

    @Test("Rule 56, RFC 7541 §7.3: repeated HPACK bombs get 431 or the end of the connection, and are not expanded")
    func bombs() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            let value = Array(repeating: UInt8(0x61), count: 3_900)
            let remembered = [0x40, 1, 0x78] + HTTP2Fields.integer(value.count, prefix: 7) + value
            client.send(.headers(1, block: HTTP2Fields.get().block + remembered))
            #expect(try await client.response(1).text == "ok")
            let bomb = HTTP2Fields.get().block + Array(repeating: UInt8(0x80 | 62), count: 16_000)
            let start = ContinuousClock.now
            var id: UInt32 = 3
            while id < 200, !client.isClosed {
                client.send(.headers(id, block: bomb))
                try await eventually("a rejection") { client.isClosed || client.stream(id).isOver }
                #expect(client.stream(id).status ?? 431 == 431)
                if id == 21 { #expect(try await gateway.servesSoon()) }
                id += 2
            }
            #expect(.now - start < .seconds(60))
            #expect(try await gateway.servesSoon())
            #expect(gateway.upstream.requests.count == 1)
        }
    }

    @Test("Rule 56: a client that does not read its responses to HEAD is not read from either")
    func unreadHeads() async throws {
        let fields = (0..<15).map { "X-Large-\($0): \(String(repeating: "a", count: 1_000))\r\n" }.joined()
        let reply = "HTTP/1.1 200 OK\r\n\(fields)Content-Length: 0\r\n\r\n"
        try await GatewaySetup.replying(reply).runHTTP2(.init(receiveBuffer: 16_384)) {
            gateway, client in
            try await client.settle()
            try await client.setReading(false)
            // In all 240 MB of heads, which no window holds back.
            for batch in 0..<200 {
                client.send((0..<80).map { .headers(UInt32(160 * batch + 2 * $0 + 1), .request("HEAD")) })
                try await Task.sleep(for: .milliseconds(20))
            }
            let count = try await waitUntilStable { gateway.upstream.requests.count }
            // The sockets hold some megabytes, the gateway less than one.
            #expect(count < 2_000)
            #expect(try await gateway.servesSoon())
        }
    }

    @Test("Rule 56, CVE-2019-9517: 100 responses behind a window of 1 byte are reset in time, and others are served")
    func windowOfOne() async throws {
        try await GatewaySetup.serving.configuration { $0.timeouts.bodyIdle = .milliseconds(300) }.runHTTP2(
            .init(settings: [.initialWindow(1)], sendsWindowUpdates: false)
        ) { gateway, client in
            let ids = Array(stride(from: UInt32(1), to: 200, by: 2))
            client.send(ids.map { .headers($0, .get()) })
            try await eventually("heads") { ids.allSatisfy { client.stream($0).status == 200 } }
            #expect(try await gateway.servesSoon())
            for id in ids {
                #expect(try await client.response(id).reset != nil)
                #expect(!client.stream(id).isEnded)
            }
            // The connection stays open.
            client.send(.settings([.initialWindow(1_000)]))
            #expect(try await client.exchange(201, .get()).text == "ok")
            #expect(try await gateway.servesSoon())
        }
    }

    @Test("Fifty bodies that the upstream does not read are buffered within limits, and end")
    func hoardedBodies() async throws {
        try await GatewaySetup([.head, .reading(false)]).configuration {
            $0.timeouts.bodyIdle = .milliseconds(500)
            $0.timeouts.responseHead = .milliseconds(500)
        }
        .runHTTP2 { gateway, client async throws in
            let ids = Array(stride(from: UInt32(1), to: 100, by: 2))
            client.send(ids.map { .headers($0, .post(), ends: false) })
            for id in ids {
                for _ in 0..<4 { client.send(.data(id, Array(repeating: 0x61, count: 10_000))) }
            }
            for id in ids { #expect(try await client.response(id).isOver) }
            #expect(try await gateway.serves())
        }
    }
}
