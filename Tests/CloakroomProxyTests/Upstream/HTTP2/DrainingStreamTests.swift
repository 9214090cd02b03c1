import CloakroomCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

/// Streams to an upstream that no exchange needs and that cannot be reset yet, because resets are limited.
@Suite("Draining streams count for their clients", .serialized)
struct DrainingStreamTests {
    /// How a client leaves streams in use.
    enum Way: CaseIterable {
        case reset, disconnect, resetBehindProxy, resetInSession, malformedResponse, responseBeforeEnd
    }

    enum End: CaseIterable {
        case upstream, connection, time, reload
    }

    /// Open streams of an upstream that responds to nothing, or not completely.
    private final class Streams: Sendable {
        private let open = Mutex<[(link: FrameServer.Link, id: UInt32)]>([])
        private let received = Mutex(0)

        /// Number of requests received.
        var count: Int { received.withLock { $0 } }

        var script: FrameServer.Script {
            { link, event in
                switch event {
                case .headers(let id, let head, let ends) where head.first(name: ":path")?.hasSuffix("/a") == false:
                    self.open.withLock { $0.append((link, id)) }
                    if head.first(name: ":path") == "/public/malformed" {
                        link.send(.headers(id, HTTP2Fields([(":status", "x")]), ends: false))
                    } else if head.first(name: ":path") == "/public/again", self.count.isMultiple(of: 2) {
                        // The next attempt gets no response.
                        link.send(.headers(id, HTTP2Fields([(":status", "503")]), ends: false))
                    } else if !ends {
                        link.respond(id, "403")
                    }
                    self.received.withLock { $0 += 1 }
                case .headers(let id, _, ends: true): link.respond(id)
                case .reset(let id, _):
                    self.open.withLock { $0.removeAll { $0.id == id && $0.link.index == link.index } }
                default: break
                }
            }
        }

        /// Ends the streams that the gateway has not reset.
        func end() {
            let streams = open.withLock { streams in
                defer { streams = [] }
                return streams
            }
            for (link, id) in streams { link.send(.reset(id, .noError)) }
        }

        func closeConnections() { open.withLock { for (link, _) in $0 { link.close() } } }
    }

    /// A client with an address of its own, or a session of its own.
    private struct Attacker {
        let way: Way
        let cookie: String
        let gateway: RunningGateway
        let streams: Streams
        var client: HTTP2Client?
        var id: UInt32 = 1

        private var request: HTTP2Fields {
            let cookie = String(cookie.dropFirst("Cookie: ".count))
            return switch way {
            case .reset, .disconnect: .get("/public/slow")
            case .resetBehindProxy: .get("/public/slow", ("x-forwarded-for", "192.0.2.1"))
            case .resetInSession: .get("/private/slow", ("cookie", cookie))
            case .malformedResponse: .get("/public/malformed")
            case .responseBeforeEnd: .post("/public/early", ("content-length", "100000"))
            }
        }

        /// Sends a request.
        /// - Returns: Its status; `nil` if the upstream received it and does not respond.
        mutating func send() async throws -> Int? {
            let options = HTTP2Client.HTTP2ClientOptions(source: way == .resetInSession ? nil : "127.0.0.2")
            let client: HTTP2Client
            if let known = self.client { client = known } else { client = try await gateway.http2(options) }
            self.client = client
            let before = streams.count
            let id = id
            self.id += 2
            client.send(.headers(id, request, ends: way != .responseBeforeEnd))
            if way == .responseBeforeEnd { try await client.upload(id, 20_000, ends: false) }
            try await eventually("a result of \(id)") {
                client.stream(id).isOver
                    || ![.malformedResponse, .responseBeforeEnd].contains(way) && streams.count > before
            }
            return client.stream(id).status
        }

        /// Leaves the last request.
        mutating func leave() async throws {
            guard let client else { return }
            switch way {
            case .reset, .resetBehindProxy, .resetInSession: client.send(.reset(id - 2))
            case .disconnect:
                try await client.close()
                self.client = nil
                id = 1
            case .malformedResponse, .responseBeforeEnd: break
            }
            await gateway.settle()
        }

