import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("Clients that send or read slowly", .serialized)
struct SlowClientTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let post = "POST /public/a HTTP/1.1\r\nHost: a\r\n"

    private static func metric(_ direction: String, _ cause: String = "rate", _ count: Int = 1) -> String {
        "cloakroom_slow_clients_total{cause=\"\(cause)\",direction=\"\(direction)\"} \(count)"
    }

    @Test(
        "Rule 60: bytes that come too slowly do not extend the time of a body, buffered or forwarded",
        arguments: [16_384, 0])
    func slowUpload(buffer: Int) async throws {
        try await GatewaySetup([.head, .wait(Gate())]).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(15)
            $0.limits.requestBuffer = buffer
        }
        .run { gateway, client in
            client.send(Self.post + "Content-Length: 1000\r\n\r\n")
            if buffer == 0 { _ = try await gateway.upstream.request() }
            // Each byte extends the time by 4 ms.
            for _ in 0..<15 {
                client.send("a")
                try await gateway.advance(.milliseconds(990))
            }
            expect(empty: client.unread)
            try await gateway.advance(.milliseconds(500))
            try await expect(client.response().status, equals: 408)
            try await gateway.metric(Self.metric("upload"))
            expect(gateway.upstream.connections.count, equals: (buffer == 0 ? 1 : 0))
        }
    }

    @Test("Rule 60: a body at 1 KB/s passes, with pauses, and takes longer than the timeout", arguments: [16_384, 0])
    func steadyUpload(buffer: Int) async throws {
        try await GatewaySetup(Self.serves).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(6)
            $0.limits.requestBuffer = buffer
        }
        .run { gateway, client in
            client.send(Self.post + "Content-Length: 8000\r\n\r\n")
            for _ in 0..<4 {
                try await gateway.advance(.seconds(2))
                client.send(String(repeating: "a", count: 2_000))
            }
            try await expect(client.response().text, equals: "ok")
            expect(gateway.upstream.requests[0].text.utf8.count, equals: 8_000)
        }
    }

    @Test("With a minimum rate of 0 any byte extends the time of a body")
    func withoutRate() async throws {
        try await GatewaySetup(Self.serves).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(5)
            $0.limits.minimumRate = 0
        }
        .run { gateway, client in
            client.send(Self.post + "Content-Length: 6\r\n\r\n")
            for _ in 0..<6 {
                try await gateway.advance(.milliseconds(4_900))
                client.send("a")
            }
            try await expect(client.response().text, equals: "ok")
        }
    }

    @Test("Time in which the upstream does not read a body is the upstream's: 504 and not 408")
    func pausedUpload() async throws {
        try await GatewaySetup([.head, .reading(false)]).configuration {
            $0.timeouts.bodyIdle = .milliseconds(500)
            $0.limits.body = 1 << 30
        }
        .run { gateway, client async throws in
            client.send(Self.post + "Content-Length: 900000000\r\n\r\n")
            let upload = Task { try await client.stream(ByteBuffer(repeating: 0x61, count: 65_536), times: 10_000) }
            try await expect(client.response().status, equals: 504)
            upload.cancel()
            try? await client.close()
            _ = await upload.result
            expect(gateway.metrics.contains(Self.metric("upload", "rate", 0)))
        }
    }

    /// A response of 64 MiB.
    private static let large: [ScriptedUpstream.Step] = [
        .request, .send("HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"),
        .stream(ByteBuffer(repeating: 0x61, count: 1 << 20), times: 64),
    ]

    @Test("Rule 61: a response is cut if the client reads it too slowly", arguments: [0, 100])
    func slowReader(bytes: Int) async throws {
        try await GatewaySetup(Self.large).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(10)
            $0.limits.minimumRate = 100_000
        }
        .run { gateway in
            let client = try await RawPeer.connect(
                port: gateway.port, receiveBuffer: 8_192, readSize: 100, allowsHalfClosure: false)
            client.send(Ask.get())
            _ = try await waitUntilStable { gateway.upstream.connections.first?.sent ?? 0 }
            var time = Duration.zero
            while gateway.metrics.contains(Self.metric("download", "rate", 0)), time < .seconds(40) {
                if bytes > 0 { client.read() }
                try await gateway.advance(.milliseconds(200))
                time += .milliseconds(200)
            }
            expect(time >= .seconds(10) && time < .seconds(12), "\(time)")
            try await gateway.metric(Self.metric("download"))
            try await gateway.upstream.closed()
        }
    }

    @Test(
        "Rule 61: a response continues if the client reads slowly and steadily, although its socket is never writable")
    func steadyReader() async throws {
        try await GatewaySetup(Self.large).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(6)
            $0.limits.minimumRate = 2_000
        }
        .run { gateway in
            let client = try await RawPeer.connect(
                port: gateway.port, receiveBuffer: 8_192, readSize: 1_000, allowsHalfClosure: false)
            client.send(Ask.get())
            let sent = try await waitUntilStable { gateway.upstream.connections.first?.sent ?? 0 }
            for _ in 0..<160 {
                let before = client.received
                client.read()
                try await eventually("further bytes") { client.received > before || client.isClosed }
                try await gateway.advance(.milliseconds(50))
            }
            expect(!client.isClosed)
            #expect(client.received > 60_000)
            expect(gateway.upstream.connections[0].sent, equals: sent)
            expect(gateway.metrics.contains(Self.metric("download", "rate", 0)))
        }
    }

    @Test("Rule 61: window updates of 1 byte do not keep a response in HTTP/2", arguments: [true, false])
    func tinyWindows(isComplete: Bool) async throws {
        let total = isComplete ? 30_000 : 500_000
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n"
        let script: [ScriptedUpstream.Step] = [
            .request, .send(head), .stream(ByteBuffer(repeating: 0x61, count: total), times: 1), .again,
        ]
        let setup = GatewaySetup(script, Self.serves).http2 { $0.timeouts.bodyIdle = .seconds(10) }
        try await setup.steppedTime().run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(0)], sendsWindowUpdates: false))
            client.send(.headers(1, .get()))
            try await eventually("the response head") { client.stream(1).status == 200 }
            var time = Duration.zero
            while !client.stream(1).isOver, time < .seconds(40) {
                client.send(.windowUpdate(1, 1))
                try await gateway.advance(.milliseconds(500))
                time += .milliseconds(500)
            }
            expect(time >= .seconds(10) && time < .seconds(20), "\(time)")
            expect(client.stream(1).reset != nil)
            // A response that is complete at the gateway occupies no connection.
            if !isComplete {
                try await gateway.metric(Self.metric("download"))
                try await gateway.upstream.closed()
            }
            client.send(.windowUpdate(0, 65_535))
            client.send(.headers(3, .get("/nowhere")))
            try await eventually("the next response head") { client.stream(3).status == 404 }
        }
    }

    /// A client that is slow, and others that need its connection.
    struct Pressure: Sendable, CustomTestStringConvertible {
        var isUpload: Bool
        /// The number of others: with several the queue is never empty, and requests leave it after 50 ms.
        var others: Int
        var testDescription: String { "\(isUpload ? "upload" : "download"), \(others) others" }
    }

    @Test(
        "Rule 62: requests that wait for a connection end the slowest client that has moved nothing for 500 ms",
        arguments: [
            Pressure(isUpload: true, others: 1), Pressure(isUpload: false, others: 1),
            Pressure(isUpload: false, others: 8),
        ])
    func pressure(_ pressure: Pressure) async throws {
        let script = pressure.isUpload ? [.head, .wait(Gate())] : Self.large
        try await GatewaySetup(script, Self.serves).steppedTime().configuration {
            $0.upstreams[0].pool.maxConnections = 1
        }
        .run { gateway async throws in
            let slow = try await RawPeer.connect(
                port: gateway.port, receiveBuffer: 8_192, readSize: pressure.isUpload ? nil : 100,
                allowsHalfClosure: false)
            if pressure.isUpload {
                slow.send(Self.post + "Content-Length: 50000\r\n\r\n" + String(repeating: "a", count: 20_000))
            } else {
                slow.send(Ask.get())
            }
            try await eventually("a lease") { gateway.upstream.requests.count == 1 }
            let end = Gate()
            let others = Task {
                defer { end.open() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<pressure.others {
                        group.addTask {
                            let other = try await gateway.client()
                            while try await other.exchange(Ask.get()).status != 200, !end.isOpen {}
                        }
                    }
                    try await group.waitForAll()
                }
            }
            var time = Duration.zero
            while !end.isOpen, time < .seconds(40) {
                try await gateway.advance(.milliseconds(20))
                time += .milliseconds(20)
            }
            end.open()
            try await others.value
            expect(time >= .milliseconds(500) && time < .seconds(5), "\(time)")
            try await gateway.metric(Self.metric(pressure.isUpload ? "upload" : "download", "pressure"))
            if pressure.isUpload { try await expect(slow.response().status, equals: 408) }
            expect(gateway.upstream.connections[0].isClosed)
        }
    }

    @Test("Rule 62: without a request that waits no client is ended, and neither is one that is served fast enough")
    func spared() async throws {
        try await GatewaySetup([.head, .wait(Gate())], Self.serves).steppedTime().configuration {
            $0.upstreams[0].pool.maxConnections = 2
        }
        .run { gateway in
            let slow = try await gateway.client()
            slow.send(Self.post + "Content-Length: 50000\r\n\r\n" + String(repeating: "a", count: 20_000))
            try await eventually("a lease") { gateway.upstream.requests.count == 1 }
            let other = try await gateway.client()
            for _ in 0..<60 {
                try await expect(other.exchange(Ask.get()).status, equals: 200)
                try await gateway.advance(.milliseconds(200))
            }
            expect(empty: slow.unread)
            expect(gateway.metrics.contains(Self.metric("upload", "pressure", 0)))
        }
    }

    @Test("Rule 62: an address that holds more than its share of the streams makes room, however fast it sends")
    func shareOfStreams() async throws {
        let script: FrameServer.Script = { link, event in
            if case .headers(let id, _, ends: true) = event { link.respond(id) }
        }
        try await FrameServer.run(script: script) { port, server in
            let setup = GatewaySetup().http2 {
                $0.limits.requestBuffer = 0
                $0.limits.pressureRate = 100
            }
            .http2Upstream(port) {
                $0.pool.maxConnections = 1
                $0.pool.streams = 12
                $0.pool.congestedTimeout = .seconds(10)
            }
            try await setup.steppedTime().run { gateway in
                let holder = try await gateway.http2(HTTP2Client.HTTP2ClientOptions(source: "127.0.0.2"))
                let ids = (0..<12).map { UInt32(2 * $0 + 1) }
                for id in ids {
                    holder.send(.headers(id, .post("/public/slow", ("content-length", "100000")), ends: false))
                }
                try await eventually("the requests") { server.requests.count == 12 }
                let other = try await gateway.client(sending: Ask.get())
                var time = Duration.zero
                while other.received == 0, time < .seconds(9) {
                    // 250 bytes a second.
                    for id in ids where !holder.stream(id).isOver {
                        holder.send(.data(id, String(repeating: "a", count: 100)))
                    }
                    try await gateway.advance(.milliseconds(400))
                    time += .milliseconds(400)
                }
                try await expect(other.response().text, equals: "ok")
                expect(time > .seconds(5) && time < .seconds(7), "\(time)")
                expect(ids.count { holder.stream($0).isOver }, equals: 1)
                try await gateway.metric(Self.metric("upload", "pressure"))
            }
        }
    }
}
