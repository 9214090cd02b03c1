import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Request bodies that wait for the upstream (RFC 9113 §5.2.2)", .serialized)
struct HTTP2WaitingBodyTests {
    private static let piece = Array(repeating: UInt8(0x61), count: 16_384)
    /// One stream less than the limit.
    private static let ids = Array(stride(from: UInt32(1), to: 198, by: 2))

    /// Sends on all streams as much as the windows allow, until they allow nothing more.
    /// - Returns: The number of body bytes sent.
    private static func fill(_ client: HTTP2Client, _ ids: [UInt32]) async throws -> Int {
        var sent = 0
        var idleRounds = 0
        while idleRounds < 10, !client.isClosed {
            var sentNow = 0
            for id in ids where !client.stream(id).isOver {
                let room = client.room(on: id)
                guard room > 0 else { continue }
                client.send(.data(id, Array(piece.prefix(room))))
                sentNow += min(room, piece.count)
            }
            sent += sentNow
            idleRounds = sentNow == 0 ? idleRounds + 1 : 0
            try await Task.sleep(for: .milliseconds(20))
        }
        return sent
    }

    @Test("Rule 58: the bodies of 99 streams whose upstream cannot be reached are at most 1 MiB on their connection")
    func unreachable() async throws {
        let port = try await BlackholePort(.isDeaf)
        defer { port.release() }
        try await GatewaySetup([]).with(\.upstreamPort, port.port).configuration {
            $0.timeouts.connect = .seconds(30)
        }
        .runHTTP2 { gateway, client in
            try await client.settle()
            let ids = Array(Self.ids.prefix(99))
            client.send(ids.map { .headers($0, .post(), ends: false) })
            let sent = try await Self.fill(client, ids)
            #expect(sent <= 1 << 20)
            #expect(sent > 100_000)
            expect(!client.isClosed)
            try await expect(client.exchange(201, .get("/nowhere"), within: .seconds(15)).status, equals: 404)
            try await expect(gateway.servesSoon())
            // The window of streams that are reset is returned.
            client.send(ids.map { .reset($0) })
            try await eventually("the window of the connection") {
                client.room(on: 203) >= 30_000
            }
        }
    }

    @Test("Rule 58: a request without body and a small upload are served while 99 bodies wait")
    func besideWaiting() async throws {
        let stalled: [ScriptedUpstream.Step] = [.head, .reading(false)]
        let scripts = Array(repeating: stalled, count: 99) + [[.request, .send(Reply.ok), .again]]
        let setup = GatewaySetup().with(\.scripts, scripts)
        try await setup.configuration { $0.limits.requestBuffer = 0 }.runHTTP2 { gateway, client in
            try await client.settle()
            let ids = Self.ids
            client.send(ids.map { .headers($0, .post(), ends: false) })
            try await eventually("99 requests") { gateway.upstream.requests.count == 99 }
            _ = try await Self.fill(client, ids)
            try await expect(client.exchange(201, .get()).text, equals: "ok")
            try await expect(gateway.servesSoon())
        }
    }

    @Test("RFC 9113 §5.2.2: each upload completes when several share the window of a connection")
    func shared() async throws {
        let total = 1 << 20
        let gate = Gate()
        let script: [ScriptedUpstream.Step] = [
            .head, .reading(false), .wait(gate), .reading(true), .body(total), .send(Reply.ok), .again,
        ]
        try await GatewaySetup(script).configuration { $0.limits.requestBuffer = 0 }.runHTTP2 { gateway, client in
            let ids = Array(Self.ids.prefix(8))
            client.send(ids.map { .headers($0, .post("/public/a", ("content-length", "\(total)")), ends: false) })
            try await eventually("all requests") { gateway.upstream.requests.count == ids.count }
            gate.open()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for id in ids { group.addTask { try await client.upload(id, total) } }
                try await group.waitForAll()
            }
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            expect(empty: client.goAways)
        }
    }

    @Test(
        "RFC 9113 §5.2: uploads that a client interleaves in small frames are forwarded, however they share the window",
        arguments: [300, 1_000, 4_096])
    func interleaved(frame size: Int) async throws {
        let total = 20_000
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            try await client.settle()
            let ids = Self.ids
            client.send(ids.map { .headers($0, .post("/public/a", ("content-length", "\(total)")), ends: false) })
            // Only what the windows allow, in turns.
            var left = Dictionary(uniqueKeysWithValues: ids.map { ($0, total) })
            let end = ContinuousClock.now + .seconds(40)
            while left.values.contains(where: { $0 > 0 }), !client.isClosed, .now < end {
                var isBlocked = true
                for id in ids {
                    let count = min(size, left[id, default: 0], client.room(on: id))
                    guard count > 0 else { continue }
                    isBlocked = false
                    left[id, default: 0] -= count
                    client.send(.data(id, Array(Self.piece.prefix(count)), ends: left[id] == 0))
                }
                if isBlocked { try await Task.sleep(for: .milliseconds(2)) }
            }
            expect(left.values.reduce(0, +), equals: 0)
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            expect(empty: client.goAways)
        }
    }

    @Test("RFC 9113 §6.9: DATA on streams that have ended returns the window of the connection")
    func closedStreams() async throws {
        try await GatewaySetup([.head]).configuration { $0.limits.body = 1_000 }.runHTTP2 { gateway, client in
            let ids = Array(Self.ids.prefix(60))
            client.send(ids.map { .headers($0, .post("/public/a", ("content-length", "100000")), ends: false) })
            for id in ids { try await expect(client.response(id).status, equals: 413) }
            // Data in flight, in total 60 times 30 KB, more than the window of the connection.
            for id in ids { try await client.upload(id, 30_000, ends: false) }
            try await eventually("the window of the connection") { client.room(on: 301) >= 30_000 }
            try await expect(client.exchange(303, .get("/nowhere")).status, equals: 404)
            expect(empty: client.goAways)
        }
    }
}
