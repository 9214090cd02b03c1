import CloakroomCore
import Foundation
import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Responses that wait for the client's window", .serialized)
struct HTTP2WaitingResponseTests {
    private static func responses(_ count: Int) -> [ScriptedUpstream.Step] {
        let body = String(repeating: "a", count: count)
        return [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n\(body)"), .again]
    }

    @Test("Rule 80: a complete response counts as a request in flight until it is sent")
    func counted() async throws {
        try await GatewaySetup(Self.responses(100))
            .http2 {
                $0.limits.inFlightPerAddress = 3
                $0.routes[0].inFlight = 3
            }
            .run { gateway in
                let options = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
                let client = try await gateway.http2(options)
                for id: UInt32 in [1, 3, 5] {
                    client.send(.headers(id, .get()))
                    try await eventually("the head of \(id)") { client.stream(id).status == 200 }
                }
                try await expect(gateway.client().exchange(Ask.get()).status, equals: 429)
                client.send(.windowUpdate(1, 100), .windowUpdate(3, 99))
                try await expect(client.response(1).bodyCount, equals: 100)
                let other = try await gateway.client()
                try await expect(other.exchange(Ask.get()).status, equals: 200)
                // A reset and the end of a connection return the others.
                client.send(.reset(3))
                try await eventually("another") { gateway.metrics.contains("cloakroom_client_cap_total") }
                try await client.channel.close()
                await gateway.settle()
                let again = try await gateway.http2(options)
                for id: UInt32 in [1, 3, 5] {
                    again.send(.headers(id, .get()))
                    try await eventually("the head of \(id)") { again.stream(id).status == 200 }
                }
            }
    }

    @Test("Rule 80: what waits in streams of an upstream counts, and the connection that it waits for ends")
    func heldByUpstream() async throws {
        // For each connection of the gateway: its window, and the DATA frames that wait for it.
        let links = Mutex<[Int: (window: Int, frames: [(id: UInt32, ends: Bool)])]>([:])
        let script: FrameServer.Script = { link, event in
            links.withLock { links in
                var state = links[link.index] ?? (window: 65_535, frames: [])
                switch event {
                case .headers(let id, let head, ends: true):
                    link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false))
                    let count = head.first(name: ":path") == "/public/large" ? 224 : 3
                    state.frames += (1...count).map { (id: id, ends: $0 == count) }
                case .windowUpdate(0, let count): state.window += count
                default: return
                }
                let sent = state.frames.prefix(state.window / 16_384)
                link.send(sent.map { .data($0.id, Array(repeating: 0x62, count: 16_384), ends: $0.ends) })
                state.window -= sent.count * 16_384
                state.frames.removeFirst(sent.count)
                links[link.index] = state
            }
        }
        try await GatewaySetup().http2 {
            $0.eventLoops = 1
            $0.upstreams[0].pool.streamWindow = 4 << 20
        }
        .run(against: script) { gateway, server async throws in
            let waiting = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
            let other = try await gateway.http2(waiting)
            let ids = (0..<80).map { UInt32(2 * $0 + 1) }
            other.send(ids.map { .headers($0, .get()) })
            try await eventually("other responses") {
                ids.allSatisfy { other.stream($0).status == 200 }
                    && links.withLock { $0.values.allSatisfy { $0.frames.isEmpty } }
            }
            await gateway.settle()
            // Less than that in streams of the client, but 147 MB in all.
            let guilty = try await gateway.http2(waiting)
            guilty.send(ids.prefix(40).map { .headers($0, .get("/public/large")) })
            try await eventually("the end") { guilty.isClosed }
            expect(guilty.goAways.last?.code, equals: .enhanceYourCalm)
            expect(!other.isClosed)
            other.send([.windowUpdate(0, 1 << 23)] + ids.map { .windowUpdate($0, 1 << 17) })
            for id in ids { try await expect(other.response(id).bodyCount, equals: 3 * 16_384) }
        }
    }

    @Test("Rule 80: beyond the budget of all waiting responses the connections that hold most of them end")
    func budget() async throws {
        let scripts = Array(repeating: Self.responses(65_000), count: 200)
        let setup = GatewaySetup().with(\.scripts, scripts)
        try await setup.steppedTime().http2 { $0.limits.inFlightPerAddress = 0 }.run { gateway in
            let waiting = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
            let small = try await gateway.http2(waiting)
            small.send(.headers(1, .get()), .headers(3, .get()))
            var clients: [HTTP2Client] = []
            let ids = (0..<50).map { UInt32(2 * $0 + 1) }
            // Twice the budget.
            while !clients.contains(where: \.isClosed), clients.count * 50 * 65_000 < 2 * LoopContext.responseMemory {
                let client = try await gateway.http2(waiting)
                clients.append(client)
                client.send(ids.map { .headers($0, .get()) })
                try await eventually("responses") {
                    client.isClosed || ids.allSatisfy { client.stream($0).status == 200 || client.stream($0).isEnded }
                }
                try await gateway.advance(.milliseconds(100))
            }
            let ended = clients.filter(\.isClosed)
            expect(!ended.isEmpty)
            expect(ended.allSatisfy { $0.goAways.last?.code == .enhanceYourCalm })
            expect(gateway.metrics.contains("http2_waiting_responses"))
            // A connection on which little waits stays, and a client that reads gets everything.
            expect(!small.isClosed)
            let reading = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(1 << 20)], keepsBodies: false)
            let reader = try await gateway.http2(reading)
            reader.send([.windowUpdate(0, 1 << 23)] + ids.map { .headers($0, .get()) })
            for id in ids { try await expect(reader.response(id).bodyCount, equals: 65_000) }
        }
    }

    @Test("Rule 80: files in memory for large windows wait 64 KiB at a time, and arrive whole")
    func files() throws {
        let folder = try FolderFixture()
        let content = Data((0..<262_144).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        try folder.write(content, to: "a.bin")
        let connection = try EmbeddedConnection(folder.setup().makeConfig())
        let gauge = WriteGauge()
        let handler = try connection.http2(behind: gauge)
        let ids = (0..<40).map { UInt32(2 * $0 + 1) }
        let limit = ids.count * 65_536
        gauge.measure = { [context = connection.context] in context.responseBytes }
        let start: [HTTP2WireFrame] = [.settings([.initialWindow(1 << 22)]), .windowUpdate(0, 1 << 26)]
        let frames = start + ids.map { .headers($0, .get("/app/a.bin")) }
        try connection.channel.writeInbound(ByteBuffer(bytes: HTTP2WireFrame.preface + frames.flatMap(\.bytes)))
        expect(connection.context.responseBytes, equals: limit)
        expect(handler.streams.compactMap { $0?.exchange?.drainCredit?.isBehind }, equals: ids.map { _ in true })
        connection.channel.embeddedEventLoop.run()
        #expect(gauge.most <= limit)
        expect(connection.context.responseBytes, equals: 0)
        let recorder = HTTP2Recorder(.init())
        var sent = try connection.sent()
        _ = recorder.receive(&sent)
        let streams = recorder.state.withLock { $0.streams }
        let expected = ByteBuffer(bytes: content)
        expect(ids.allSatisfy { streams[$0]?.isEnded == true && streams[$0]?.body == expected })
    }

    /// Measures something with each write.
    private final class WriteGauge: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var measure: () -> Int = { 0 }
        private(set) var most = 0

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            most = max(most, measure())
            context.write(data, promise: promise)
        }
    }
}
