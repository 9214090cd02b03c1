import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Interim responses to a client that does not read (RFC 9110 §15.2)", .serialized)
struct UnreadInterimTests {
    private static let size = 8_192
    private static let total = 24 << 20
    /// The capacity of the socket buffers on the path; the gateway's own buffers are small in comparison.
    private static let bound = 12 << 20

    /// Hints of 1 MB in total, each too large for the dynamic table of HTTP/2.
    private static let hints: ByteBuffer = {
        let head = "HTTP/1.1 103 Early Hints\r\nLink: <"
        let hint = head + String(repeating: "a", count: size - head.utf8.count - 5) + ">\r\n\r\n"
        return ByteBuffer(string: String(repeating: hint, count: (1 << 20) / size))
    }()

    private static let setup = GatewaySetup([
        .request, .stream(hints, times: total >> 20), .send(Reply.ok), .again,
    ])

    @Test("They are dropped and do not accumulate; the final response arrives")
    func http1() async throws {
        try await Self.setup.run { gateway in
            let client = try await gateway.client(receiveBuffer: 65_536)
            try await client.setReading(false)
            client.send(Ask.get())
            try await eventually("the last hint") { gateway.upstream.connections.first?.sent ?? 0 >= Self.total }
            try await client.setReading(true)
            try await eventually("the response") { client.unread.hasSuffix("\r\n\r\nok") }
            #expect(client.received > Self.size)
            #expect(client.received < Self.bound)
        }
    }

    @Test("In HTTP/2 they are dropped too and do not accumulate; the final response arrives")
    func http2() async throws {
        try await Self.setup.runHTTP2(.init(receiveBuffer: 65_536, reads: false)) { gateway, client in
            client.send(.headers(1, .get()))
            try await eventually("the last hint") { gateway.upstream.connections.first?.sent ?? 0 >= Self.total }
            try await client.channel.setOption(.autoRead, value: true).get()
            let response = try await client.response(1)
            expect(response.text, equals: "ok")
            expect(!response.interim.isEmpty)
            #expect(response.interim.count * Self.size < Self.bound)
        }
    }
}
