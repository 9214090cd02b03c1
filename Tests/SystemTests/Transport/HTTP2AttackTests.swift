import Foundation
import TestSupport
import Testing

/// Frames of an attack. An attacker sends the first ones once for each connection, and repeats the others.
struct Attack: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var before: [UInt8] = []
    /// The number of frames in each repetition.
    var frameCount = 1
    var bytes: @Sendable (_ stream: UInt32) -> [UInt8]
}

/// The costs of attacks for the built program, as its CPU time and its memory.
@Suite("Costs of HTTP/2 attacks", .serialized, .timeLimit(.minutes(5)))
struct HTTP2AttackTests {
    private typealias Client = RawHTTP2Client

    private func serving(
        upstream port: Int, _ body: (_ gateway: GatewayProcess, _ port: Int) async throws -> Void
    ) async throws {
        var file = GatewayYAML(upstream: "http://127.0.0.1:\(port)")
        file.hasClearHTTP2 = true
        file.hasUpload = true
        try await GatewayProcess.running(file, set: ["timeouts.connect=120s"]) { gateway in
            try await body(gateway, gateway.clear.port)
        }
    }

    /// Whether another client is served within ten seconds, and the program still runs.
    private func servesOthers(_ gateway: GatewayProcess) async throws -> Bool {
        let start = ContinuousClock.now
        let response = try await gateway.client.get("/nowhere")
        return response.status == 404 && .now - start < .seconds(10) && gateway.program.isRunning
    }

    // MARK: - CPU time

    private static let bomb = Array(repeating: UInt8(0xbe), count: 16_000)
    /// `x: aaa…` of 3,900 bytes, to be put into the table.
    private static let remembered = [0x40, 1, 0x78, 0x7f, 0xbd, 0x1d] + Array(repeating: UInt8(0x61), count: 3_900)

    private static let attacks: [Attack] = [
        Attack(testDescription: "PING") { _ in Client.frame(6, Array(repeating: 1, count: 8)) },
        Attack(testDescription: "SETTINGS") { _ in Client.frame(4) },
        Attack(testDescription: "SETTINGS that change the table size") { stream in
            Client.frame(4, [0, 1] + Client.bytes(of: UInt64(stream % 5_000), 4))
        },
        Attack(testDescription: "PRIORITY") { Client.frame(2, stream: $0, [0, 0, 0, 0, 15]) },
        Attack(testDescription: "unknown frames") { Client.frame(0x2a, stream: $0) },
        Attack(testDescription: "window updates of 1 byte") { _ in Client.frame(8, [0, 0, 0, 1]) },
        Attack(testDescription: "requests that are reset at once", frameCount: 2) {
            Client.request($0, "/nowhere") + Client.frame(3, stream: $0, [0, 0, 0, 8])
        },
        Attack(testDescription: "uploads that are reset at once", frameCount: 2) {
            Client.request($0, "/upload", method: "POST", ends: false) + Client.frame(3, stream: $0, [0, 0, 0, 8])
        },
        Attack(testDescription: "uploads that are longer than declared", frameCount: 2) {
            Client.request($0, "/upload", method: "POST", ends: false, more: Client.field("content-length", "5"))
                + Client.frame(0, flags: 1, stream: $0, Array("hello!".utf8))
        },
        Attack(testDescription: "malformed requests") { Client.request($0, "/nowhere", more: Client.field("A", "b")) },
        Attack(testDescription: "HPACK bombs", before: Client.request(1, "/nowhere", more: remembered)) {
            Client.request($0, "/nowhere", more: bomb)
        },
        Attack(testDescription: "cookie crumbs", before: Client.request(1, "/nowhere", more: [0x60, 3, 97, 61, 98])) {
            Client.request($0, "/nowhere", more: bomb)
        },
        Attack(testDescription: "table-size updates in requests") {
            Client.frame(1, flags: 5, stream: $0, [0x20, 0x3f, 0xe1, 0x1f] + Client.block("/nowhere"))
        },
        Attack(
            testDescription: "CONTINUATION of one byte",
            before: Client.frame(1, flags: 1, stream: 1, Client.block("/nowhere") + [0, 0x7f, 0x7f])
        ) { _ in Client.frame(9, stream: 1, [0x78]) },
    ]

