import CloakroomCore
import CloakroomProxy
import Glibc
import NIOCore
import NIOPosix
import TestSupport
import Testing

@Suite("An upstream with a host name", .serialized)
struct HostNameTests {
    private static let responses: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .close]

    private func address(_ host: String, _ port: Int) throws -> SocketAddress {
        try SocketAddress(ipAddress: host, port: port)
    }

    @Test("A lack of descriptors of the gateway is 503 with Retry-After, and not a failure of the target")
    func noDescriptors() async throws {
        let resolver = HostResolver { _, _ in
            MultiThreadedEventLoopGroup.singleton.any().makeFailedFuture(IOError(errnoCode: EMFILE, reason: "socket"))
        }
        try await GatewaySetup().with(\.resolver, resolver).targets(.http("api.test", 9)).run { gateway in
            let response = try await gateway.client().exchange(Ask.get())
            expect(response.status, equals: 503)
            expect(response["Retry-After"], equals: "1")
            let target = try require(gateway.server.upstreamStatus().first?.targets.first)
            expect(target.condition == .up && target.circuit == .closed)
            let reason = "the gateway has no file descriptor, memory or local port left"
            expect(target.lastFailure?.reason, equals: reason)
        }
    }

    @Test("The system's addresses of localhost are used")
    func localhost() async throws {
        try await ScriptedUpstream.run([Self.responses]) { port, _ in
            try await GatewaySetup().targets(.http("localhost", port)).expect(.ok())
        }
    }

    @Test("If one of two addresses refuses the connection, the other is tried at once (RFC 8305 §5)")
    func oneRejects() async throws {
        try await ScriptedUpstream.run([Self.responses]) { port, upstream in
            // No process listens there on IPv6.
            let names = FakeNames([try address("::1", port), try address("127.0.0.1", port)])
            try await GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", port)).run {
                gateway, client async throws in
                let start = ContinuousClock.now
                for _ in 0..<4 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                #expect(ContinuousClock.now - start < .seconds(4))
                expect(upstream.connections.count, equals: 4)
                expect(names.asked, equals: 1)
            }
        }
    }

    @Test("If one of two addresses does not respond, the other is tried in parallel (RFC 8305 §5)")
    func oneIsDeaf() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await ScriptedUpstream.run([Self.responses]) { port, _ in
            let names = FakeNames([try address("127.0.0.1", deaf.port), try address("127.0.0.1", port)])
            try await GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", port)).expect(.ok())
        }
    }

    @Test("New connections rotate over all addresses")
    func roundRobin() async throws {
        try await ScriptedUpstream.run([Self.responses]) { first, one in
            try await ScriptedUpstream.run([Self.responses], at: try address("::1", 0)) { second, other in
                let names = FakeNames([try address("::1", second), try address("127.0.0.1", first)])
                try await GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", first))
                    .run { gateway, client async throws in
                        for _ in 0..<6 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                        expect(one.connections.count, equals: 3)
                        expect(other.connections.count, equals: 3)
                    }
            }
        }
    }

    @Test("Addresses are resolved again, new ones are used, and the last known ones are kept if resolution fails")
    func refreshed() async throws {
        try await ScriptedUpstream.run([Self.responses]) { first, one in
            try await ScriptedUpstream.run([Self.responses]) { second, other in
                let names = FakeNames([try address("127.0.0.1", first)])
                let setup = GatewaySetup().with(\.resolver, names.resolver)
                    .configuration {
                        $0.upstreams[0].targets = [.http("api.test", first)]
                        $0.upstreams[0].dns.interval = .milliseconds(1)
                    }
                try await setup.run { gateway, client in
                    try await expect(client.exchange(Ask.get()).text, equals: "ok")
                    expect(one.connections.count, equals: 1)
                    names.change(to: [try address("127.0.0.1", second)])
                    try await eventually("the new address in use") {
                        let response = try await client.exchange(Ask.get())
                        expect(response.text, equals: "ok")
                        return other.connections.count > 0
                    }
                    names.breakDown()
                    let before = names.asked
                    try await eventually("another lookup") {
                        let response = try await client.exchange(Ask.get())
                        expect(response.text, equals: "ok")
                        return names.asked > before + 2
                    }
                }
            }
        }
    }

    @Test(
        "A name without addresses is 502, is resolved again for the next request, and is counted as a failure of DNS",
        arguments: [true, false])
    func unknown(isBroken: Bool) async throws {
        let names = FakeNames([])
        if isBroken { names.breakDown() }
        try await GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", 80)).run {
            gateway, client in
            for _ in 0..<2 {
                let response = try await client.exchange(Ask.get())
                expect(response.problem, equals: "502 unreachable")
            }
            expect(names.asked, equals: 2)
            let labels = #"target="http://api.test:80",upstream="api""#
            try await gateway.metric(#"cloakroom_upstream_connects_total{outcome="dns",\#(labels)} 2"#)
            try await gateway.metric(#"cloakroom_upstream_connects_total{outcome="failed",\#(labels)} 0"#)
        }
    }

    @Test("A name that the system cannot resolve is 502")
    func reallyUnknown() async throws {
        try await GatewaySetup().targets(.http("no-such-host.invalid", 80))
            .run { gateway in
                let status = try await gateway.client().exchange(Ask.get()).status
                expect(status == 502 || status == 504)
            }
    }
}
