import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// A kind of flood: its name and its frames.
struct Flood: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// The frames sent first, and the frames sent repeatedly.
    var before: [HTTP2WireFrame] = []
    var frames: @Sendable (UInt32) -> [HTTP2WireFrame]

    init(
        _ name: String, before: [HTTP2WireFrame] = [],
        frames: @escaping @Sendable (_ stream: UInt32) -> [HTTP2WireFrame]
    ) {
        testDescription = name
        self.before = before
        self.frames = frames
    }
}

@Suite("Floods in HTTP/2 (RFC 9113 §10.5)", .serialized)
struct HTTP2FloodTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let malformed = HTTP2Fields([(":method", "GET")])

    private static let floods: [Flood] = [
        Flood("CVE-2023-44487: rapid reset") { [.headers($0, .get()), .reset($0)] },
        Flood("CVE-2023-44487: rapid reset of requests with a local response") {
            [.headers($0, .get("/nowhere")), .headers($0 + 2, .get()), .reset($0 + 2)]
        },
        Flood("CVE-2025-8671: MadeYouReset by WINDOW_UPDATE of 0") { [.headers($0, .get()), .windowUpdate($0, 0)] },
        Flood("CVE-2025-8671: MadeYouReset by a window overflow") {
            [.headers($0, .get()), .windowUpdate($0, 0x7fff_ffff)]
        },
        Flood("CVE-2025-8671: MadeYouReset by malformed requests") {
            [.headers($0, malformed)]
        },
        Flood("CVE-2025-8671: MadeYouReset by a body that is too long") {
            [.headers($0, .post("/public/a", ("content-length", "1")), ends: false), .data($0, "ab")]
        },
        Flood("CVE-2019-9512: PING") { _ in [.ping()] },
        Flood("CVE-2019-9515: SETTINGS") { _ in [.settings()] },
        Flood("CVE-2019-9513: PRIORITY") { [.priority($0)] },
        Flood("CVE-2019-9518: empty DATA", before: [.headers(1, .post(), ends: false)]) { _ in [.data(1)] },
        Flood("CVE-2019-9518: DATA of padding only", before: [.headers(1, .post(), ends: false)]) { _ in
            [.data(1, [], padding: 1)]
        },
    ]

    @Test("End with ENHANCE_YOUR_CALM, are counted, and do not affect other connections", arguments: floods)
    func flood(_ flood: Flood) async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(flood.before)
            try await client.settle()
            var stream: UInt32 = 3
            while !client.isClosed, stream < 80_000 {
                var batch: [HTTP2WireFrame] = []
                for _ in 0..<50 {
                    batch += flood.frames(stream)
                    stream += 4
                }
                client.send(batch)
                try await Task.sleep(for: .milliseconds(1))
            }
            try await client.closed()
            #expect(try await client.error() == .enhanceYourCalm)
            #expect(try await gateway.serves("/public/b"))
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("CVE-2024-27316: CONTINUATION frames without an end are limited", arguments: [true, false])
    func continuations(isEmpty: Bool) async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            // Prevents an acknowledgement of settings between the frames.
            try await client.settle()
            client.send(.headers(1, block: HTTP2Fields.get().block, isWhole: false))
            let block = isEmpty ? [] : HTTP2Fields([("x", String(repeating: "a", count: 1_000))]).block
            for _ in 0..<200 { client.send(.continuation(1, block: block, isWhole: false)) }
            #expect(try await client.error() == .enhanceYourCalm)
            try await client.closed()
            #expect(try await gateway.serves("/public/b"))
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("HPACK bomb (RFC 7541 §7.3): a small header block that expands to a large one is not decoded")
    func bomb() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            // One field of 4,000 bytes in the dynamic table, then 12,000 references to it: 48 MB.
            let value = Array(repeating: UInt8(0x61), count: 3_900)
            let remembered = [0x40, 1, 0x78] + HTTP2Fields.integer(value.count, prefix: 7) + value
            client.send(.headers(1, block: HTTP2Fields.get().block + remembered))
            #expect(try await client.response(1).text == "ok")
            client.send(
                .headers(3, block: HTTP2Fields.get().block + Array(repeating: UInt8(0x80 | 62), count: 12_000)))
            try await eventually("the connection or the stream to end") { client.isClosed || client.stream(3).isOver }
            #expect(client.stream(3).status ?? 431 == 431)
            #expect(try await gateway.serves("/public/b"))
            #expect(gateway.upstream.requests.count == 2)
        }
    }

    @Test("CVE-2019-9511: a window that is opened byte by byte")
    func tinyWindows() async throws {
        let body = String(repeating: "a", count: 10_000)
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n\(body)"
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(0)], sendsWindowUpdates: false))
            client.send(.headers(1, .get()))
            try await eventually("the response head") { client.stream(1).status == 200 }
            // Separate writes: increments in one read would be combined into a larger one.
            for count in 0..<9_000 where !client.isClosed {
                client.send(.windowUpdate(1, 1))
                while client.stream(1).bodyCount <= count, !client.isClosed { await Task.yield() }
            }
            #expect(try await client.error() == .enhanceYourCalm)
            try await client.closed()
            #expect(client.stream(1).bodyCount < 9_000)
            #expect(try await gateway.serves())
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("CVE-2019-9517: streams whose windows stay closed are reset, and the connection stays open")
    func hoarding() async throws {
        try await GatewaySetup(Self.serves).http2 { $0.timeouts.bodyIdle = .milliseconds(300) }.run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(0)]))
            let ids = Array(stride(from: UInt32(1), to: 200, by: 2))
            client.send(ids.map { .headers($0, .get()) })
            for id in ids {
                #expect(try await client.reset(id) != nil)
                #expect(client.stream(id).bodyCount == 0)
                #expect(!client.stream(id).isEnded)
            }
            client.send(.settings([.initialWindow(1_000)]))
            #expect(try await client.exchange(201, .get()).text == "ok")
        }
    }

    @Test("Fifty bodies that the upstream does not read are buffered within limits, and end")
    func hoardedBodies() async throws {
        try await GatewaySetup([.head, .reading(false)]).http2 {
            $0.timeouts.bodyIdle = .milliseconds(500)
            $0.timeouts.responseHead = .milliseconds(500)
        }
        .run { gateway in
            let client = try await gateway.http2()
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