        /// Sends and leaves requests.
        /// - Returns: Number of those that were not rejected.
        mutating func occupy(_ count: Int) async throws -> Int {
            let before = streams.count
            for _ in 0..<count {
                let status = try await send()
                try await leave()
                if status == 429 { break }
            }
            return streams.count - before
        }

        /// The limit applies to requests that are not left, exactly.
        mutating func isAtRest() async throws {
            for _ in 0..<DrainingStreamTests.limit { try await expect(send(), equals: nil) }
            try await expect(send(), equals: 429)
        }
    }

    private static let limit = 10

    /// An upstream with 40 streams, and limits of 10 requests.
    private func run(
        _ way: Way, _ body: (inout Attacker, RunningGateway, Streams, FrameServer) async throws -> Void
    ) async throws {
        let streams = Streams()
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup().http2 {
            $0.limits.inFlightPerAddress = way == .resetInSession ? 0 : Self.limit
            $0.limits.inFlightPerSession = Self.limit
            if way == .resetBehindProxy { $0.trustedProxies = [CIDRBlock("127.0.0.2")].compactMap(\.self) }
        }
        .configuration {
            // The second one is for the pool after a reload.
            $0.upstreams[0].pool.maxConnections = 2
            $0.upstreams[0].pool.streams = 40
            $0.upstreams[0].retry = RetryConfiguration(statuses: [503], budget: 1, perSecond: 100)
            $0.upstreams[0].eject.most = 0
        }.with(\.sessions, sessions).steppedTime()
        .run(against: streams.script) { gateway, server in
            var attacker = Attacker(way: way, cookie: cookie, gateway: gateway, streams: streams)
            try await body(&attacker, gateway, streams, server)
        }
    }

    @Test(
        "Rule 63: a request counts until its stream to the upstream is closed, so others are served",
        arguments: Way.allCases)
    func counted(way: Way) async throws {
        try await run(way) { attacker, gateway, streams, server in
            // 20 of them are reset. Time does not pass, so no further resets are permitted.
            try await expect(attacker.occupy(100), equals: 20 + Self.limit)
            try await expect(attacker.send(), equals: 429)
            expect(server.resets.count, equals: 20)
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            streams.end()
            try await eventually("the end of the count") { try await attacker.send() != 429 }
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
        }
    }

    @Test("Rule 63: the count ends with the streams, whatever ends them, and only once", arguments: End.allCases)
    func ended(by end: End) async throws {
        try await run(.reset) { attacker, gateway, streams, server in
            try await expect(attacker.occupy(100), equals: 20 + Self.limit)
            switch end {
            case .upstream: streams.end()
            case .connection:
                streams.closeConnections()
                try await eventually("the end of the connection") { server.closedCount == 1 }
            case .time:
                try await gateway.advance(.seconds(5))
                try await eventually("the resets") { server.resets.count == 20 + Self.limit }
            case .reload:
                try await gateway.replace { $0.upstreams[0].pool.streams = 39 }
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                expect(server.connectionCount, equals: 2)
                try await expect(attacker.send(), equals: 429)
                streams.end()
                try await eventually("the end of the old connection") { server.closedCount == 1 }
            }
            await gateway.settle()
            try await attacker.isAtRest()
        }
    }

    @Test("Rule 63: each attempt of a request that is sent again counts until its stream is closed")
    func attempts() async throws {
        try await run(.reset) { attacker, gateway, streams, _ in
            // From now on no resets are permitted.
            try await expect(attacker.occupy(100), equals: 20 + Self.limit)
            streams.end()
            await gateway.settle()
            let client = try require(attacker.client)
            for _ in 0..<Self.limit / 2 {
                let before = streams.count
                expect(before.isMultiple(of: 2))
                client.send(.headers(attacker.id, .get("/public/again")))
                attacker.id += 2
                try await eventually("both attempts") { streams.count == before + 2 }
            }
            try await expect(attacker.send(), equals: 429)
            streams.end()
            await gateway.settle()
            try await attacker.isAtRest()
        }
    }

    @Test("Draining streams do not delay a shutdown")
    func shutdown() async throws {
        try await run(.disconnect) { attacker, gateway, streams, server in
            try await expect(attacker.occupy(100), equals: 20 + Self.limit)
            await gateway.beginDrain()
            try await gateway.stopped()
            try await eventually("the end of the connection") { server.closedCount == 1 }
        }
    }
}
