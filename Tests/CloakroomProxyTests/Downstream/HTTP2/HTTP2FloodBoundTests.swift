import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("Floods of frames that cost the gateway more than the client (RFC 9113 §10.5)", .serialized)
struct HTTP2FloodBoundTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    private static func unknown(_ stream: UInt32, _ count: Int) -> HTTP2WireFrame {
        HTTP2WireFrame(type: 0x2a, stream: stream, payload: Array(repeating: 0, count: count))
    }

    /// Floods that regular clients never cause, with the frames sent before them.
    private static let floods: [Flood] = [
        Flood("CVE-2019-9512: PING") { _ in [.ping()] },
        Flood("PING acknowledgements that nothing requested") { _ in [.ping(isAck: true)] },
        Flood("CVE-2019-9515: SETTINGS") { _ in [.settings()] },
        Flood("CVE-2019-9515: SETTINGS with 100 parameters") { _ in
            [.settings((0..<100).map { HTTP2WireSetting(id: 0xff, value: $0) })]
        },
        Flood("SETTINGS acknowledgements that nothing requested") { _ in [.settingsAck] },
        Flood("SETTINGS that open and close all windows", before: [.headers(1, .post(), ends: false)]) { _ in
            [.settings([.initialWindow(0), .initialWindow(100_000)])]
        },
        Flood("SETTINGS that change the table size") { stream in
            [.settings([HTTP2WireSetting(id: 1, value: stream % 5_000)])]
        },
        Flood("CVE-2019-9513: PRIORITY of idle streams") { [.priority($0)] },
        Flood("CVE-2019-9513: PRIORITY of one stream") { [.priority(99_999, dependsOn: $0)] },
        Flood("PRIORITY_UPDATE (RFC 9218 §7.1)") {
            [HTTP2WireFrame(type: 0x10, payload: HTTP2Bytes.of($0) + Array("u=1".utf8))]
        },
        Flood("CVE-2019-9518: empty DATA", before: [.headers(1, .post(), ends: false)]) { _ in [.data(1)] },
        Flood("CVE-2019-9518: DATA of padding only", before: [.headers(1, .post(), ends: false)]) { _ in
            [.data(1, [], padding: 1)]
        },
        Flood("unknown frames without payload") { _ in [unknown(0, 0)] },
        Flood("unknown frames on streams") { [unknown($0, 10)] },
        Flood("RST_STREAM of a stream that has ended", before: [.headers(1, .get("/nowhere"))]) { _ in [.reset(1)] },
        Flood("requests without an end that are reset by the client") {
            [.headers($0, .post(), ends: false), .reset($0)]
        },
    ]

    @Test(
        "Rule 56: a flood ends with ENHANCE_YOUR_CALM within 100,000 frames; meanwhile others are served",
        arguments: floods)
    func flood(_ flood: Flood) async throws {
        try await GatewaySetup([.head], Self.serves).http2().run { gateway in
            let client = try await gateway.http2(.init(acknowledgesSettings: false))
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
        }
    }

    /// Frames that many clients send, of which none has an effect: each costs less than the request of a regular client.
    private static let harmlessFrames: [Flood] = [
        Flood("window updates of 1 byte for the connection") { _ in [.windowUpdate(0, 1)] },
        Flood(
            "CVE-2019-9511: window updates of 1 byte for a stream with nothing to send",
            before: [.headers(1, .post(), ends: false)]
        ) { _ in [.windowUpdate(1, 1)] },
        Flood("WINDOW_UPDATE of a stream that has ended", before: [.headers(1, .get("/nowhere"))]) { _ in
            [.windowUpdate(1, 1)]
        },
    ]

    @Test("Rule 56: 100,000 window updates that open nothing do not delay others", arguments: harmlessFrames)
    func harmless(_ flood: Flood) async throws {
        try await GatewaySetup([.head], Self.serves).http2().run { gateway in
            let client = try await gateway.http2(.init(acknowledgesSettings: false))
            client.send(flood.before)
            try await client.settle()
            for round in 0..<1_000 where !client.isClosed {
                client.send((0..<100).flatMap { flood.frames(3 + 2 * $0) })
                if round % 200 == 10 { #expect(try await gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(1))
            }
            #expect(!client.isClosed)
            #expect(client.goAways.isEmpty)
            #expect(try await gateway.servesSoon())
        }
    }

    /// How the frames after HEADERS continue a header block that never ends.
    enum Continuations: String, CaseIterable, Sendable {
        case empty, oneByte, full, sizeUpdates, indexed
    }

    @Test(
        "Rule 56, CVE-2024-27316: a header block that never ends, ends its connection",
        arguments: Continuations.allCases)
    func continuations(_ kind: Continuations) async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            try await client.settle()
            client.send(.headers(1, block: HTTP2Fields.get().block, isWhole: false))
            let text = String(repeating: "a", count: 16_000)
            var sent = 0
            for round in 0..<200 where !client.isClosed {
                let block: [UInt8] =
                    switch kind {
                    case .empty: []
                    case .oneByte: round == 0 ? [0x00, 0x01] : [0x78]
                    case .full: HTTP2Fields([("x-\(round)", text)]).block
                    case .sizeUpdates: [0x20]
                    case .indexed: Array(repeating: 0x82, count: 16_000)
                    }
                client.send(Array(repeating: .continuation(1, block: block, isWhole: false), count: 10))
                sent += 10
                if round == 5 { #expect(try await gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(5))
            }
            try await client.closed()
            #expect(client.goAways.contains { $0.code == .enhanceYourCalm || $0.code == .compressionError })
            #expect(try await gateway.servesSoon())
            #expect(gateway.upstream.requests.count == 0)
        }
    }

    @Test("Rule 56: 100,000 cookie crumbs of one request are rejected, and do not delay others")
    func crumbs() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
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
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
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
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2(.init(receiveBuffer: 16_384))
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
        try await GatewaySetup(Self.serves).http2 { $0.timeouts.bodyIdle = .milliseconds(300) }.run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(1)], sendsWindowUpdates: false))
            let ids = Array(stride(from: UInt32(1), to: 200, by: 2))
            client.send(ids.map { .headers($0, .get()) })
            try await eventually("heads") { ids.allSatisfy { client.stream($0).status == 200 } }
            #expect(try await gateway.servesSoon())
            for id in ids { #expect(try await client.response(id).reset != nil) }
            #expect(try await gateway.servesSoon())
        }
    }
}
