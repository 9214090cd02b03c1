import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// Floods by what the gateway does beyond the budget of the connection, which has tests of its own for each kind.
@Suite("Floods of frames that cost the gateway more than the client (RFC 9113 §10.5)", .serialized)
struct HTTP2FloodTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    @Test("Rule 56: a flood ends with ENHANCE_YOUR_CALM within 100,000 frames; meanwhile others are served")
    func flood() async throws {
        try await GatewaySetup([.head], Self.serves).runHTTP2(.init(acknowledgesSettings: false)) { gateway, client in
            client.send(.headers(1, .post(), ends: false))
            try await client.settle()
            let frames = Array(
                repeating: HTTP2WireFrame.settings([.initialWindow(0), .initialWindow(100_000)]), count: 100)
            for round in 0..<1_000 where !client.isClosed {
                client.send(frames)
                if round == 10 { try await expect(gateway.servesSoon()) }
                try await Task.sleep(for: .milliseconds(1))
            }
            try await expect(client.error(), equals: .enhanceYourCalm)
            try await client.closed()
            try await expect(gateway.servesSoon())
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_flood\"} 1")
        }
    }

    @Test("Rule 56: a client that does not read its responses to HEAD is not read from either")
    func unreadHeads() async throws {
        let fields = (0..<15).map { "X-Large-\($0): \(String(repeating: "a", count: 1_000))\r\n" }.joined()
        let reply = "HTTP/1.1 200 OK\r\n\(fields)Content-Length: 0\r\n\r\n"
        try await GatewaySetup.replying(reply).runHTTP2(.init(receiveBuffer: 16_384)) {
            gateway, client in
            try await client.settle()
            try await client.setReading(false)
            // In all 240 MB of heads, which no window holds back.
            for batch in 0..<200 {
                client.send((0..<80).map { .headers(UInt32(160 * batch + 2 * $0 + 1), .request("HEAD")) })
                try await Task.sleep(for: .milliseconds(20))
            }
            let count = try await waitUntilStable { gateway.upstream.requests.count }
            // The sockets hold some megabytes, the gateway less than one.
            #expect(count < 2_000)
            try await expect(gateway.servesSoon())
        }
    }

    @Test("Rule 56, CVE-2019-9517: 100 responses behind a window of 1 byte are reset in time, and others are served")
    func windowOfOne() async throws {
        try await GatewaySetup.serving.configuration { $0.timeouts.bodyIdle = .milliseconds(300) }.runHTTP2(
            .init(settings: [.initialWindow(1)], sendsWindowUpdates: false)
        ) { gateway, client in
            let ids = Array(stride(from: UInt32(1), to: 200, by: 2))
            client.send(ids.map { .headers($0, .get()) })
            try await eventually("heads") { ids.allSatisfy { client.stream($0).status == 200 } }
            try await expect(gateway.servesSoon())
            for id in ids {
                try await expect(client.response(id).reset != nil)
                expect(!client.stream(id).isEnded)
            }
            // The connection stays open.
            client.send(.settings([.initialWindow(1_000)]))
            try await expect(client.exchange(201, .get()).text, equals: "ok")
            try await expect(gateway.servesSoon())
        }
    }
}
