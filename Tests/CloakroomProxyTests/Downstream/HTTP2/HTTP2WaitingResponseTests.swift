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

    @Test("Rule 80: beyond the budget of all waiting responses a connection gets no more than two")
    func budget() async throws {
        let scripts = Array(repeating: Self.responses(65_000), count: 200)
        var setup = GatewaySetup()
        setup.scripts = scripts
        try await setup.http2 { $0.limits.inFlightPerAddress = 0 }.run { gateway in
            let options = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)])
            var clients: [HTTP2Client] = []
            var begun = 0
            var resets = 0
            // Twice the budget.
            while resets == 0, begun * 65_000 < 2 * LoopContext.responseMemory {
                let client = try await gateway.http2(options)
                clients.append(client)
                let ids = (0..<50).map { UInt32(2 * $0 + 1) }
                client.send(ids.map { .headers($0, .get()) })
                begun += ids.count
                try await eventually("responses or resets") {
                    ids.allSatisfy { client.stream($0).status == 200 || client.stream($0).isEnded }
                }
                await gateway.settle()
                resets = ids.count { client.stream($0).reset == HTTP2ErrorCode.enhanceYourCalm }
            }
            #expect(resets > 0)
            #expect(resets <= 48)
            // Each loop has an equal part.
            #expect(begun * 65_000 >= LoopContext.responseMemory / 64)
            // A client that reads is served.
            let reader = try await gateway.http2()
            let response = try await reader.exchange(1, .get())
            #expect(response.bodyCount == 65_000)
            for client in clients { try? await client.channel.close() }
            await gateway.settle()
            let next = try await gateway.http2(options)
            let ids = (0..<50).map { UInt32(2 * $0 + 1) }
            next.send(ids.map { .headers($0, .get()) })
            try await eventually("all responses") { ids.allSatisfy { next.stream($0).status == 200 } }
        }
    }
}
