import CloakroomCore
import FoundationEssentials
import NIOCore
import TestSupport
import Testing

@Suite("The end of a WebSocket (RFC 6455 §7)", .serialized)
struct WebSocketCloseTests {
    /// Opens a tunnel that belongs to a session.
    private static func open(
        _ setup: GatewaySetup = GatewaySetup(), path: String = "/private/socket", body: (Tunnel) async throws -> Void
    ) async throws {
        try await Tunnel.open(setup, request: Handshake.request(path, Ask.cookie), body: body)
    }

    @Test("An idle tunnel is closed after its own timeout, longer than that for bodies (RFC 6455 §7.1.4)")
    func silence() async throws {
        try await Tunnel.open(
            GatewaySetup().steppedTime(),
            configuration: {
                $0.timeouts.bodyIdle = .seconds(15)
                $0.timeouts.tunnelIdle = .seconds(60)
            }
        ) { tunnel in
            // Data in either direction resets the idle timeout.
            for _ in 0..<3 {
                tunnel.client.send("x")
                try await tunnel.gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            }
            expect(!tunnel.client.isClosed)
            for _ in 0..<3 {
                tunnel.upstream.send("y")
                try await tunnel.gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            }
            expect(!tunnel.client.isClosed)
            try await tunnel.gateway.advance(.milliseconds(200))
            try await tunnel.client.closed()
            try await tunnel.upstream.closed()
        }
    }

