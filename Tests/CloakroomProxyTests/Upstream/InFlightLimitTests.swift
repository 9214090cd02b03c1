import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Limits of requests in flight (upstreams.NAME.inFlight)", .serialized)
struct InFlightLimitTests {
    private static let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"

    @Test("Requests beyond the limit wait, and each one that ends lets one begin", arguments: [true, false])
    func oneByOne(isReused: Bool) async throws {
        let gates = (0..<4).map { _ in Gate() }
        let reply = isReused ? Reply.ok : Self.closing
        let script = gates.flatMap { [.request, .wait($0), .send(reply)] as [ScriptedUpstream.Step] }
        let scripts = isReused ? [script] : gates.map { [.request, .wait($0), .send(reply), .close] }
        let setup = GatewaySetup().with(\.scripts, scripts)
        try await setup.configuration { $0.upstreams[0].inFlight = InFlightConfiguration(target: 1) }.run { gateway in
            var clients = [try await gateway.client()]
            for _ in gates.dropFirst() { clients.append(try await gateway.client()) }
            for (index, client) in clients.enumerated() {
                client.send(Ask.get("/public/\(index)"))
                if index == 0 { _ = try await gateway.upstream.request() }
            }
            for (index, gate) in gates.enumerated() {
                _ = try await gateway.upstream.request(index)
                try await Task.sleep(for: .milliseconds(50))
                expect(gateway.upstream.requests.count, equals: index + 1)
                gate.open()
            }
            for client in clients { try await expect(client.response().text, equals: "ok") }
            expect(gateway.upstream.requests.map(\.line).first, equals: "GET /public/0 HTTP/1.1")
        }
    }

    @Test("Requests of all event loops get their turn at the limit")
    func turns() async throws {
        try await GatewaySetup([.request, .delay(.milliseconds(20)), .send(Reply.ok), .again])
            .configuration {
                $0.eventLoops = 2
                $0.upstreams[0].inFlight = InFlightConfiguration(target: 2)
                // Many times what a request waits if all take turns: 12 clients of which two are served in 20 ms.
                $0.upstreams[0].pool.pendingTimeout = .milliseconds(1_500)
                $0.upstreams[0].pool.congestedTimeout = .milliseconds(1_500)
            }
            .run { gateway in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<12 {
                        group.addTask {
                            let client = try await gateway.client()
                            for _ in 0..<20 { try await expect(client.exchange(Ask.get()).status, equals: 200) }
                        }
                    }
                    try await group.waitForAll()
                }
                #expect(gateway.upstream.connections.count <= 4)
            }
    }

    @Test("A request that leaves while it waits for the limit lets the others begin")
    func leaving() async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again])
            .configuration {
                $0.upstreams[0].inFlight = InFlightConfiguration(target: 1)
                $0.upstreams[0].pool.pendingTimeout = .seconds(30)
                $0.upstreams[0].pool.congestedTimeout = .seconds(30)
            }
            .run { gateway in
                let first = try await gateway.client(sending: Ask.get("/public/first"))
                _ = try await gateway.upstream.request()
                let leaving = try await gateway.client(sending: Ask.get("/public/leaving"))
                await gateway.settle()
                let last = try await gateway.client(sending: Ask.get("/public/last"))
                await gateway.settle()
                try await leaving.close()
                await gateway.settle()
                gate.open()
                try await expect(first.response().text, equals: "ok")
                try await expect(last.response().text, equals: "ok")
                expect(
                    gateway.upstream.requests.map(\.line),
                    equals: [
                        "GET /public/first HTTP/1.1", "GET /public/last HTTP/1.1",
                    ])
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            }
    }
}
