import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Responses that wait for the client's window", .serialized)
struct HTTP2WaitingResponseTests {
    private static func responses(_ count: Int) -> [ScriptedUpstream.Step] {
        let body = String(repeating: "a", count: count)
        return [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n\(body)"), .again]
    }

    @Test("Rule 80: a complete response counts as a request in flight until it is sent")
    func counted() async throws {
        try await GatewaySetup(Self.responses(100))
            .http2 {
                $0.limits.inFlightPerAddress = 3
                $0.routes[0].inFlight = 3
            }
            .run { gateway in
                let options = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
                let client = try await gateway.http2(options)
                for id: UInt32 in [1, 3, 5] {
                    client.send(.headers(id, .get()))
                    try await eventually("the head of \(id)") { client.stream(id).status == 200 }
                }
                #expect(try await gateway.client().exchange(Ask.get()).status == 429)
                client.send(.windowUpdate(1, 100), .windowUpdate(3, 99))
                #expect(try await client.response(1).bodyCount == 100)
                let other = try await gateway.client()
                #expect(try await other.exchange(Ask.get()).status == 200)
                // A reset and the end of a connection return the others.
                client.send(.reset(3))
                try await eventually("another") { gateway.metrics.contains("cloakroom_client_cap_total") }
                try await client.channel.close()
                await gateway.settle()
                let again = try await gateway.http2(options)
                for id: UInt32 in [1, 3, 5] {
                    again.send(.headers(id, .get()))
                    try await eventually("the head of \(id)") { again.stream(id).status == 200 }
                }
            }
    }

    @Test("Rule 80: beyond the budget of all waiting responses the connections that hold most of them end")
    func budget() async throws {
        let scripts = Array(repeating: Self.responses(65_000), count: 200)
        var setup = GatewaySetup()
        setup.scripts = scripts
        try await setup.steppedTime().http2 { $0.limits.inFlightPerAddress = 0 }.run { gateway in
            let waiting = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
            let small = try await gateway.http2(waiting)
            small.send(.headers(1, .get()), .headers(3, .get()))
            var clients: [HTTP2Client] = []
            let ids = (0..<50).map { UInt32(2 * $0 + 1) }
            // Twice the budget.
            while !clients.contains(where: \.isClosed), clients.count * 50 * 65_000 < 2 * LoopContext.responseMemory {
                let client = try await gateway.http2(waiting)
                clients.append(client)
                client.send(ids.map { .headers($0, .get()) })
                try await eventually("responses") {
                    client.isClosed || ids.allSatisfy { client.stream($0).status == 200 || client.stream($0).isEnded }
                }
                try await gateway.advance(.milliseconds(100))
            }
            let ended = clients.filter(\.isClosed)
            #expect(!ended.isEmpty)
            #expect(ended.allSatisfy { $0.goAways.last?.code == .enhanceYourCalm })
            #expect(gateway.metrics.contains("http2_waiting_responses"))
            // A connection on which little waits stays, and a client that reads gets everything.
            #expect(!small.isClosed)
            let reading = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(1 << 20)], keepsBodies: false)
            let reader = try await gateway.http2(reading)
            reader.send([.windowUpdate(0, 1 << 23)] + ids.map { .headers($0, .get()) })
            for id in ids { #expect(try await reader.response(id).bodyCount == 65_000) }
        }
    }
}