    @Test("Rule 28: when its session ends, both sides get Close code 1008 and are closed (RFC 6455 §7.4.1)")
    func signOut() async throws {
        try await Self.open { tunnel in
            tunnel.client.send(Frame.masked("hello"))
            tunnel.upstream.send(Frame.text("hello"))
            _ = try await tunnel.upstream.text(11)
            _ = try await tunnel.client.text(7)
            try await tunnel.gateway.signOut()
            let start = ContinuousClock.now
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_008)
            #expect(ContinuousClock.now - start < .seconds(5))
            try await tunnel.client.closed()
            try await tunnel.upstream.closed()
        }
    }

    @Test("Rule 28: it ends before its next check, which would be a second after it began")
    func signOutAtOnce() async throws {
        var fastest = Duration.seconds(60)
        // A busy machine may delay some of them.
        for _ in 0..<20 where fastest > .milliseconds(600) {
            try await Self.open { tunnel in
                let start = ContinuousClock.now
                try await tunnel.gateway.signOut()
                try await tunnel.client.inputEnded()
                fastest = min(fastest, ContinuousClock.now - start)
            }
        }
        #expect(fastest < .milliseconds(600))
    }

    @Test("Rule 28: a busy tunnel ends with its session too", arguments: [true, false])
    func signOutWhileBusy(isClient: Bool) async throws {
        try await Self.open { tunnel in
            let speaker = Task {
                while !Task.isCancelled {
                    if isClient { tunnel.client.send(Frame.masked("x")) } else { tunnel.upstream.send(Frame.text("x")) }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            defer { speaker.cancel() }
            try await tunnel.gateway.signOut()
            try await eventually("the end of the tunnel") { tunnel.client.hasInputEnded }
            try await tunnel.upstream.closed()
        }
    }

    /// Lets the gateway check its sessions, once a second, until a condition is true.
    /// - Returns: The time that has passed.
    @discardableResult
    private static func check(_ gateway: RunningGateway, until isDone: () -> Bool) async throws -> Duration {
        var time = Duration.zero
        try await eventually(
            "the check of a session",
            isTrue: {
                try await gateway.advance(.seconds(1))
                time += .seconds(1)
                return isDone()
            })
        return time
    }

    @Test("Rule 28: it ends when its session is no longer cached and the store reports the session as ended")
    func signOutElsewhere() async throws {
        let setup = GatewaySetup().steppedTime().configuration { $0.timeouts.tunnelIdle = .seconds(86_400) }
        try await Self.open(setup) { tunnel in
            let sessions = tunnel.gateway.sessions
            // A store outage ends no tunnel.
            sessions.forget(load: .fail)
            try await Self.check(tunnel.gateway, until: { sessions.loads >= 2 })
            expect(!tunnel.client.isClosed)
            sessions.forget(load: .response(.missing(.revoked)))
            try await Self.check(tunnel.gateway, until: { tunnel.client.hasInputEnded })
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_008)
            // The client keeps its side open.
            try await tunnel.gateway.advance(.seconds(2))
            try await tunnel.client.closed()
            try await tunnel.upstream.closed()
        }
    }

    @Test("Rule 28: it ends at the latest end of its session, even during a store outage")
    func sessionEndsWithoutStore() async throws {
        let end = SessionTime(milliseconds: Int64((Date.now.timeIntervalSince1970 + 1_000) * 1_000))
        let setup = GatewaySetup().steppedTime().configuration { $0.timeouts.tunnelIdle = .seconds(86_400) }
        let sessions = setup.sessions
        sessions.add((Ask.ticket, FakeSessions.make(endsAt: end).1))
        try await Self.open(setup) { tunnel in
            sessions.forget(load: .fail)
            let time = try await Self.check(tunnel.gateway, until: { sessions.loads >= 2 })
            expect(!tunnel.client.isClosed)
            // The time of the gateway began when the gateway did: a little later than the test.
            try await tunnel.gateway.advance(Duration.seconds(900) - time)
            expect(!tunnel.client.hasInputEnded)
            try await tunnel.gateway.advance(.seconds(101))
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
        }
    }

    @Test("A side in the middle of a frame is closed without a Close frame, which would be misparsed (RFC 6455 §5.4)")
    func middleOfFrame() async throws {
        try await Self.open { tunnel in
            let handshake = tunnel.upstream.received
            // The frame header declares 2,000 bytes, and five bytes follow.
            tunnel.upstream.send(ByteBuffer(bytes: [0x82, 126, 0x07, 0xd0] + Array("hello".utf8)))
            tunnel.client.send(ByteBuffer(bytes: [0x82, 0x80 | 126, 0x07, 0xd0, 1, 2, 3, 4] + Array("hello".utf8)))
            _ = try await tunnel.client.text(9)
            try await eventually("the client's beginning") { tunnel.upstream.received >= handshake + 13 }
            let before = tunnel.upstream.received
            try await tunnel.gateway.signOut()
            try await expect(tunnel.client.rest().readableBytes, equals: 0)
            try await tunnel.upstream.inputEnded()
            expect(tunnel.upstream.received, equals: before)
        }
    }

    @Test("A tunnel on a route without sessions is independent of sign-outs")
    func withoutSession() async throws {
        try await Self.open(GatewaySetup().steppedTime(), path: "/public/socket") { tunnel in
            try await tunnel.gateway.signOut()
            try await tunnel.gateway.advance(.seconds(5), inStepsOf: .seconds(1))
            tunnel.client.send("still here")
            try await expect(tunnel.upstream.text(10), equals: "still here")
        }
    }

    @Test("At the end of its lifetime, ± 10 %, both sides get Close code 1001 and are closed (RFC 6455 §7.4.1)")
    func lifetime() async throws {
        try await Tunnel.open(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].stream.lifetime = .seconds(100) }
        ) { tunnel in
            try await tunnel.gateway.advance(.milliseconds(89_900), inStepsOf: .seconds(10))
            tunnel.upstream.send(Frame.text("hello"))
            _ = try await tunnel.client.text(7)
            try await tunnel.gateway.advance(.milliseconds(20_200), inStepsOf: .seconds(1))
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_001)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_001)
            try await tunnel.gateway.metric(
                #"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            expect(!tunnel.gateway.metrics.contains("stream_lifetime"), "a planned end is no error")
        }
    }

    @Test(
        "A frame may end after the lifetime; if it lasts for 10 s, there is no Close frame", arguments: [true, false])
    func lifetimeWithinFrame(ends: Bool) async throws {
        try await Tunnel.open(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].stream.lifetime = .seconds(10) }
        ) { tunnel in
            tunnel.upstream.send(ByteBuffer(bytes: [0x82, 10] + Array("hello".utf8)))
            _ = try await tunnel.client.text(7)
            try await tunnel.gateway.advance(.milliseconds(11_100))
            expect(!tunnel.client.hasInputEnded)
            if ends {
                tunnel.upstream.send("world")
                try await expect(tunnel.client.text(5), equals: "world")
                // Without a deadline, at which a busy tunnel could be within the next frame.
                expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_001)
            } else {
                try await tunnel.gateway.advance(.seconds(10))
                try await expect(tunnel.client.rest().readableBytes, equals: 0)
            }
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_001)
        }
    }

    @Test("An idle tunnel is closed after the timeout of its route")
    func ownSilence() async throws {
        try await Tunnel.open(
            GatewaySetup().steppedTime(), configuration: { $0.routes[0].stream.idle = .seconds(600) }
        ) { tunnel in
            try await tunnel.gateway.advance(.milliseconds(599_900), inStepsOf: .seconds(100))
            expect(!tunnel.client.isClosed)
            try await tunnel.gateway.advance(.milliseconds(200))
            try await tunnel.client.closed()
        }
    }

    @Test(
        "Rule 84: a message that is too large ends with Close code 1009 on both sides; its last frame is not forwarded",
        arguments: [true, false])
    func messageTooBig(isClient: Bool) async throws {
        try await Tunnel.open(configuration: { $0.routes[0].stream.message = 10 }) { tunnel in
            let mask: [UInt8] = isClient ? [0, 0, 0, 0] : []
            let bit: UInt8 = isClient ? 0x80 : 0
            let first = [0x01, bit | 6] + mask + Array("abcdef".utf8) + [0x89, bit] + mask
            let frames = ByteBuffer(bytes: first + [0x80, bit | 5] + mask + Array("ghijk".utf8))
            if isClient { tunnel.client.send(frames) } else { tunnel.upstream.send(frames) }
            var toClient = try await tunnel.client.rest()
            var toUpstream = try await tunnel.upstream.rest()
            let forwarded =
                isClient ? toUpstream.readBytes(length: first.count) : toClient.readBytes(length: first.count)
            expect(forwarded, equals: first)
            expect(Frame.closeCode(toClient), equals: 1_009)
            expect(Frame.maskedCloseCode(toUpstream), equals: 1_009)
        }
    }

    @Test("What a client sent before its session ended is delivered, also if the upstream reads it late")
    func pendingData() async throws {
        try await RawServer.run { port, server in
            var delivered = 0
            let setup = GatewaySetup().with(\.upstreamPort, port).configuration { $0.routes[2].allowsWebSocket = true }
            let (lines, _) = try await setup.logged { gateway in
                let client = try await RawPeer.connect(port: gateway.port)
                client.send(Handshake.request("/private/socket", Ask.cookie))
                let upstream = try await server.requested()
                upstream.send(Handshake.consent)
                _ = try await client.head()
                let before = upstream.received
                try await upstream.setReading(false)
                let up = Task { try await client.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
                try await eventually("the first megabyte") { client.sent > 0 }
                _ = try await waitUntilStable { client.sent }
                try await gateway.signOut()
                try await client.inputEnded()
                try await upstream.setReading(true)
                try await upstream.inputEnded()
                delivered = upstream.received - before
                try? await client.close()
                _ = try? await up.value
            }
            let forwarded = try require(lines.first?["bytes_in"].flatMap { Int($0) })
            // Between two frames a Close frame follows.
            expect([0, 8].contains(delivered - forwarded))
        }
    }

    @Test("A drain sends Close code 1001 to both sides at once, and does not wait (RFC 6455 §7.4.1)")
    func drain() async throws {
        try await Tunnel.open { tunnel in
            tunnel.client.send(Frame.masked("hello"))
            _ = try await tunnel.upstream.text(11)
            await tunnel.gateway.beginDrain()
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_001)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_001)
            try await tunnel.client.closed()
            try await tunnel.upstream.closed()
            try await tunnel.gateway.stopped()
        }
    }

    @Test("A tunnel whose handshake completes during a drain is established and then closed (RFC 6455 §7.4.1)")
    func drainInHandshake() async throws {
        try await Tunnel.gateway(configuration: { $0.timeouts.drain = .seconds(20) }) { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Handshake.request())
            let upstream = try await server.requested()
            let idle = try await gateway.client()
            try await expect(idle.exchange(Ask.get("/nowhere")).status, equals: 404)
            await gateway.beginDrain()
            try await idle.closed()
            upstream.send(Handshake.consent)
            _ = try await client.head()
            let start = ContinuousClock.now
            try await client.inputEnded()
            #expect(ContinuousClock.now - start < .seconds(10))
            try await gateway.stopped()
        }
    }

    @Test("An upstream connection reset closes the client's connection (RFC 6455 §7.1.7)")
    func upstreamDies() async throws {
        try await Tunnel.open { tunnel in
            tunnel.upstream.send("half a frame")
            _ = try await tunnel.client.text(12)
            try await tunnel.upstream.reset()
            try await tunnel.client.closed()
        }
    }

    @Test("An upstream that closes its connection closes the client's connection too (RFC 6455 §7.1.1)")
    func upstreamCloses() async throws {
        try await Tunnel.open { tunnel in
            try await tunnel.upstream.close()
            try await tunnel.client.inputEnded()
            // Later data of the client is not delivered, and the client's connection is closed.
            let speaker = Task {
                while !tunnel.client.isClosed {
                    tunnel.client.send("anybody?")
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            try await tunnel.client.closed()
            try await speaker.value
        }
    }

    @Test("A client connection reset closes the upstream connection at once (RFC 6455 §7.1.7)")
    func clientResets() async throws {
        try await Tunnel.open { tunnel in
            tunnel.client.send("half a frame")
            _ = try await tunnel.upstream.text(12)
            try await tunnel.client.reset()
            try await tunnel.upstream.closed()
            try await tunnel.gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 0")
        }
    }

    @Test("A client that disconnects before the upstream's 101 cancels the request (RFC 6455 §4.1)")
    func clientGoesEarly() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Handshake.request())
            let upstream = try await server.requested()
            try await client.close()
            try await upstream.closed()
        }
    }

    @Test(
        "An event stream in response to a handshake is treated as an event stream, and aborted as such (RFC 6455 §4.2.2)"
    )
    func eventStreamInstead() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request("/private/socket", Ask.cookie))
            let upstream = try await server.requested()
            upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            try await expect(client.head().hasPrefix("HTTP/1.1 200"))
            try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
            try await gateway.signOut()
            try await expect(client.rest().readableBytes, equals: 0)
            try await upstream.closed()
        }
    }
}
