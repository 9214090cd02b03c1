import CloakroomCore
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@Suite("The size of the HPACK table for responses (RFC 7541 §4.2)", .serialized)
struct HTTP2TableSizeTests {
    private static func tableSize(_ value: UInt32) -> HTTP2WireSetting { HTTP2WireSetting(id: 1, value: value) }

    /// A response with 20 fields whose values no other response has.
    private static func unique(_ number: Int) -> String {
        let fields = (0..<20).map { "X-Unique-\($0): value-\(number)-\($0)\r\n" }.joined()
        return "HTTP/1.1 200 OK\r\n\(fields)Content-Length: 2\r\n\r\nok"
    }

    private static func replies(_ count: Int) -> [ScriptedUpstream.Step] {
        (0..<count).flatMap { [.request, .send(unique($0))] }
    }

    @Test(
        "Rule 54: the encoder uses at most 4,096 bytes, whatever size the client allows",
        arguments: [4_097, 65_536, 1 << 20, UInt32.max])
    func cap(_ size: UInt32) async throws {
        try await GatewaySetup(Self.replies(300)).http2().run { gateway in
            // The client's decoder has exactly 4,096 bytes, and fails on an update beyond.
            let client = try await gateway.http2(.init(settings: [Self.tableSize(size)]))
            try await client.settle()
            for index in 0..<300 {
                let response = try await client.exchange(UInt32(2 * index + 1), .get())
                #expect(response["x-unique-19"] == "value-\(index)-19")
                guard response.status == 200 else { break }
            }
            #expect(client.tableSizes.allSatisfy { $0 <= 4_096 }, "\(client.tableSizes)")
        }
    }

    @Test("Rule 54: the cost of a response does not grow with the number of distinct fields sent before")
    func cost() async throws {
        let count = 3_000
        try await GatewaySetup(Self.replies(count)).http2().run { gateway in
            let client = try await gateway.http2(.init(settings: [Self.tableSize(.max)]))
            try await client.settle()
            var durations: [Duration] = []
            for batch in 0..<(count / 100) {
                let start = ContinuousClock.now
                for index in 0..<100 {
                    _ = try await client.exchange(UInt32(2 * (100 * batch + index) + 1), .get())
                }
                durations.append(.now - start)
            }
            let early = durations.dropFirst().prefix(8).min() ?? .seconds(1)
            let late = durations.suffix(8).min() ?? .zero
            // A linear search of the fields sent before would take tens of times as long.
            #expect(late < early * 5, "100 responses took \(early), later \(late)")
        }
    }

    @Test("RFC 7541 §4.2: a smaller size is announced at the start of the next block, and the table is emptied")
    func smaller() async throws {
        let reply = "HTTP/1.1 200 OK\r\nX-Repeated: always the same\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2()
            for id in [1, 3, 5] as [UInt32] {
                #expect(try await client.exchange(id, .get())["x-repeated"] == "always the same")
            }
            client.send(.settings([Self.tableSize(0)]))
            try await client.settle()
            for id in [7, 9, 11] as [UInt32] {
                #expect(try await client.exchange(id, .get())["x-repeated"] == "always the same")
            }
            #expect(client.tableSizes.last == 0)
            // Without a table nothing is indexed, so equal responses have blocks of equal length.
            let lengths = [7, 9, 11].map { id in client.frames(of: UInt32(id)).first { $0.isHeaders }?.length ?? 0 }
            #expect(lengths[2] == lengths[1])
            #expect(lengths[2] > 30)
            client.send(.settings([Self.tableSize(4_096)]))
            try await client.settle()
            for id in [13, 15, 17, 19] as [UInt32] {
                #expect(try await client.exchange(id, .get())["x-repeated"] == "always the same")
            }
            #expect(client.tableSizes.allSatisfy { $0 <= 4_096 })
        }
    }

    @Test("RFC 7541 §4.2: of several changes between two blocks the smallest is announced first, then the last")
    func several() async throws {
        let reply = "HTTP/1.1 200 OK\r\nX-Repeated: always the same\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(reply), .again]).http2().run { gateway in
            let client = try await gateway.http2()
            for id in [1, 3, 5] as [UInt32] { _ = try await client.exchange(id, .get()) }
            client.send(
                .settings([Self.tableSize(2_000), Self.tableSize(0)]), .settings([Self.tableSize(100)]),
                .settings([Self.tableSize(.max)]))
            try await client.settle()
            #expect(try await client.exchange(7, .get())["x-repeated"] == "always the same")
            #expect(client.tableSizes.first == 0)
            #expect(client.tableSizes.count <= 2)
            #expect(client.tableSizes.allSatisfy { $0 <= 4_096 })
            #expect(try await client.exchange(9, .get())["x-repeated"] == "always the same")
        }
    }

    @Test("Rule 54: 1,000 changes of the table size between two responses cost no more than two updates")
    func games() async throws {
        try await GatewaySetup(Self.replies(20)).http2().run { gateway in
            let client = try await gateway.http2(.init(acknowledgesSettings: false))
            try await client.settle()
            for round in 0..<5 {
                let settings = (0..<200).map { Self.tableSize($0 % 2 == 0 ? 0 : UInt32.random(in: 1...UInt32.max)) }
                client.send(.settings(settings))
                try await client.settle()
                let before = client.tableSizes.count
                let response = try await client.exchange(UInt32(2 * round + 1), .get())
                #expect(response["x-unique-0"] == "value-\(round)-0")
                #expect(client.tableSizes.count - before <= 2)
            }
            #expect(client.tableSizes.allSatisfy { $0 <= 4_096 })
        }
    }
}
