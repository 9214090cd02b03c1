import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Bytes through a WebSocket (RFC 6455 §4)", .serialized)
struct WebSocketTunnelTests {
    @Test("Both directions at once arrive byte for byte (RFC 6455 §5)")
    func atOnce() async throws {
        try await Tunnel.open { tunnel in
            let up = Task { try await tunnel.client.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            let down = Task { try await tunnel.upstream.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            try await up.value
            try await down.value
            try await tunnel.client.endOutput()
            expect(LargeBody.isWhole(try await tunnel.upstream.rest()))
            try await tunnel.upstream.endOutput()
            expect(LargeBody.isWhole(try await tunnel.client.rest()))
        }
    }

    @Test(
        "A side that does not read stops the other one; afterwards everything arrives, byte for byte (RFC 6455 §4)",
        arguments: [true, false])
    func slowSide(isClient: Bool) async throws {
        try await Tunnel.open(receiveBuffer: isClient ? 65_536 : nil) { tunnel in
            let (slow, other) = tunnel.sides(isClient)
            try await slow.setReading(false)
            let sending = Task { try await other.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            try await eventually("the first megabyte") { other.sent > 0 }
            let sent = try await waitUntilStable { other.sent }
            #expect(sent < LargeBody.bound)
            // The other direction does not wait.
            slow.send("hello")
            try await expect(other.text(5), equals: "hello")
            try await slow.setReading(true)
            try await sending.value
            try await other.endOutput()
            expect(LargeBody.isWhole(try await slow.rest()))
        }
    }

    @Test("A side that half-closes still receives (RFC 6455 §4; RFC 9293 §3.6)", arguments: [true, false])
    func halfClose(isClient: Bool) async throws {
        try await Tunnel.open { tunnel in
            let (first, second) = tunnel.sides(isClient)
            first.send("last")
            try await first.endOutput()
            try await expect(second.rest(), equals: ByteBuffer(string: "last"))
            expect(!second.isClosed)
            second.send("answer")
            try await expect(first.text(6), equals: "answer")
            expect(!first.hasInputEnded)
            if isClient { try await second.close() } else { try await second.endOutput() }
            try await second.closed()
            try await first.closed()
        }
    }

    @Test("After both sides half-closed a slow one still receives all data (RFC 9293 §3.6)", arguments: [true, false])
    func endedWhileSlow(isClient: Bool) async throws {
        try await Tunnel.open(receiveBuffer: isClient ? 65_536 : nil) { tunnel in
            let (slow, other) = tunnel.sides(isClient)
            try await slow.setReading(false)
            try await slow.endOutput()
            try await other.inputEnded()
            let sending = Task {
                try await other.stream(LargeBody.megabyte, times: LargeBody.total >> 20)
                try await other.endOutput()
            }
            _ = try await waitUntilStable { other.sent }
            try await slow.setReading(true)
            try await sending.value
            expect(LargeBody.isWhole(try await slow.rest()))
            try await other.closed()
        }
    }

    @Test(
        "What a client sent before both sides have ended arrives, however much of it is between the buffers",
        arguments: [4, 8, 10, 12, 14, 16, 24, 32, 64])
    func endedWithFullBuffers(quarters: Int) async throws {
        let count = quarters << 18
        try await Tunnel.open { tunnel in
            try await tunnel.upstream.setReading(false)
            try await tunnel.upstream.endOutput()
            try await tunnel.client.inputEnded()
            let up = Task {
                try await tunnel.client.stream(ByteBuffer(repeating: 7, count: 1 << 18), times: quarters)
                try await tunnel.client.endOutput()
                return true
            }
            // Most sizes fit into the buffers of the system: then the client's end arrives while the gateway does not read.
            _ = try? await eventually("all is sent", within: .milliseconds(300)) { tunnel.client.sent == count }
            try await tunnel.upstream.setReading(true)
            try await expect(up.value)
            try await expect(tunnel.upstream.rest(), equals: ByteBuffer(repeating: 7, count: count))
            try await tunnel.client.closed()
        }
    }

    @Test("Many short tunnels that end with data in both directions lose nothing")
    func manyShortOnes() async throws {
        try await Tunnel.gateway { gateway, server in
            for round in 0..<50 {
                let client = try await RawPeer.connect(port: gateway.port, sending: Handshake.request() + "first words")
                let upstream = try await server.requested(round)
                upstream.send(Handshake.consent + "last words")
                try await upstream.endOutput()
                client.send(", last words")
                try await client.endOutput()
                expect(String(buffer: try await upstream.rest()), equals: "first words, last words")
                expect(String(buffer: try await client.rest()).hasSuffix("\r\n\r\nlast words"))
            }
            try await gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 0")
        }
    }
}
