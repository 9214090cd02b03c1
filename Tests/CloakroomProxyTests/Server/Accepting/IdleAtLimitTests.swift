import CloakroomCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("Idle connections at the connection limit", .serialized, .timeLimit(.minutes(1)))
struct IdleAtLimitTests {
    private static func setup(_ limit: Int, _ script: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again])
        -> GatewaySetup
    {
        GatewaySetup(script).configuration { $0.limits.connections = limit }.steppedTime()
    }

    @Test(
        "Rule 81: at the limit the connection that is idle for the longest time is closed, and a new client is served")
    func keptAlive() async throws {
        try await Self.setup(4).run { gateway in
            var clients: [RawPeer] = []
            for _ in 0..<4 {
                let client = try await gateway.client()
                try await expect(client.exchange(Ask.get()).text, equals: "ok")
                clients.append(client)
                try await gateway.advance(.milliseconds(100))
            }
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(2_000))
            expect(new.received, equals: 0)
            expect(clients.allSatisfy { !$0.isClosed })
            try await gateway.advance(.milliseconds(650))
            try await expect(new.response().text, equals: "ok")
            expect(clients.map(\.isClosed), equals: [true, false, false, false])
            try await gateway.metric("cloakroom_rejections_total{reason=\"idle_at_limit\"} 1")
            try await expect(clients[3].exchange(Ask.get()).text, equals: "ok")
        }
    }

    @Test("Rule 81: at the limit idle connections are kept while no other client waits, and one is closed for each")
    func nobodyWaits() async throws {
        try await Self.setup(64).run { gateway in
            var clients: [RawPeer] = []
            for _ in 0..<64 { clients.append(try await gateway.client()) }
            for client in clients { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
            try await gateway.advance(.seconds(30), inStepsOf: .seconds(1))
            expect(clients.allSatisfy { !$0.isClosed })
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(100))
            try await expect(new.response().text, equals: "ok")
            expect(clients.count { $0.isClosed }, equals: 1)
        }
    }

    @Test(
        "Rule 81: connections that have sent no complete head for 3 s count as idle",
        arguments: ["", "G", "GET /public/a HTTP/1.1\r\nHost: a", "PRI * HTTP/2.0\r\n"], [false, true])
    func incompleteHead(bytes: String, allowsHTTP2: Bool) async throws {
        let setup = Self.setup(4).configuration { $0.listeners[0].http2 = allowsHTTP2 }
        try await setup.run { gateway in
            var clients: [RawPeer] = []
            for _ in 0..<4 {
                let client = try await gateway.client(sending: bytes)
                clients.append(client)
            }
            try await gateway.advance(.milliseconds(100))
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(3_100))
            try await expect(new.response().text, equals: "ok")
        }
    }

    @Test(
        "Rule 81: a head that begins after a long silence counts from its first byte", arguments: ["http/1.1", "h2"])
    func headAfterSilence(version: String) async throws {
        try await Self.setup(2).http2 { $0.limits.connections = 2 }.run { gateway in
            let isClosed: () -> Bool
            if version == "h2" {
                let client = try await gateway.http2()
                try await client.settle()
                try await gateway.advance(.seconds(55), inStepsOf: .seconds(5))
                client.send(.headers(1, block: [0x82], isWhole: false))
                isClosed = { client.isClosed }
            } else {
                let client = try await gateway.client()
                try await expect(client.exchange(Ask.get()).text, equals: "ok")
                try await gateway.advance(.seconds(55), inStepsOf: .seconds(5))
                client.send("GET /public/a HTTP/1.1\r\nHost: a")
                isClosed = { client.isClosed }
            }
            let second = try await gateway.client()
            // On a busy machine the last one to connect may be accepted first.
            await gateway.settle()
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(2_900))
            expect(!isClosed())
            expect(!second.isClosed)
            expect(new.received, equals: 0)
            try await gateway.advance(.milliseconds(200))
            try await expect(new.response().text, equals: "ok")
        }
    }

    @Test(
        "Rule 81: handshakes and PROXY headers that are not complete after 3 s count as idle", arguments: [true, false])
    func unfinishedSetup(isTLS: Bool) async throws {
        let directory = try CertificateFixture()
        let pair = try directory.server("server", names: ["localhost"])
        let setup = Self.setup(2).configuration {
            if isTLS {
                $0.listeners[0].tls = pair.listener
            } else {
                $0.listeners[0].proxyProtocolSources = [CIDRBlock("127.0.0.1")].compactMap(\.self)
            }
        }
        try await setup.run { gateway in
            let clients = [try await gateway.client(), try await gateway.client()]
            // On a busy machine the last one to connect may be accepted first.
            await gateway.settle()
            let new = try await gateway.client()
            try await gateway.advance(.milliseconds(2_900))
            expect(clients.allSatisfy { !$0.isClosed })
            try await gateway.advance(.milliseconds(200))
            try await eventually("room") { clients.contains { $0.isClosed } }
            try? await new.close()
        }
    }

    @Test("Rule 81: connections with a request in progress are kept, and a new client waits until one has ended")
    func active() async throws {
        let gate = Gate()
        try await Self.setup(2, [.request, .wait(gate), .send(Reply.ok), .again]).run { gateway in
            let clients = [try await gateway.client(), try await gateway.client()]
            for client in clients { client.send(Ask.get()) }
            try await eventually("both requests") { gateway.upstream.requests.count == 2 }
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.seconds(10), inStepsOf: .seconds(1))
            expect(new.received, equals: 0)
            expect(clients.allSatisfy { !$0.isClosed })
            gate.open()
            for client in clients { try await expect(client.response().text, equals: "ok") }
            try await gateway.advance(.milliseconds(3_100))
            try await expect(new.response().text, equals: "ok")
        }
    }

    @Test("Rule 81: a connection whose client still receives its last response is kept")
    func receiving() async throws {
        let size = 200_000
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n" + String(repeating: "x", count: size)
        let setup = Self.setup(1, [.request, .send(reply), .again])
        try await setup.run { gateway in
            let client = try await RawPeer.connect(port: gateway.port, receiveBuffer: 4_096, readSize: 1_024)
            client.send(Ask.get())
            try await eventually("the request") { gateway.upstream.requests.count == 1 }
            try await gateway.advance(.seconds(6), inStepsOf: .seconds(1))
            expect(!gateway.metrics.contains("idle_at_limit"))
        }
    }

    @Test("Rule 81: clients that do not acknowledge their last response do not keep the others from being closed")
    func stalled() async throws {
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 32000\r\n\r\n" + String(repeating: "x", count: 32_000)
        try await Self.setup(32, [.request, .send(reply), .again]).run { gateway in
            var stalled: [RawPeer] = []
            for _ in 0..<8 {
                stalled.append(try await RawPeer.connect(port: gateway.port, receiveBuffer: 4_096, readSize: 1_024))
            }
            for client in stalled { client.send(Ask.get()) }
            try await eventually("the requests") { gateway.upstream.requests.count == 8 }
            try await gateway.advance(.milliseconds(100))
            var others: [RawPeer] = []
            for _ in 0..<24 { others.append(try await gateway.client()) }
            await gateway.settle()
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(3_100))
            try await eventually("the response") { new.received > 0 }
            expect(stalled.allSatisfy { !$0.isClosed })
            expect(others.count { $0.isClosed }, equals: 1)
        }
    }

    @Test("Rule 81: an HTTP/2 connection that always has part of a PING frame is idle")
    func partialPing() async throws {
        try await Self.setup(2).http2 { $0.limits.connections = 2 }.run { gateway in
            let client = try await gateway.http2()
            try await client.settle()
            let second = try await gateway.client()
            try await expect(second.exchange(Ask.get()).text, equals: "ok")
            let ping: [UInt8] = [0, 0, 8, 6, 0, 0, 0, 0, 0] + [UInt8](repeating: 7, count: 8)
            client.send(bytes: Array(ping.prefix(1)))
            for _ in 0..<2 {
                try await gateway.advance(.milliseconds(1_400))
                client.send(bytes: Array(ping.dropFirst()))
                client.send(bytes: Array(ping.prefix(1)))
                // The second client is not idle.
                try await expect(second.exchange(Ask.get()).text, equals: "ok")
            }
            let new = try await gateway.client(sending: Ask.get())
            try await gateway.advance(.milliseconds(400))
            try await eventually("the end") { client.isClosed }
            try await expect(new.response().text, equals: "ok")
        }
    }

    @Test("Rule 81: an idle HTTP/2 connection that is closed gets GOAWAY, one with an open stream is kept")
    func http2() async throws {
        let gate = Gate()
        let script: [ScriptedUpstream.Step] = [.request, .wait(gate), .send(Reply.ok), .again]
        try await Self.setup(2, script).http2 { $0.limits.connections = 2 }.run { gateway in
            let busy = try await gateway.http2()
            busy.send(.headers(1, .get()))
            try await eventually("the request") { gateway.upstream.requests.count == 1 }
            let idle = try await gateway.http2()
            try await idle.settle()
            let new = try await gateway.client()
            try await gateway.advance(.milliseconds(3_100))
            try await eventually("the end") { idle.isClosed }
            expect(idle.goAways.map(\.code), equals: [.noError])
            expect(empty: busy.goAways)
            gate.open()
            try await expect(new.exchange(Ask.get()).text, equals: "ok")
            try await expect(busy.response(1).text, equals: "ok")
        }
    }

    @Test("Rule 81: connections of the address that holds most are closed before one that is idle for a longer time")
    func addresses() async throws {
        let setup = Self.setup(4).configuration {
            $0.listeners[0].proxyProtocolSources = [CIDRBlock("127.0.0.1")].compactMap(\.self)
        }
        func header(_ address: String) -> String { "PROXY TCP4 \(address) 198.51.100.2 56211 443\r\n" }
        try await setup.run { gateway in
            var clients: [RawPeer] = []
            for address in ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"] {
                let client = try await gateway.client()
                try await expect(client.exchange(header(address) + Ask.get()).text, equals: "ok")
                clients.append(client)
                try await gateway.advance(.milliseconds(100))
            }
            let new = try await gateway.client()
            try await gateway.advance(.milliseconds(2_750))
            expect(clients.map(\.isClosed), equals: [false, true, false, false])
            try await expect(new.exchange(header("192.0.2.3") + Ask.get()).text, equals: "ok")
        }
    }
}
