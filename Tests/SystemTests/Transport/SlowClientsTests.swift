import NIOCore
import TestSupport
import Testing

/// Slow clients against the built program, with a `timeouts.bodyIdle` for each test and otherwise the default limits.
@Suite("Slow clients and the built program", .serialized, .timeLimit(.minutes(3)))
struct SlowClientsTests {
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    private static let post = "POST /upload HTTP/1.1\r\nHost: localhost\r\n"
    private static let get = "GET /episodes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    /// Larger than the send buffer of a socket.
    private static let large =
        "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n" + String(repeating: "a", count: 16_777_216)

    private func serving(
        _ response: String, bodyIdle seconds: Int,
        _ body: (_ gateway: GatewayProcess, _ server: ScriptedServer) async throws -> Void
    ) async throws {
        try await ScriptedServer.run([.bytes(response)]) { port, server in
            var file = GatewayYAML(upstream: "http://127.0.0.1:\(port)")
            file.hasClearHTTP2 = true
            file.hasUpload = true
            let settings = ["timeouts.bodyIdle=\(seconds)s", "upstreams.api.pool.maxConnections=8"]
            try await GatewayProcess.running(file, set: settings) { gateway in
                try await body(gateway, server)
            }
        }
    }

    private func client(_ gateway: GatewayProcess, receiveBuffer: Int? = nil, readSize: Int? = nil) async throws
        -> RawPeer
    {
        try await RawPeer.connect(
            port: gateway.clear.port, receiveBuffer: receiveBuffer, readSize: readSize, allowsHalfClosure: false)
    }

    private func status(_ client: RawPeer) async throws -> String {
        String(try await client.head().dropFirst(9).prefix(3))
    }

    @Test("Rules 59 and 60: 200 bodies at 1 B/s leave 8 connections to others, and end with 408")
    func slowBodies() async throws {
        try await serving(Self.ok, bodyIdle: 10) { gateway, server in
            var slow: [RawPeer] = []
            for _ in 0..<200 {
                let client = try await client(gateway)
                client.send(Self.post + "Content-Length: 1000\r\n\r\n")
                slow.append(client)
            }
            let start = ContinuousClock.now
            let other = try await client(gateway)
            while .now - start < .seconds(7) {
                for client in slow { client.send("a") }
                for _ in 0..<10 {
                    other.send(Self.get)
                    let asked = ContinuousClock.now
                    #expect(try await status(other) == "200")
                    // A request that waits for a slow body waits until that ends.
                    #expect(.now - asked < .seconds(4))
                    _ = try await other.text(2)
                    try await Task.sleep(for: .milliseconds(100))
                }
            }
            #expect(server.connectionCount <= 2)
            for client in slow { #expect(try await status(client) == "408") }
            // Without a limit of the rate they would end 10 s after their last byte.
            #expect(.now - start < .seconds(15))
            #expect(server.requests.allSatisfy { $0.hasPrefix("GET ") })
        }
    }

    @Test("Rule 60: a body at 1 KB/s with pauses of 4.5 s passes, one with a byte every 4.5 s ends after 10 s")
    func pauses() async throws {
        try await serving(Self.ok, bodyIdle: 10) { gateway, _ in
            let steady = try await client(gateway)
            let trickle = try await client(gateway)
            let large = try await client(gateway)
            steady.send(Self.post + "Content-Length: 13500\r\n\r\n")
            trickle.send(Self.post + "Content-Length: 1000\r\n\r\n")
            // It is forwarded, and trickles from then on.
            large.send(Self.post + "Content-Length: 30000\r\n\r\n" + String(repeating: "a", count: 20_000))
            for _ in 0..<3 {
                try await Task.sleep(for: .seconds(4))
                trickle.send("a")
                large.send("a")
                try await Task.sleep(for: .milliseconds(500))
                steady.send(String(repeating: "a", count: 4_500))
            }
            #expect(try await status(steady) == "200")
            #expect(try await status(trickle) == "408")
            #expect(try await status(large) == "408")
        }
    }

    @Test("Rule 61: a reader at 100 B/s is cut, one at 1 KB/s is not")
    func readers() async throws {
        try await serving(Self.large, bodyIdle: 6) { gateway, _ in
            let slow = try await client(gateway, receiveBuffer: 1_024, readSize: 25)
            let steady = try await client(gateway, receiveBuffer: 1_024, readSize: 250)
            slow.send(Self.get)
            steady.send(Self.get)
            let admin = WebClient(gateway.admin)
            let counter = "cloakroom_slow_clients_total{cause=\"rate\",direction=\"download\"}"
            func cutCount() async throws -> Substring? {
                try await admin.get("/metrics").body.split(separator: "\n").first { $0.hasPrefix(counter) }?
                    .split(separator: " ").last
            }
            // At least 12 s, and until the slow one is cut.
            for round in 1...200 {
                slow.read()
                steady.read()
                try await Task.sleep(for: .milliseconds(250))
                if round >= 48, round % 8 == 0, try await cutCount() != "0" { break }
            }
            #expect(try await cutCount() == "1")
            #expect(!steady.isClosed)
            #expect(steady.received > 9_000)
        }
    }

    @Test("Rule 61: eight downloads on one connection with 1-byte window updates end, and others are served")
    func tinyWindows() async throws {
        try await serving(Self.large, bodyIdle: 3) { gateway, _ in
            // The initial window of streams is 0.
            let client = try await RawHTTP2Client.connect(port: gateway.clear.port, settings: [(4, 0)])
            let ids = stride(from: UInt32(1), to: 17, by: 2)
            for id in ids { client.send(RawHTTP2Client.request(id, "/episodes")) }
            let start = ContinuousClock.now
            while client.endedCount < 8, !client.isClosed, .now - start < .seconds(40) {
                for id in ids { client.send(RawHTTP2Client.frame(8, stream: id, [0, 0, 0, 1])) }
                try await Task.sleep(for: .milliseconds(200))
                try await client.update()
            }
            let time = ContinuousClock.now - start
            // At this rate they would last for months.
            #expect(client.isClosed || client.endedCount == 8, "\(time)")
            let other = try await self.client(gateway)
            other.send(Self.get)
            #expect(try await status(other) == "200")
        }
    }
}