    @Test(
        "Rule 56: the frames of an attack cost less than twice as many honest requests of as many bytes",
        arguments: attacks)
    func cpuTime(_ attack: Attack) async throws {
        try await serving(upstream: try await ScriptedServer.rejectingPort()) { gateway, port in
            let honest = try await costOfRequests(gateway, port)
            let start = try gateway.program.cpuTime
            var count = 0
            var bytes = 0
            var connections = 0
            while count < 3_000, connections < 50 {
                let client = try await Client.connect(port: port)
                client.send(attack.before)
                var stream: UInt32 = 3
                for _ in 0..<20 where !client.isClosed {
                    let batch = (0..<50).flatMap { attack.bytes(stream + 2 * $0) }
                    stream += 100
                    client.send(batch)
                    bytes += batch.count
                    count += 50 * attack.frameCount
                    if count == 1_000 { try await expect(servesOthers(gateway)) }
                    try await client.settle()
                }
                connections += 1
                try await client.close()
            }
            let cost = try gateway.program.cpuTime - start
            let perFrame = cost / count
            let honestBytes = Client.request(1, "/nowhere").count
            let allowed = honest * 2 * max(1, Double(bytes) / Double(count * honestBytes))
            #expect(perFrame < allowed, "\(perFrame) for a frame, \(honest) for a request; \(connections) connections")
            try await expect(servesOthers(gateway))
        }
    }

    /// The CPU time of a request with a local response.
    private func costOfRequests(_ gateway: GatewayProcess, _ port: Int) async throws -> Duration {
        var best = Duration.seconds(1)
        for _ in 0..<3 {
            let client = try await Client.connect(port: port)
            let start = try gateway.program.cpuTime
            for batch in 0..<10 {
                client.send((0..<50).flatMap { Client.request(UInt32(100 * batch + 2 * $0 + 1), "/nowhere") })
                try await client.ended(50 * (batch + 1))
            }
            best = min(best, (try gateway.program.cpuTime - start) / 500)
            try await client.close()
        }
        return best
    }

    // MARK: - Memory

    /// A number of connections that upload on a number of streams each.
    struct Uploads: Sendable, CustomTestStringConvertible {
        var connections: Int
        var streams: Int
        var testDescription: String { "\(connections) connections with \(streams) streams" }
    }

    @Test(
        "Rule 58: uploads that wait for an upstream occupy less than 256 MiB in all",
        arguments: [Uploads(connections: 40, streams: 100), Uploads(connections: 400, streams: 16)])
    func uploads(_ uploads: Uploads) async throws {
        let hole = try await BlackholePort(.isDeaf)
        defer { hole.release() }
        try await serving(upstream: hole.port) { gateway, port in
            try await expect(servesOthers(gateway))
            let before = try gateway.program.residentBytes
            let ids = (0..<uploads.streams).map { UInt32(2 * $0 + 1) }
            var clients: [RawHTTP2Client] = []
            var sent = 0
            for _ in 0..<uploads.connections {
                let client = try await Client.connect(port: port)
                client.send(ids.flatMap { Client.request($0, "/upload", method: "POST", ends: false) })
                clients.append(client)
                sent += try await fill(client, ids, rounds: 3)
                if try gateway.program.residentBytes - before > 1 << 30 { break }
            }
            for client in clients { sent += try await fill(client, ids, rounds: 1) }
            let growth = try gateway.program.residentBytes - before
            #expect(growth < 256 << 20, "\(growth >> 20) MiB after \(sent >> 20) MiB were sent")
            try await expect(servesOthers(gateway))
            for client in clients { try await client.close() }
        }
    }

    /// Uploads as much as the windows allow.
    private func fill(_ client: RawHTTP2Client, _ ids: [UInt32], rounds: Int) async throws -> Int {
        var sent = 0
        for _ in 0..<rounds where !client.isClosed {
            try await client.settle()
            while !client.isClosed {
                let count = ids.reduce(0) { $0 + client.upload($1, upTo: 16_384) }
                guard count > 0 else { break }
                sent += count
            }
        }
        return sent
    }

    @Test("Rules 56 and 57: 200 connections with header blocks that do not end occupy less than 64 MiB")
    func headerBlocks() async throws {
        try await serving(upstream: try await ScriptedServer.rejectingPort()) { gateway, port in
            try await expect(servesOthers(gateway))
            let before = try gateway.program.residentBytes
            var clients: [RawHTTP2Client] = []
            for _ in 0..<200 {
                let client = try await Client.connect(port: port)
                client.send(Client.frame(1, flags: 1, stream: 1, Client.block("/nowhere")))
                for _ in 0..<40 where !client.isClosed {
                    client.send(Client.frame(9, stream: 1, Self.remembered + Self.bomb.prefix(10_000)))
                }
                clients.append(client)
            }
            try await expect(servesOthers(gateway))
            let growth = try gateway.program.residentBytes - before
            #expect(growth < 64 << 20, "\(growth >> 20) MiB")
            for client in clients { try await client.close() }
        }
    }
}
