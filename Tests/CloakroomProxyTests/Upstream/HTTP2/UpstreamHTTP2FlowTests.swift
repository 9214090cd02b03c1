import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Flow control towards HTTP/2 upstreams (RFC 9113 §5.2)", .serialized)
struct UpstreamHTTP2FlowTests {
    @Test("Large bodies in both directions are complete")
    func large() async throws {
        let size = 3_000_000
        // Sends as the windows permit.
        let rooms = Mutex<(connection: Int, streams: [UInt32: Int])>((65_535, [:]))
        let left = Mutex<[UInt32: Int]>([:])
        let pump: @Sendable (FrameServer.Link) -> Void = { link in
            rooms.withLock { rooms in
                left.withLock { left in
                    for (id, rest) in left where rest > 0 {
                        var rest = rest
                        while rest > 0 {
                            let count = min(16_384, rest, rooms.connection, rooms.streams[id] ?? 131_072)
                            guard count > 0 else { break }
                            rest -= count
                            rooms.connection -= count
                            rooms.streams[id] = (rooms.streams[id] ?? 131_072) - count
                            link.send(.data(id, Array(repeating: 0x62, count: count), ends: rest == 0))
                        }
                        left[id] = rest
                    }
                }
            }
        }
        let script: FrameServer.Script = { link, event in
            switch event {
            case .data(let id, _, ends: true), .headers(let id, _, ends: true):
                left.withLock { $0[id] = size }
                link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false))
                pump(link)
            case .windowUpdate(let id, let count):
                rooms.withLock {
                    if id == 0 { $0.connection += count } else { $0.streams[id] = ($0.streams[id] ?? 131_072) + count }
                }
                pump(link)
            default: break
            }
        }
        try await FrameServer.run(script: script) { port, server in
            try await GatewaySetup().http2Upstream(port).configuration { $0.limits.body = 10_000_000 }.run {
                gateway, client in
                client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: \(size)\r\n\r\n")
                try await client.stream(ByteBuffer(repeating: 0x61, count: 100_000), times: size / 100_000)
                let response = try await client.response()
                expect(response.body.readableBytes, equals: size)
                expect(response.body.readableBytesView.allSatisfy { $0 == 0x62 })
                expect(server.requests.first?.body.count, equals: size)
            }
        }
    }

    @Test("A client that does not read stops its own stream only, and what the upstream may send for it is bounded")
    func slowReader() async throws {
        let script: FrameServer.Script = { link, event in
            switch event {
            case .headers(let id, let head, ends: true):
                guard head.first(name: ":path") == "/public/large" else { return link.respond(id) }
                link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false))
                // The whole window of the stream.
                link.send((0..<8).map { _ in .data(id, Array(repeating: 0x62, count: 16_384)) })
            default: break
            }
        }
        try await GatewaySetup().http2().run(against: script) { gateway, server in
            let slow = try await gateway.http2(.init(settings: [.initialWindow(1_000)], sendsWindowUpdates: false))
            slow.send(.headers(1, .get("/public/large")))
            try await eventually("the client's window") { slow.stream(1).bodyCount == 1_000 }
            let other = try await gateway.http2()
            for id in stride(from: 1, to: 40, by: 2) as StrideTo<UInt32> {
                try await expect(other.exchange(id, .get()).text, equals: "ok")
            }
            expect(server.connectionCount, equals: 1)
            // The client's stream takes 64 KiB over before it stops the upstream.
            func credit() -> Int {
                server.events.reduce(0) { if case .windowUpdate(1, let count) = $1 { $0 + count } else { $0 } }
            }
            #expect(credit() <= 65_536)
            // It takes over only as much as the client has made room for.
            slow.send(.windowUpdate(1, 20_000), .windowUpdate(0, 20_000))
            try await eventually("the client's window") { slow.stream(1).bodyCount == 21_000 }
            await gateway.settle()
            #expect(credit() <= 65_536)
            slow.send(.windowUpdate(1, 200_000), .windowUpdate(0, 200_000))
            try await eventually("all data") { slow.stream(1).bodyCount == 131_072 }
            try await eventually("the credit") { credit() >= 65_536 }
        }
    }

    @Test("An upstream that grants no window stops its own stream only")
    func blockedUpload() async throws {
        var options = FrameServer.Options(settings: [.initialWindow(10)])
        options.returnsWindows = false
        let script: FrameServer.Script = { link, event in
            switch event {
            case .headers(let id, _, ends: true), .data(let id, _, ends: true): link.respond(id)
            default: break
            }
        }
        try await GatewaySetup().run(options, against: script) { gateway, server in
            _ = try await gateway.client(sending: Ask.post(body: String(repeating: "a", count: 50)))
            try await eventually("the window") { server.requests.first?.body.count == 10 }
            let other = try await gateway.client()
            for _ in 0..<5 { try await expect(other.exchange(Ask.post(body: "1234567890")).text, equals: "ok") }
            expect(server.requests.first?.body.count, equals: 10)
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("A window that the upstream lowers below zero and raises again")
    func negativeWindow() async throws {
        var options = FrameServer.Options(settings: [.initialWindow(1_000)])
        options.returnsWindows = false
        let script: FrameServer.Script = { link, event in
            switch event {
            case .data(let id, 1_000, ends: false):
                link.send(.settings([.initialWindow(0)]), .windowUpdate(id, 900), .settings([.initialWindow(200)]))
            case .data(let id, _, ends: true): link.respond(id)
            case .data(let id, 100, ends: false): link.send(.windowUpdate(id, 10_000))
            default: break
            }
        }
        try await GatewaySetup().run(options, against: script) { gateway, server in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.post(body: String(repeating: "a", count: 3_000))).text, equals: "ok")
            expect(server.requests.first?.body.count, equals: 3_000)
        }
    }
}
