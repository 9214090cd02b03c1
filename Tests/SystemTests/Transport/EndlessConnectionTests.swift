import NIOCore
import TestSupport
import Testing

/// Connections that send for ever, against the built program.
@Suite("Memory of an endless connection", .serialized, .timeLimit(.minutes(3)))
struct EndlessConnectionTests {
    /// The program's growth while one client sends requests, each read of which ends within a head.
    private func growth(of request: String, offset: Int, times: Int) async throws -> Int {
        let file = GatewayYAML(upstream: "http://127.0.0.1:\(try await ScriptedServer.rejectingPort())")
        return try await GatewayProcess.running(file) { gateway in
            let client = try await RawPeer.connect(port: gateway.clear.port, allowsHalfClosure: false)
            let bytes = Array(request.utf8)
            let one = ByteBuffer(bytes: bytes[offset...] + bytes[..<offset])
            client.send(ByteBuffer(bytes: bytes[..<offset]))
            // The size of the heap after the first requests.
            try await client.stream(one, times: times / 10)
            try await eventually("the responses") { client.received >= times / 10 * 100 }
            let before = try gateway.program.residentBytes
            try await client.stream(one, times: times)
            // Each response has more than 100 bytes.
            try await eventually("the responses") { client.received >= (times + times / 10) * 100 }
            let growth = try gateway.program.residentBytes - before
            #expect(!client.isClosed)
            #expect(try await gateway.client.get("/nowhere").status == 404)
            try await client.close()
            return growth
        }
    }

    @Test(
        "Rule 77: 32 MB of heads on one connection, all reads of which end within a head, add less than 8 MB",
        arguments: [1, 60, 4_000, 8_099])
    func heads(offset: Int) async throws {
        let start = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: "
        let request = start + String(repeating: "a", count: 8_100 - start.utf8.count - 4) + "\r\n\r\n"
        let growth = try await growth(of: request, offset: offset, times: 4_000)
        #expect(growth < 8 << 20, "\(growth >> 10) KiB")
    }
}
