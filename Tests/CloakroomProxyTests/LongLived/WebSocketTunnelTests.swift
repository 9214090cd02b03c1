import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Bytes through a WebSocket (RFC 6455 §4)", .serialized)
struct WebSocketTunnelTests {
    @Test("Arbitrary bytes are forwarded in both directions as they arrive (RFC 6455 §5)")
    func bothWays() async throws {
        try await Tunnel.open { tunnel in
            for round in 0..<20 {
                tunnel.client.send("question \(round % 10)\r\n\r\n")
                let question = try await tunnel.upstream.text(14)
                #expect(question == "question \(round % 10)\r\n\r\n")
                tunnel.upstream.send("HTTP/1.1 \(round % 10)")
                #expect(try await tunnel.client.text(10) == "HTTP/1.1 \(round % 10)")
            }
            // Neither direction waits for the other.
            for _ in 0..<3 { tunnel.upstream.send("news") }
            #expect(try await tunnel.client.text(12) == "newsnewsnews")
        }
    }

    @Test("Both directions at once arrive byte for byte (RFC 6455 §5)")
    func atOnce() async throws {
        try await Tunnel.open { tunnel in
            let up = Task { try await tunnel.client.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            let down = Task { try await tunnel.upstream.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            try await up.value
            try await down.value
            try await tunnel.client.endOutput()
            #expect(LargeBody.isWhole(try await tunnel.upstream.rest()))
            try await tunnel.upstream.endOutput()
            #expect(LargeBody.isWhole(try await tunnel.client.rest()))
        }
    }

    @Test("A client that does not read stops the upstream; afterwards everything arrives, byte for byte (RFC 6455 §4)")
    func slowClient() async throws {
        try await Tunnel.open(receiveBuffer: 65_536) { tunnel in
            try await tunnel.client.setReading(false)
            let down = Task { try await tunnel.upstream.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            try await eventually("the first megabyte") { tunnel.upstream.sent > 0 }
            let sent = try await waitUntilStable { tunnel.upstream.sent }
            #expect(sent < LargeBody.bound)
            // The other direction does not wait.
            tunnel.client.send("hello")
            #expect(try await tunnel.upstream.text(5) == "hello")
            try await tunnel.client.setReading(true)
            try await down.value
            try await tunnel.upstream.endOutput()
            #expect(LargeBody.isWhole(try await tunnel.client.rest()))
        }
    }

    @Test("An upstream that does not read stops the client; afterwards everything arrives, byte for byte (RFC 6455 §4)")
    func slowUpstream() async throws {
        try await Tunnel.open { tunnel in
            try await tunnel.upstream.setReading(false)
            let up = Task { try await tunnel.client.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            try await eventually("the first megabyte") { tunnel.client.sent > 0 }
            let sent = try await waitUntilStable { tunnel.client.sent }
            #expect(sent < LargeBody.bound)
            tunnel.upstream.send("hello")
            #expect(try await tunnel.client.text(5) == "hello")
            try await tunnel.upstream.setReading(true)
            try await up.value
            try await tunnel.client.endOutput()
            #expect(LargeBody.isWhole(try await tunnel.upstream.rest()))
        }
    }

    @Test("A client that half-closes still receives (RFC 6455 §4; RFC 9293 §3.6)")
    func clientHalfCloses() async throws {
        try await Tunnel.open { tunnel in
            tunnel.client.send("last")
            try await tunnel.client.endOutput()
            #expect(try await tunnel.upstream.rest() == ByteBuffer(string: "last"))
            #expect(!tunnel.upstream.isClosed)
            tunnel.upstream.send("answer")
            #expect(try await tunnel.client.text(6) == "answer")
            #expect(!tunnel.client.hasInputEnded)
            try await tunnel.upstream.close()
            try await tunnel.client.closed()
        }
    }

    @Test("An upstream that half-closes still receives (RFC 6455 §4; RFC 9293 §3.6)")
    func upstreamHalfCloses() async throws {
        try await Tunnel.open { tunnel in
            tunnel.upstream.send("last")
            try await tunnel.upstream.endOutput()
            #expect(try await tunnel.client.rest() == ByteBuffer(string: "last"))
            #expect(!tunnel.client.isClosed)
            tunnel.client.send("answer")
            #expect(try await tunnel.upstream.text(6) == "answer")
            #expect(!tunnel.upstream.hasInputEnded)
            try await tunnel.client.endOutput()
            try await tunnel.upstream.closed()
            try await tunnel.client.closed()
        }
    }

    @Test("After both sides half-closed a slow client still receives all data (RFC 9293 §3.6)")
    func endedWhileClientIsSlow() async throws {
        try await Tunnel.open(receiveBuffer: 65_536) { tunnel in
            try await tunnel.client.setReading(false)
            try await tunnel.client.endOutput()
            let down = Task {
                try await tunnel.upstream.stream(LargeBody.megabyte, times: LargeBody.total >> 20)
                try await tunnel.upstream.endOutput()
            }
            _ = try await waitUntilStable { tunnel.upstream.sent }
            try await tunnel.client.setReading(true)
            try await down.value
            #expect(LargeBody.isWhole(try await tunnel.client.rest()))
            try await tunnel.upstream.closed()
        }
    }

    @Test("After both sides half-closed a slow upstream still receives all data (RFC 9293 §3.6)")
    func endedWhileUpstreamIsSlow() async throws {
        try await Tunnel.open { tunnel in
            try await tunnel.upstream.setReading(false)
            try await tunnel.upstream.endOutput()
            try await tunnel.client.inputEnded()
            let up = Task {
                try await tunnel.client.stream(LargeBody.megabyte, times: LargeBody.total >> 20)
                try await tunnel.client.endOutput()
            }
            _ = try await waitUntilStable { tunnel.client.sent }
            try await tunnel.upstream.setReading(true)
            try await up.value
            #expect(LargeBody.isWhole(try await tunnel.upstream.rest()))
            try await tunnel.client.closed()
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
            #expect(try await up.value)
            #expect(try await tunnel.upstream.rest() == ByteBuffer(repeating: 7, count: count))
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
                #expect(String(buffer: try await upstream.rest()) == "first words, last words")
                #expect(String(buffer: try await client.rest()).hasSuffix("\r\n\r\nlast words"))
            }
            try await gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 0")
        }
    }
}
