import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Interim answers to a client that does not read (RFC 9110 §15.2)", .serialized)
struct UnreadInterimTests {
    private static let size = 8_192
    private static let total = 24 << 20
    /// What the sockets' buffers on the way may hold; the gateway's own are small beside it.
    private static let bound = 12 << 20

    /// A megabyte of hints, each too large for a table of HTTP/2.
    private static let hints: ByteBuffer = {
        let head = "HTTP/1.1 103 Early Hints\r\nLink: <"
        let hint = head + String(repeating: "a", count: size - head.utf8.count - 5) + ">\r\n\r\n"
        return ByteBuffer(string: String(repeating: hint, count: (1 << 20) / size))
    }()

    private static let setup = GatewaySetup([
        .request, .stream(hints, times: total >> 20), .send(Reply.ok), .again,
    ])

    @Test("They are dropped, and do not pile up; the answer comes")
    func http1() async throws {
        try await Self.setup.run { gateway in
            let client = try await gateway.client(receiveBuffer: 65_536)
            try await client.setReading(false)
            client.send(Ask.get())
            try await eventually("the last hint") { gateway.upstream.connections.first?.sent ?? 0 >= Self.total }
            try await client.setReading(true)
            try await eventually("the answer") { client.unread.hasSuffix("\r\n\r\nok") }
            #expect(client.received > Self.size)
            #expect(client.received < Self.bound)
        }
    }

    @Test("In HTTP/2 they are dropped as well, and do not pile up; the answer comes")
    func http2() async throws {
        try await Self.setup.http2().run { gateway in
            let client = try await gateway.http2(.init(receiveBuffer: 65_536, reads: false))
            client.send(.headers(1, .get()))
            try await eventually("the last hint") { gateway.upstream.connections.first?.sent ?? 0 >= Self.total }
            try await client.channel.setOption(.autoRead, value: true).get()
            let response = try await client.response(1)
            #expect(response.text == "ok")
            #expect(!response.interim.isEmpty)
            #expect(response.interim.count * Self.size < Self.bound)
        }
    }
}
