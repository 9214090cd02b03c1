import CloakroomCore
import CloakroomProxy
import TestSupport
import Testing

@Suite("Limits on the number of connections", .serialized)
struct ConnectionLimitTests {
    private static let setup = GatewaySetup.serving

    @Test("At the limit a new connection waits in the listen queue, and is served once there is room")
    func pausing() async throws {
        try await Self.setup.configuration { $0.limits.connections = 2 }.steppedTime().run { gateway in
            let first = try await gateway.client()
            let second = try await gateway.client()
            for client in [first, second] { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
            let third = try await gateway.client(sending: Ask.get("/public/third"))
            // Other connections continue, and the only event loop had time to accept the new one.
            for _ in 0..<10 { try await expect(first.exchange(Ask.get()).text, equals: "ok") }
            expect(third.received, equals: 0)
            expect(!third.isClosed)
            expect(!gateway.upstream.requests.contains { $0.line.contains("third") })
            try await second.close()
            try await expect(third.response().text, equals: "ok")
        }
    }

    @Test("Clients that connect and disconnect at the limit are all served")
    func churn() async throws {
        let setup = Self.setup.configuration {
            $0.limits.connections = 2
            $0.eventLoops = 2
        }
        try await setup.run { gateway in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<25 {
                            let client = try await gateway.client()
                            try await expect(
                                client.exchange(Ask.get("/public/a", "Connection: close")).text, equals: "ok")
                            try? await client.close()
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test("The limit applies to all listeners together")
    func listeners() async throws {
        let setup = Self.setup.configuration { configuration in
            configuration.limits.connections = 1
            configuration.listeners.append(ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 0)))
        }
        try await setup.run { gateway in
            expect(gateway.ports.count, equals: 2)
            let first = try await RawPeer.connect(port: gateway.ports[0], allowsHalfClosure: false)
            try await expect(first.exchange(Ask.get()).text, equals: "ok")
            let second = try await RawPeer.connect(port: gateway.ports[1], allowsHalfClosure: false, sending: Ask.get())
            for _ in 0..<10 { try await expect(first.exchange(Ask.get()).text, equals: "ok") }
            expect(second.received, equals: 0)
            try await first.close()
            try await expect(second.response().text, equals: "ok")
        }
    }

    @Test("A connection beyond the limit per address is closed at once")
    func perAddress() async throws {
        try await Self.setup.configuration { $0.limits.connectionsPerAddress = 2 }.run { gateway in
            let first = try await gateway.client()
            let second = try await gateway.client()
            for client in [first, second] { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
            let third = try await gateway.client()
            try await third.closed()
            expect(third.received, equals: 0)
            try await gateway.metric("cloakroom_rejections_total{reason=\"connections_per_address\"} 1")
            try await second.close()
            try await eventually("room for another") {
                guard let next = try? await gateway.client() else { return false }
                return (try? await next.exchange(Ask.get()).text) == "ok"
            }
            try await expect(first.exchange(Ask.get()).text, equals: "ok")
        }
    }

    @Test("A trusted peer may have any number of connections")
    func trustedPeer() async throws {
        let setup = Self.setup.configuration {
            $0.limits.connectionsPerAddress = 1
            $0.trustedProxies = [CIDRBlock("127.0.0.1")].compactMap(\.self)
        }
        try await setup.run { gateway in
            var clients: [RawPeer] = []
            for _ in 0..<3 { clients.append(try await gateway.client()) }
            for client in clients { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
        }
    }

    @Test("With a PROXY header the client's address is counted, and not the proxy's")
    func proxied() async throws {
        let setup = Self.setup.configuration {
            $0.limits.connectionsPerAddress = 1
            $0.listeners[0].proxyProtocolSources = [CIDRBlock("127.0.0.1")].compactMap(\.self)
        }
        func header(_ address: String) -> String { "PROXY TCP4 \(address) 198.51.100.2 56211 443\r\n" }
        try await setup.run { gateway in
            let first = try await gateway.client()
            try await expect(first.exchange(header("192.0.2.1") + Ask.get()).text, equals: "ok")
            let second = try await gateway.client()
            try await expect(second.exchange(header("192.0.2.2") + Ask.get()).text, equals: "ok")
            let again = try await gateway.client(sending: header("192.0.2.1") + Ask.get())
            try await again.closed()
            expect(again.received, equals: 0)
            try await gateway.metric("cloakroom_rejections_total{reason=\"connections_per_address\"} 1")
            // The proxy's own connections, such as health checks, are not limited.
            for _ in 0..<2 {
                try await expect(gateway.client().exchange("PROXY UNKNOWN\r\n" + Ask.get()).text, equals: "ok")
            }
        }
    }
}
